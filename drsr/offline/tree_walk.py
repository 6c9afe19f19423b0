"""Scores pairs of context and target by one depth-first walk over the radix tree of all of them.

Each node's tokens go through the model once. Going from one branch to the next, the model's state is taken back to
where they part. Logits are made at target positions only, and never more than a set amount of memory at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch

from drsr.backbone.continuation import Continuation, Mark, Watch
from drsr.backbone.frozen_lm import FrozenLM
from drsr.contracts import TokenIds
from drsr.offline.prefix_tree import Node, branch_depth, build_tree, path_of, total_tokens
from drsr.offline.target_nll import Exclusion, ExclusionReason, Outcome, Pair, is_out_of_memory, outcome
from drsr.offline.walk_memory import MEGABYTE, SMALLEST_CHUNK, Room


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
        self._pairs = pairs
        # The last token of a target predicts nothing that is scored.
        sequences = {_Key(i, False): np.concatenate([pair.context, pair.target[:-1]]) for i, pair in pairs.items()}
        sequences |= {_Key(i, True): pairs[i].context for i in watches}
        self._root = build_tree(sequences)
        self._scored: defaultdict[Node[_Key], list[tuple[int, range]]] = defaultdict(list)
        self._passing: defaultdict[Node[_Key], list[Watch]] = defaultdict(list)
        self._ending: defaultdict[Node[_Key], list[Watch]] = defaultdict(list)
        for key, sequence in sequences.items():
            path = path_of(self._root, sequence)
            if key.is_context:
                self._ending[path[-1]].append(watches[key.pair])
                for node in path:
                    self._passing[node].append(watches[key.pair])
            else:
                self._note_targets(key.pair, path)
        longest = max(map(len, sequences.values()))
        marks = branch_depth(self._root) + 1  # one more while the state is extended
        if not room.holds(longest, marks):
            needed, allowed = room.state(longest, marks) // MEGABYTE + 1, room.total // MEGABYTE
            raise NoRoom(f"the state after {longest} tokens takes {needed} MB, label_memory_mb allows {allowed}")
        self._state = Continuation(backbone, longest, query_chunk=query_chunk)
        self._chunk = room.query_chunk(longest, marks, self._state.query_chunk)
        vocabulary = backbone.model.get_output_embeddings().weight.shape[0]
        self._logit_rows = max(1, room.logit_bytes(longest, marks) // (4 * vocabulary))
        self._nll_sums = dict.fromkeys(pairs, 0.0)
        self._excluded: dict[int, Exclusion] = {}
        self.tokens_processed = 0
        """Tokens that went through the model so far."""

    def _note_targets(self, pair: int, path: Iterable[Node[_Key]]) -> None:
        """Which positions of which nodes predict the target: from the last of the context to the last but one."""
        first = len(self._pairs[pair].context) - 1
        last = first + len(self._pairs[pair].target) - 1
        for node in path:
            positions = range(max(first, node.start), min(last + 1, node.stop))
            if positions:
                self._scored[node].append((pair, positions))

    def run(self) -> dict[int, Outcome]:
        """The outcome of every pair."""
        todo = self._branches(self._root)
        while todo:
            node, parting = todo.pop()
            if self._state.length > node.start:
                assert parting is not None
                self._state.rewind(parting)
            hidden = self._extend(node)
            if hidden is not None:
                self._score(node, hidden)
                todo += self._branches(node)
        if not self._excluded and self.tokens_processed != total_tokens(self._root):
            raise AssertionError(f"{self.tokens_processed} tokens processed, the tree has {total_tokens(self._root)}")
        means = {i: self._nll_sums[i] / len(pair.target) for i, pair in self._pairs.items()}
        return {i: self._excluded.get(i) or outcome(mean) for i, mean in means.items()}

    def _branches(self, node: Node[_Key]) -> list[tuple[Node[_Key], Mark | None]]:
        """What to do next, last first. An only child follows without going back, so nothing is marked for it."""
        mark = self._state.mark() if len(node.children) > 1 else None
        return [(child, mark) for child in reversed(node.children)]

    def _extend(self, node: Node[_Key]) -> torch.Tensor | None:
        """Final hidden states of the node's tokens. None if memory did not suffice: all pairs below are excluded."""
        hidden, done = [], 0
        while done < len(node.tokens):
            piece = node.tokens[done : done + self._chunk]
            is_last = done + len(piece) == len(node.tokens)
            states, complaint = self._try_extend(piece, self._watch(node, is_last=is_last))
            if states is not None:
                hidden.append(states)
                done += len(piece)
                self.tokens_processed += len(piece)
            elif len(piece) > SMALLEST_CHUNK:
                self._chunk = max(SMALLEST_CHUNK, len(piece) // 2)
            elif self._state.length == 0:
                raise NoRoom(f"buffers for {self._state.capacity} tokens: {complaint}")
            else:
                self._exclude_below(node, f"{len(piece)} tokens after {self._state.length}: {complaint}")
                return None
        return hidden[0] if len(hidden) == 1 else torch.cat(hidden)

    def _try_extend(self, piece: TokenIds, watch: Watch | None) -> tuple[torch.Tensor | None, str]:
        """The hidden states, or None and what was said when memory did not suffice.

        An own function, because the error keeps all tensors of the failed forward alive until it is left.
        """
        try:
            return self._state.extend(piece, watch), ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None, str(error).partition("\n")[0]

    def _watch(self, node: Node[_Key], *, is_last: bool) -> Watch | None:
        if node not in self._passing:
            return None
        return _Watches(self._passing[node], self._ending[node] if is_last else [])

    def _exclude_below(self, node: Node[_Key], why: str) -> None:
        for below in node.walk():
            for key in below.keys:
                self._excluded[key.pair] = Exclusion(ExclusionReason.OUT_OF_MEMORY, why)

    def _score(self, node: Node[_Key], hidden: torch.Tensor) -> None:
        """Add the node's share to the NLLs of the pairs whose targets it predicts."""
        for pair, positions in self._scored.get(node, ()):
            target = self._pairs[pair].target
            first = positions.start - (len(self._pairs[pair].context) - 1)
            predicted = torch.as_tensor(target[first : first + len(positions)].astype(np.int64), device=hidden.device)
            rows = hidden[positions.start - node.start : positions.stop - node.start]
            done = 0
            while done < len(rows):
                part = slice(done, min(done + self._logit_rows, len(rows)))
                nll, complaint = self._try_head(rows[part], predicted[part])
                if nll is not None:
                    self._nll_sums[pair] += nll
                    done = part.stop
                elif part.stop - done > 1:
                    self._logit_rows = (part.stop - done) // 2
                else:
                    self._excluded[pair] = Exclusion(ExclusionReason.OUT_OF_MEMORY, f"logits of a token: {complaint}")
                    break

    def _try_head(self, rows: torch.Tensor, predicted: torch.Tensor) -> tuple[float | None, str]:
        """The summed NLL of some tokens, or None and what was said when memory did not suffice."""
        try:
            return _nll_sum(self._state.head(rows).float(), predicted), ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None, str(error).partition("\n")[0]


@torch.inference_mode()
def _nll_sum(logits: torch.Tensor, predicted: torch.Tensor) -> float:
    """Summed NLL of the predicted tokens. Overwrites the fp32 logits [n, vocabulary] instead of copying them.

    The normaliser is added up in fp64: over a large vocabulary fp32 sums lose 1e-5, and torch's log_softmax with them.
    """
    chosen = logits.gather(1, predicted[:, None])[:, 0].double()
    largest = logits.amax(dim=1, keepdim=True)
    normaliser = logits.sub_(largest).exp_().sum(dim=1, dtype=torch.float64).log() + largest[:, 0].double()
    return float((normaliser - chosen).sum())


class _Watches:
    """Those who watch one node: all whose context runs through it, and those whose context ends with it."""

    def __init__(self, passing: list[Watch], ending: list[Watch]) -> None:
        self._passing = passing
        self._ending = ending
        self.attention_layers = frozenset(layer for watch in ending for layer in watch.attention_layers)

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        for watch in self._passing:
            watch.hidden(layer, start, states)

    def attention(self, layer: int, query: torch.Tensor, keys: torch.Tensor) -> None:
        for watch in self._ending:
            if layer in watch.attention_layers:
                watch.attention(layer, query, keys)
