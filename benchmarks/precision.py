"""How far rounding alone moves harm, and what each precision costs: `python -m benchmarks.precision [--keep FILE]`.

The same states and deletion sets of the sample corpus are measured in every precision and compared with float32. All
sides have the same weights: rounded to bfloat16 once, as most models are published. So what differs is only how the
model computes. The states are the shortest of every number of candidates, by turns. With `--keep` harms are written to
a file after every state and precision, and a later run measures only what is not there yet.

A CPU cannot show what a GPU would take, so time comes twice: CPU seconds here, and operations and bytes of the paper's
backbone (`benchmarks.traffic`). The exit code is 1 when the chosen precision's floor is above 0.002.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.traffic import per_token
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.matrices.mixed import with_mixed_precision
from drsr.backbone.memory import room_for
from drsr.offline import samples
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import contexts_of, interactions
from drsr.offline.label.target_nll import EXACT, Pair
from drsr.offline.label.tree_walk import TreeWalk
from drsr.offline.store.locations import open_location
from drsr.request.contracts import Tokenizer
from drsr.request.rendering import render_output
from drsr.request.view import caps_for
from drsr.settings import DTYPES, MIXED

FLOOR = 0.002
BFLOAT16_FACTORS = "bfloat16 factors"
"""float16-mixed with bfloat16 in its place: all in float32 but for the inputs of the layers' matrices. Not offered."""
BACKWARDS = "in another order"
PRECISIONS = (*DTYPES, BFLOAT16_FACTORS)

Harms = Mapping[int, float]


class Measured(NamedTuple):
    """One state in one precision."""

    harms: Harms
    """H(A) by mask."""
    cpu_s: float


class Floor(NamedTuple):
    """The effect of a precision on the harms of some states, in nats per token."""

    states: int
    sets: int
    mean: float
    p90: float
    largest: float
    interactions: dict[int, float]
    """By cardinality the mean of |I - I of float32|: the interaction that rounding alone makes."""
    order: float
    """The largest change when the contexts are computed in another order; not a number where that was not tried."""
    cpu_s: float


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    backbone = load_backbone(options.backbone)
    assert isinstance(backbone, FrozenLM)
    backbone.model.bfloat16().float()
    states = list(chosen_states(backbone.tokenizer, backbone.window, options.source, options.states))
    kept = Kept(options.keep)
    for precision in options.precisions:
        measured_in(precision, backbone, states, kept, options.orders)
        floor = floor_of(kept.of(precision, len(states)), kept.of(EXACT, len(states)), kept.orders(precision))
        print(json.dumps({precision: floor._asdict()}), flush=True)
    for precision in (EXACT, *(name for name in DTYPES if name != EXACT)):
        print(json.dumps({f"{precision} by operations": per_token(precision, tokens=options.tokens)._asdict()}))
    if MIXED not in options.precisions:
        return 0
    floor = floor_of(kept.of(MIXED, len(states)), kept.of(EXACT, len(states)), kept.orders(MIXED))
    print(f"{MIXED}: p90 {floor.p90:.4f} (at most {FLOOR}): {'met' if floor.p90 <= FLOOR else 'missed'}")
    return 0 if floor.p90 <= FLOOR else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--source", default=str(samples.CORPUS), help="recorded runs (default: the sample corpus)")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--orders", type=int, default=2, help="states that are also computed in another order (2)")
    parser.add_argument("--tokens", type=int, default=2048, help="of one forward, for operations and bytes")
    parser.add_argument("--keep", type=Path, help="keep harms in this file and go on from it")
    found = parser.parse_args()
    found.precisions = [EXACT, *(name for name in found.precisions if name != EXACT)]
    return found


def chosen_states(tokenizer: Tokenizer, window: int, source: str, count: int) -> Iterator[FrozenState]:
    """The shortest states of every number of candidates, by turns, so that larger sets are among them."""
    by_candidates: defaultdict[int, list[FrozenState]] = defaultdict(list)
    for file in gather(open_location(source)):
        for run in read(file):
            if isinstance(run, Trajectory):
                for frozen in freeze_trajectory(run, tokenizer, caps_for(window)).states:
                    by_candidates[len(frozen.state.candidates)].append(frozen)
    for group in by_candidates.values():
        group.sort(key=lambda frozen: len(frozen.state.rendering))
    turns = chain.from_iterable(zip_longest(*(by_candidates[number] for number in sorted(by_candidates))))
    yield from [frozen for frozen in turns if frozen is not None][:count]


