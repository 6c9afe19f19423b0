"""Scores pairs of context and target by one depth-first walk over the radix tree of all of them.

Each node's tokens go through the model once. Going from one branch to the next, the model's state is taken back to
where they part. Nodes of a few dozen tokens would leave the processor half idle, so as many as fill a forward go
through it together, each attending over its own beginning. A model with recurrent layers takes them one by one, but
for small siblings: those are rows of a batch, filled up on the right, where only the longest is gone on with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from drsr.backbone.continuation import Continuation, Mark, Segment, Watch
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import MEGABYTE, SMALLEST_CHUNK, Room, is_out_of_memory
from drsr.offline.label.prefix_tree import Node, as_one_batch, branch_depth, build_tree, path_of, total_tokens
from drsr.offline.label.target_nll import Outcome, Pair
from drsr.offline.label.target_rows import Piece, TargetRows

FOR_NOTHING = {"cpu": 32, "cuda": 192}
"""Number of tokens up to which a forward takes as long as one of a single token, by device. On a CPU reading the
weights takes that long, on a GPU starting the kernels, at 9 us each. By arithmetic (decision 29), never measured on a
GPU."""


class NoRoom(Exception):
    """Buffers for the tree's longest path do not fit: in what is allowed, or in what there is."""


class _Key(NamedTuple):
    """A sequence of the tree."""

    pair: int
    is_context: bool
    """The bare context, so that a node ends at its pre-action token. Otherwise the context with its target."""


