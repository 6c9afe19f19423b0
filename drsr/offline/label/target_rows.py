"""From final hidden states to NLLs: which tokens of a tree predict a target, and logits for those only.

Logits are made for the predicting tokens of several nodes at once, and never more of them than a set amount of memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from drsr.backbone.memory import is_out_of_memory
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.label.prefix_tree import Node
from drsr.offline.label.target_nll import Outcome, Pair, outcome
from drsr.request.contracts import TokenIds


class Piece(NamedTuple):
    """Some consecutive tokens of a node."""

    node: Node[Any]
    offset: int
    """Number of the node's tokens before them."""
    length: int

    @property
    def after(self) -> int:
        """Return how many of the node's tokens have been read after them."""
        return self.offset + self.length

    @property
    def tokens(self) -> TokenIds:
        return self.node.tokens[self.offset : self.after]

    @property
    def start(self) -> int:
        """Their first position."""
        return self.node.start + self.offset

    @property
    def stop(self) -> int:
        return self.start + self.length

    @property
    def is_last(self) -> bool:
        """Return whether the node ends with them."""
        return self.after == len(self.node.tokens)


class TargetRows:
    """Adds up the NLLs of the targets of some pairs while their tree is walked."""

    def __init__(
        self, pairs: Mapping[int, Pair], head: Callable[[torch.Tensor], torch.Tensor], rows_at_once: int
    ) -> None:
        """`head` makes logits [n, vocabulary] from final hidden states [n, d]; of at most so many rows at once."""
        self._pairs = pairs
        self._head = head
        self._rows_at_once = rows_at_once
        self._predicting: defaultdict[Node[Any], list[tuple[int, range]]] = defaultdict(list)
        self._sums = dict.fromkeys(pairs, 0.0)
        self._excluded: dict[int, Exclusion] = {}

    def note(self, pair: int, path: Iterable[Node[Any]]) -> None:
        """Return the path's positions that predict a pair's target: the last of the context to the last but one."""
        first = len(self._pairs[pair].context) - 1
        last = first + len(self._pairs[pair].target) - 1
        for node in path:
            positions = range(max(first, node.start), min(last + 1, node.stop))
            if positions:
                self._predicting[node].append((pair, positions))

    def exclude(self, pair: int, why: str) -> None:
        """Its NLL cannot be had for want of memory."""
        self._excluded[pair] = Exclusion(ExclusionReason.OUT_OF_MEMORY, why)

    def outcomes(self) -> dict[int, Outcome]:
        """Of every pair, once the whole tree was walked."""
        means = {index: self._sums[index] / len(pair.target) for index, pair in self._pairs.items()}
        return {index: self._excluded.get(index) or outcome(mean) for index, mean in means.items()}

    def add(self, pieces: Sequence[Piece], hidden: Sequence[torch.Tensor]) -> None:
        """Add what some pieces predict, from their final hidden states."""
        rows, targets, owners = [], [], []
        for piece, states in zip(pieces, hidden, strict=True):
            for pair, positions in self._predicting.get(piece.node, ()):
                start, stop = max(positions.start, piece.start), min(positions.stop, piece.stop)
                if start < stop:
                    first = start - (len(self._pairs[pair].context) - 1)
                    rows.append(states[start - piece.start : stop - piece.start])
                    targets.append(self._pairs[pair].target[first : first + stop - start])
                    owners.append(np.full(stop - start, pair))
        if rows and (together := _joined(rows)) is not None:
            self._add_rows(together, np.concatenate(targets).astype(np.int64), np.concatenate(owners))
            return
        for part, predicted, pairs in zip(rows, targets, owners, strict=True):
            self._add_rows(part, predicted.astype(np.int64), pairs)

    def _add_rows(self, rows: torch.Tensor, targets: NDArray[np.int64], owners: NDArray[np.int_]) -> None:
        predicted = torch.as_tensor(targets, device=rows.device)
        done = 0
        while done < len(rows):
            part = slice(done, min(done + self._rows_at_once, len(rows)))
            nlls, complaint = self._try_head(rows[part], predicted[part])
            if nlls is not None:
                for pair in np.unique(owners[part]).tolist():
                    self._sums[pair] += float(nlls[owners[part] == pair].sum())
                done = part.stop
            elif part.stop - done > 1:
                self._rows_at_once = (part.stop - done) // 2
            else:
                self.exclude(int(owners[done]), f"logits of a token: {complaint}")
                done += 1

    def _try_head(self, rows: torch.Tensor, predicted: torch.Tensor) -> tuple[NDArray[np.float64] | None, str]:
        """The NLL of every row's token, or None and what was said when memory did not suffice."""
        try:
            logits = self._head(rows).float()  # on another device where the model is on several
            return _nlls(logits, predicted.to(logits.device)), ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None, str(error).partition("\n")[0]


def _joined(rows: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """None where memory does not suffice for a copy."""
    try:
        return torch.cat(list(rows))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None


@torch.inference_mode()
def _nlls(logits: torch.Tensor, predicted: torch.Tensor) -> NDArray[np.float64]:
    """NLL of each predicted token. Overwrites the fp32 logits [n, vocabulary] instead of copying them.

    The normaliser is added up in fp64: over a large vocabulary fp32 sums lose 1e-5, and torch's log_softmax with them.
    """
    chosen = logits.gather(1, predicted[:, None])[:, 0].double()
    largest = logits.amax(dim=1, keepdim=True)
    normaliser = logits.sub_(largest).exp_().sum(dim=1, dtype=torch.float64).log() + largest[:, 0].double()
    nlls: NDArray[np.float64] = (normaliser - chosen).cpu().numpy()
    return nlls