def measured_in(precision: str, backbone: FrozenLM, states: Sequence[FrozenState], kept: Kept, orders: int) -> None:
    """Measure every state that is not kept yet."""
    model = None
    for number, frozen in enumerate(states):
        for order in ("", BACKWARDS)[: 2 if number < orders else 1]:
            if kept.has(precision, number, order):
                continue
            model = model or in_precision(backbone, precision)
            started = time.process_time()
            harms = harms_of(model, frozen, backwards=bool(order))
            kept.keep(precision, number, order, Measured(harms, time.process_time() - started))


def harms_of(backbone: FrozenLM, frozen: FrozenState, *, backwards: bool = False) -> Harms:
    """H(A) of every set of a state by shared prefixes, whatever the precision: nothing falls back to another way."""
    target = render_output(frozen.next_output, backbone.tokenizer)
    contexts = contexts_of(frozen.state)
    pairs = [Pair(contexts.intact, target), *(Pair(context, target) for _, context in contexts.deleted)]
    numbered = list(enumerate(pairs))
    walk = TreeWalk(
        backbone, dict(numbered[::-1] if backwards else numbered), {}, query_chunk=None, room=room_for(backbone)
    )
    outcomes = walk.run()
    nlls = [outcomes[number] for number in range(len(pairs))]
    if not all(isinstance(nll, float) for nll in nlls):
        raise RuntimeError(f"{backbone.name} cannot measure decision {frozen.decision}: {nlls}")
    intact, *deleted = (float(nll) for nll in nlls if isinstance(nll, float))
    return {found.mask: nll - intact for (found, _), nll in zip(contexts.deleted, deleted, strict=True)}


def in_precision(backbone: FrozenLM, precision: str) -> FrozenLM:
    """The same weights, computed with in another precision."""
    model = copy.deepcopy(backbone.model)
    if precision == MIXED:
        model = with_mixed_precision(model)
    elif precision == BFLOAT16_FACTORS:
        for module in model.get_decoder().modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_pre_hook(_rounded)
    else:
        model = model.to(getattr(torch, precision))
    return FrozenLM(
        model,
        backbone.tokenizer,
        name=backbone.name,
        identity=backbone.identity,
        window=backbone.window,
        precision=precision if precision in DTYPES else EXACT,
    )


def _rounded(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (given[0].bfloat16().float(), *given[1:])


class Kept:
    """Harms by precision, state and order, in memory and in a file if there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        rows: dict[str, Any] = json.loads(file.read_text()) if file is not None and file.exists() else {}
        self._rows = {
            name: Measured({int(mask): harm for mask, harm in row["harms"].items()}, row["cpu_s"])
            for name, row in rows.items()
        }

    def has(self, precision: str, number: int, order: str) -> bool:
        return _row(precision, number, order) in self._rows

    def keep(self, precision: str, number: int, order: str, measured: Measured) -> None:
        self._rows[_row(precision, number, order)] = measured
        if self._file is not None:
            self._file.write_text(json.dumps({name: row._asdict() for name, row in self._rows.items()}, indent=1))

    def of(self, precision: str, count: int) -> list[Measured]:
        """The first so many states."""
        return [self._rows[_row(precision, number, "")] for number in range(count)]

    def orders(self, precision: str) -> list[tuple[Harms, Harms]]:
        """The harms of a state in both orders, of every state that has them."""
        names = [name for name in self._rows if name.startswith(f"{precision}, ") and name.endswith(BACKWARDS)]
        return [(self._rows[name].harms, self._rows[name.removesuffix(f", {BACKWARDS}")].harms) for name in names]


def _row(precision: str, number: int, order: str) -> str:
    return ", ".join(filter(None, (precision, f"state {number}", order)))


def floor_of(found: Sequence[Measured], exact: Sequence[Measured], orders: Sequence[tuple[Harms, Harms]] = ()) -> Floor:
    """Compare the harms of some states with float32's."""
    apart = np.array(
        [abs(one.harms[mask] - other.harms[mask]) for one, other in _both(found, exact) for mask in one.harms]
    )
    joint: defaultdict[int, list[float]] = defaultdict(list)
    for one, other in _both(found, exact):
        here, there = interactions(one.harms), interactions(other.harms)
        for mask, value in here.items():
            joint[mask.bit_count()].append(abs(value - there[mask]))
    turned = [abs(one[mask] - other[mask]) for one, other in orders for mask in one]
    return Floor(
        states=len(found),
        sets=len(apart),
        mean=float(apart.mean()),
        p90=float(np.quantile(apart, 0.9)),
        largest=float(apart.max()),
        interactions={size: float(np.mean(values)) for size, values in sorted(joint.items())},
        order=max(turned, default=float("nan")),
        cpu_s=sum(one.cpu_s for one in found),
    )


def _both(found: Sequence[Measured], exact: Sequence[Measured]) -> Iterator[tuple[Measured, Measured]]:
    return zip(found, exact, strict=True)


if __name__ == "__main__":
    raise SystemExit(main())