class TreeWalk:
    """One walk over some pairs; used once."""

    def __init__(
        self,
        backbone: FrozenLM,
        pairs: Mapping[int, Pair],
        watches: Mapping[int, Watch],
        *,
        query_chunk: int | None,
        room: Room,
    ) -> None:
        # The last token of a target predicts nothing that is scored.
        self._sequences = {
            _Key(i, False): np.concatenate([pair.context, pair.target[:-1]]) for i, pair in pairs.items()
        }
        self._sequences |= {_Key(i, True): pairs[i].context for i in watches}
        self._root = build_tree(self._sequences)
        longest = max(map(len, self._sequences.values()))
        marks = branch_depth(self._root) + 1  # one more while the state is extended
        if not room.holds(longest, marks):
            needed, allowed = room.state(longest, marks) // MEGABYTE + 1, room.total // MEGABYTE
            raise NoRoom(f"the state after {longest} tokens takes {needed} MB, label_memory_mb allows {allowed}")
        self._state = Continuation(backbone, longest, query_chunk=query_chunk)
        self._chunk = room.query_chunk(longest, marks, self._state.query_chunk)
        vocabulary = backbone.model.get_output_embeddings().weight.shape[0]
        rows_at_once = max(1, room.logit_bytes(longest, marks) // (4 * vocabulary))
        self._targets = TargetRows(pairs, self._state.head, rows_at_once)
        self._passing: defaultdict[Node[_Key], list[Watch]] = defaultdict(list)
        for key, sequence in self._sequences.items():
            path = path_of(self._root, sequence)
            if key.is_context:
                for node in path:
                    self._passing[node].append(watches[key.pair])
            else:
                self._targets.note(key.pair, path)
        self._todo = [(child, 0) for child in reversed(self._root.children)]
        """Nodes to come, each with how many of its tokens have been read; the next one last."""
        self._siblings = {node.children[0]: node.children[1:] for node in self._root.walk() if len(node.children) > 1}
        """Of a first child: those that are read after going back."""
        self._batches: dict[Node[_Key], list[Node[_Key]]] = {}
        """Of a first child: those of its family that are rows of one batch, in a model with recurrent layers."""
        if not self._state.reads_branches_together:
            for_nothing = FOR_NOTHING.get(backbone.model.device.type, 0)
            for first, others in self._siblings.items():
                batch = as_one_batch([first, *others], for_nothing, self._chunk)
                if batch and room.holds(longest, marks + len(batch)):  # each row has recurrent states of its own
                    self._batches[first] = batch
        self._marks: dict[Node[_Key], Mark] = {}
        """Mark to which a model with recurrent layers goes back before it reads a node."""
        self.tokens_processed = 0
        """Tokens that went through the model so far."""
        self._is_plain = True
        """Nothing was left out or read again for want of memory."""

    def run(self) -> dict[int, Outcome]:
        """Return the outcome of every pair."""
        while self._todo:
            step = self._next_step()
            hidden, complaint = self._try_read(step)
            if hidden is None:
                self._make_do(step, complaint)
                continue
            self.tokens_processed += step.tokens
            if not step.is_again:
                self._todo = step.then
                self._targets.add(step.pieces, hidden)
        if self._is_plain and self.tokens_processed != total_tokens(self._root):
            raise AssertionError(f"{self.tokens_processed} tokens processed, the tree has {total_tokens(self._root)}")
        return self._targets.outcomes()

    def _next_step(self) -> _Step:
        """Return what fills the next forward, in the order of the walk."""
        node, offset = self._todo[-1]
        if self._state.length < node.start + offset:
            return _Step([self._lost_piece(node)], self._todo, is_again=True)
        if offset == 0 and (batch := self._batches.pop(node, None)) and self._chunk > SMALLEST_CHUNK:
            return self._step_of(batch, [node, *self._siblings[node]])
        pieces: list[Piece] = []
        todo, left = list(self._todo), self._chunk
        alone = not self._state.reads_branches_together or self._chunk <= SMALLEST_CHUNK
        while todo and left and not (pieces and alone):
            node, offset = todo.pop()
            piece = Piece(node, offset, min(left, len(node.tokens) - offset))
            pieces.append(piece)
            left -= piece.length
            todo += [(child, 0) for child in reversed(node.children)] if piece.is_last else [(node, piece.after)]
        return _Step(pieces, todo)

    def _step_of(self, batch: list[Node[_Key]], family: list[Node[_Key]]) -> _Step:
        """Read these as rows of one batch, next what comes after the last of them, then the rest of the family."""
        later = [child for child in family if child not in batch]
        coming = [(child, 0) for child in (*reversed(later), *reversed(batch[-1].children))]
        pieces = [Piece(node, 0, len(node.tokens)) for node in batch]
        return _Step(pieces, self._todo[: -len(family)] + coming, later=later)

    def _lost_piece(self, node: Node[_Key]) -> Piece:
        """Return what must be read again of the way to a node: a forward that failed had written over it."""
        sequence = self._sequences[next(key for below in node.walk() for key in below.keys)]
        lost = next(found for found in path_of(self._root, sequence) if found.stop > self._state.length)
        offset = self._state.length - lost.start
        end = min(len(lost.tokens), self._todo[-1][1]) if lost is node else len(lost.tokens)
        return Piece(lost, offset, min(self._chunk, end - offset))

    def _try_read(self, step: _Step) -> tuple[list[torch.Tensor] | None, str]:
        """The final hidden states of every piece, or None and what was said when memory did not suffice.

        An own function, because the error keeps all tensors of the failed forward alive until it is left.
        """
        try:
            if self._state.reads_branches_together:
                return self._state.extend_branches([self._segment(piece, step.is_again) for piece in step.pieces]), ""
            if len(step.pieces) > 1:
                return self._read_batch(step), ""
            (piece,) = step.pieces
            return [self._read_alone(piece)], ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None, str(error).partition("\n")[0]

    def _segment(self, piece: Piece, is_again: bool) -> Segment:
        return Segment(piece.start, piece.tokens, None if is_again else self._watch(piece))

    def _read_alone(self, piece: Piece) -> torch.Tensor:
        """Marking and going back come first: if they fail, nothing was read, and all of it can be tried again."""
        if piece.node in self._marks:
            self._state.rewind(self._marks[piece.node])
        elif piece.node in self._siblings and piece.offset == 0:
            mark = self._state.mark()
            self._marks |= dict.fromkeys(self._siblings[piece.node], mark)
        if self._state.length != piece.start:
            raise AssertionError(f"the walk stands at {self._state.length}, the piece begins at {piece.start}")
        hidden = self._state.extend(piece.tokens, self._watch(piece))
        self._marks.pop(piece.node, None)
        return hidden

    def _read_batch(self, step: _Step) -> list[torch.Tensor]:
        """The state is behind their parent: nothing else is read between a parent and its first child."""
        mark = self._state.mark() if step.later else None
        hidden = self._state.extend_siblings([self._segment(piece, step.is_again) for piece in step.pieces])
        if mark is not None:  # not before: if it failed, they are read as if there had been no batch
            self._marks |= dict.fromkeys(step.later, mark)
        return hidden

    def _watch(self, piece: Piece) -> Watch | None:
        return _Watches(self._passing[piece.node]) if piece.node in self._passing else None

    def _make_do(self, step: _Step, complaint: str) -> None:
        """With less memory: smaller forwards, branches alone, then without what lies below the next node."""
        self._is_plain = False
        if step.tokens > SMALLEST_CHUNK or len(step.pieces) > 1:
            self._chunk = max(SMALLEST_CHUNK, step.tokens // 2)
        elif self._state.length == 0:
            raise NoRoom(f"buffers for {self._state.capacity} tokens: {complaint}")
        else:
            node, _ = self._todo.pop()
            for below in node.walk():
                for key in below.keys:
                    self._targets.exclude(key.pair, f"{step.tokens} tokens after {self._state.length}: {complaint}")


class _Step(NamedTuple):
    """The next input of the model."""

    pieces: list[Piece]
    then: list[tuple[Node[_Key], int]]
    """Work to do after it."""
    later: Sequence[Node[_Key]] = ()
    """Siblings of a batch that are read after going back."""
    is_again: bool = False
    """Its targets are counted already, and whoever watched has seen it."""

    @property
    def tokens(self) -> int:
        return sum(piece.length for piece in self.pieces)


class _Watches:
    """Those who watch one node: all whose context runs through it."""

    def __init__(self, passing: list[Watch]) -> None:
        self._passing = passing
        self.attention_layers = frozenset(layer for watch in passing for layer in watch.attention_layers)

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        for watch in self._passing:
            watch.hidden(layer, start, states)

    def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        for watch in self._passing:
            if layer in watch.attention_layers:
                watch.attention(layer, queries, keys)
