"""What reading the branches of a hybrid model together could gain: `python -m benchmarks.hybrid_branches [FOLDER ...]`.

A model with recurrent layers reads the nodes of a prefix tree one by one, but for small siblings. Here the trees of
recorded runs are gone through by arithmetic, with the paper's backbone in bfloat16 on no device (`benchmarks.traffic`):
- one by one;
- small siblings as rows of a batch, filled up on the right, where only the longest goes on: as it is done;
- siblings of equal length as one batch, each with a copy of their parent's recurrent states;
- siblings of any length as batches: as far as the shortest goes, then the others as far as the next one goes;
- together, as full-attention models do: everything but the recurrent layers' mixers, which still go one by one.

A forward takes as long as its operations and bytes on an A100, or as its kernels take to start, whichever is longer.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

from benchmarks.traffic import GPUS, calls_of, model_on_meta, seconds
from drsr.backbone.catalogue import load_tokenizer
from drsr.offline import samples
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.prefix_tree import Node, as_one_batch, build_tree
from drsr.offline.label.tree_walk import FOR_NOTHING
from drsr.offline.store.locations import open_location
from drsr.request.rendering import render_output
from drsr.request.view import caps_for

CHUNK = 2048
"""New tokens per forward on a GPU."""
SIZES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
Tree = Node[Any]


class Costs:
    """Seconds and kernels of a forward by its tokens, between measured sizes by straight lines."""

    def __init__(self, start_seconds: float, config: Any | None = None) -> None:
        self.start_seconds = start_seconds
        model = model_on_meta("bfloat16", config)
        whole = [calls_of(model, size) for size in SIZES]
        with mock.patch.object(_mixer_of(model), "forward", _nothing):
            rest = [calls_of(model, size) for size in SIZES]
        self.kernels = len(whole[-1])
        self.kernels_of_rest = len(rest[-1])
        self._whole = [seconds(calls, GPUS["A100"]) for calls in whole]
        self._rest = [seconds(calls, GPUS["A100"]) for calls in rest]

    def alone(self, tokens: int) -> float:
        """Of a forward over one node, or over a batch of rows with so many tokens in all."""
        return max(self._between(self._whole, tokens), self.kernels * self.start_seconds)

    def together(self, pieces: Sequence[int]) -> float:
        """Of a forward over several nodes, whose mixers go one by one."""
        mixers = sum(self._between(self._whole, piece) - self._between(self._rest, piece) for piece in pieces)
        return max(self._between(self._rest, sum(pieces)) + mixers, self.started(pieces) * self.start_seconds)

    def started(self, pieces: Sequence[int]) -> int:
        """Return how many kernels that starts."""
        return self.kernels_of_rest + len(pieces) * (self.kernels - self.kernels_of_rest)

    def _between(self, values: list[float], tokens: int) -> float:
        return float(np.interp(tokens, SIZES, values))


def _mixer_of(model: Any) -> Any:
    (kind,) = {type(layer.linear_attn) for layer in model.get_decoder().layers if hasattr(layer, "linear_attn")}
    return kind


def _nothing(module: Any, hidden_states: torch.Tensor, **_: Any) -> torch.Tensor:
    return hidden_states


class Way(NamedTuple):
    """One way of reading some trees."""

    forwards: int = 0
    kernels: int = 0
    seconds: float = 0.0

    def and_these(self, forwards: Sequence[float], kernels: int) -> Way:
        return Way(self.forwards + len(forwards), self.kernels + kernels, self.seconds + sum(forwards))


def one_by_one(root: Tree, costs: Costs) -> list[float]:
    """The seconds of every forward."""
    return [costs.alone(piece) for node in root.walk() for piece in in_pieces(len(node.tokens))]


def small_siblings(root: Tree, costs: Costs) -> list[float]:
    """Rows of a batch where labelling reads them so."""
    found = []
    for node in root.walk():
        batch = as_one_batch(node.children, FOR_NOTHING["cuda"], CHUNK)
        found += [costs.alone(len(batch) * len(batch[-1].tokens))] if batch else []
        found += [
            costs.alone(piece)
            for child in node.children
            if child not in batch
            for piece in in_pieces(len(child.tokens))
        ]
    return found


def equal_siblings(root: Tree, costs: Costs) -> list[float]:
    """Children of one node that have the same length are a batch."""
    found = []
    for node in root.walk():
        lengths = sorted(len(child.tokens) for child in node.children)
        for length, same in groupby(lengths):
            found += [costs.alone(piece) for piece in in_pieces(length * len(list(same)))]
    return found


def siblings_in_steps(root: Tree, costs: Costs) -> list[float]:
    """Children of one node are a batch as far as the shortest goes; the others go on from there."""
    found = []
    for node in root.walk():
        lengths, done = sorted(len(child.tokens) for child in node.children), 0
        for number, length in enumerate(lengths):
            rows = len(lengths) - number
            found += [costs.alone(piece) for piece in in_pieces((length - done) * rows)]
            done = length
    return found


def filled(root: Tree) -> list[list[int]]:
    """The nodes in order as pieces that fill forwards."""
    forwards: list[list[int]] = [[]]
    for node in root.walk():
        left = len(node.tokens)
        while left:
            piece = min(left, CHUNK - sum(forwards[-1]))
            if not piece:
                forwards.append([])
                continue
            forwards[-1].append(piece)
            left -= piece
    return [forward for forward in forwards if forward]


def in_pieces(tokens: int) -> list[int]:
    return [min(CHUNK, tokens - start) for start in range(0, tokens, CHUNK)]


def trees_of(source: str, backbone: str, limit: int) -> Iterator[Tree]:
    """One tree per run, as labelling builds it."""
    tokenizer, window = load_tokenizer(backbone)
    found = 0
    for file in gather(open_location(source)):
        for run in read(file):
            states = freeze_trajectory(run, tokenizer, caps_for(window)).states if isinstance(run, Trajectory) else ()
            if not states or found == limit:
                continue
            found += 1
            sequences = {}
            for number, frozen in enumerate(states):
                contexts, target = contexts_of(frozen.state), render_output(frozen.next_output, tokenizer)[:-1]
                sequences[number, -1] = contexts.intact
                for place, context in enumerate([contexts.intact, *(context for _, context in contexts.deleted)]):
                    sequences[number, place] = np.concatenate([context, target])
            yield build_tree(sequences)


_BY_BATCHES = {
    "small siblings": small_siblings,
    "equal siblings": equal_siblings,
    "siblings in steps": siblings_in_steps,
}


def summary(trees: Sequence[Tree], costs: Costs) -> dict[str, Any]:
    """Return what all trees say together."""
    lengths = [len(node.tokens) for root in trees for node in root.walk() if len(node.tokens)]
    branchings = [node for root in trees for node in root.walk() if len(node.children) > 1]
    equal = sum(max(Counter(len(child.tokens) for child in node.children).values()) > 1 for node in branchings)
    ways = {name: Way() for name in ("one by one", *_BY_BATCHES, "together")}
    for root in trees:
        for name, way in {"one by one": one_by_one, **_BY_BATCHES}.items():
            found = way(root, costs)
            ways[name] = ways[name].and_these(found, len(found) * costs.kernels)
        forwards = filled(root)
        kernels = sum(costs.started(pieces) for pieces in forwards)
        ways["together"] = ways["together"].and_these([costs.together(pieces) for pieces in forwards], kernels)
    first = ways["one by one"].seconds
    return {
        "trees": len(trees),
        "tokens": sum(lengths),
        "nodes": len(lengths),
        "median node": float(np.median(lengths)),
        "branchings": len(branchings),
        "with siblings of equal length": equal,
        **{
            name: {"forwards": way.forwards, "kernels": way.kernels, "time": round(way.seconds / first, 3)}
            for name, way in ways.items()
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=[str(samples.CORPUS)], help="recorded runs (the sample corpus)")
    parser.add_argument("--backbone", default="smollm2-135m", help="whose tokens are counted")
    parser.add_argument("--runs", type=int, default=40, help="of each source at most")
    parser.add_argument(
        "--start", type=float, nargs="+", default=[5.0, 15.0], help="microseconds to start a kernel; not measured here"
    )
    options = parser.parse_args()
    costs = {start: Costs(start * 1e-6) for start in options.start}
    first = next(iter(costs.values()))
    print(json.dumps({"kernels of a forward": first.kernels, "without the mixers": first.kernels_of_rest}), flush=True)
    for source in options.sources:
        trees = list(trees_of(source, options.backbone, options.runs))
        for start, cost in costs.items():
            print(source, f"{start:g} us", json.dumps(summary(trees, cost)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
