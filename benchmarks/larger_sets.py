"""Sets larger than four: what happens when more Blocks are deleted at once than a policy may delete. An exploratory
run.

    DRSR_CATALOG_URL=... python -m benchmarks.larger_sets --states 20

Labelled states of train and validation with enough old Steps, one of each task, the shortest first. Up to eight Blocks
of each, the longest of eight chronological bins instead of four; every single Block is deleted, and of every larger
number a few sets drawn by seed. Reports, by the number of deleted Blocks: unsafe share, median harm, the interaction,
and how often the sum of single harms puts two sets of one size in the right order. Nothing is written to the catalog.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from benchmarks.second_opinion import labelled_states
from drsr.backbone.catalogue import load_backbone
from drsr.decide.candidates import BINS, Candidate, DecisionState, choose_candidates
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.label.target_nll import Pair, TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import TokenIds
from drsr.request.history import removal
from drsr.request.rendering import render_output
from drsr.request.view import caps_for
from drsr.settings import load_settings

BLOCKS = 8
SETS_OF_A_SIZE = 4
MEANINGFUL_GAP = 0.02


class DeletedTogether(NamedTuple):
    """One set of one state."""

    state: int
    members: tuple[int, ...]
    saving: float
    """Part of the request that goes."""
    harm: float


class OfOneSize(NamedTuple):
    """Numbers about the sets of one size."""

    blocks: int
    sets: int
    saving: float
    """Mean part of the request."""
    unsafe: float
    median_harm: float
    interaction: float
    """Mean of |H(A) - sum of single harms|, nats."""
    pairs: int
    sum_orders: float
    """Of pairs of sets of one state and this size whose harms differ by a meaningful gap, those that the sum of single
    harms orders rightly."""


def many_candidates(state: DecisionState) -> tuple[Candidate, ...]:
    """Return the longest deletable Block of each of eight chronological bins, by the rule that chooses one of each of
    four."""
    return choose_candidates(state.history, state.rendering, state.view, state.violations, bins=BLOCKS)


def drawn_sets(count: int, seed: int) -> list[tuple[int, ...]]:
    """Return every single Block, and of each larger size up to all of them a few sets, no set twice."""
    draw = random.Random(seed)
    chosen: list[tuple[int, ...]] = [(number,) for number in range(count)]
    for size in range(2, count + 1):
        every = list(combinations(range(count), size))
        chosen += sorted(draw.sample(every, min(SETS_OF_A_SIZE, len(every))))
    return chosen


def measure(scorer: TargetNll, state: DecisionState, target: TokenIds, number: int, seed: int) -> list[DeletedTogether]:
    """Return the harms of drawn sets of one state; empty if it has fewer than five deletable Blocks."""
    candidates = many_candidates(state)
    if len(candidates) <= BINS:
        return []
    sets = drawn_sets(len(candidates), seed + number)
    removals = [removal(state.history, [candidates[member].block for member in members]) for members in sets]
    view, rendering = state.view, state.rendering
    contexts = [rendering.token_ids, *(rendering.without(removed) for removed in removals)]
    intact, *deleted = scorer.score([Pair(view.token_ids(tokens), target) for tokens in contexts]).nlls
    if isinstance(intact, Exclusion):
        return []
    return [
        DeletedTogether(number, members, rendering.direct_saving(removed) / len(rendering), nll - intact)
        for members, removed, nll in zip(sets, removals, deleted, strict=True)
        if not isinstance(nll, Exclusion)
    ]


def by_size(sets: Sequence[DeletedTogether]) -> list[OfOneSize]:
    """Return one row per number of Blocks."""
    single = {(one.state, one.members[0]): one.harm for one in sets if len(one.members) == 1}
    sums = {
        one: sum(single[one.state, member] for member in one.members)
        for one in sets
        if all((one.state, member) in single for member in one.members)
    }
    rows = []
    for size in sorted({len(one.members) for one in sets}):
        mine = [one for one in sets if len(one.members) == size and one in sums]
        pairs = [
            (one.harm - other.harm) * (sums[one] - sums[other]) > 0
            for one, other in combinations(mine, 2)
            if one.state == other.state and abs(one.harm - other.harm) >= MEANINGFUL_GAP
        ]
        rows.append(
            OfOneSize(
                blocks=size,
                sets=len(mine),
                saving=float(np.mean([one.saving for one in mine])),
                unsafe=float(np.mean([one.harm > HARM_TOLERANCE for one in mine])),
                median_harm=float(np.median([one.harm for one in mine])),
                interaction=float(np.mean([abs(one.harm - sums[one]) for one in mine])),
                pairs=len(pairs),
                sum_orders=float(np.mean(pairs)) if pairs else float("nan"),
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=20, help="most states to measure (default: 20)")
    parser.add_argument("--minutes", type=float, default=30.0, help="after which no state is begun (default: 30)")
    parser.add_argument("--labeler", default="default")
    parser.add_argument("--seed", type=int, default=0, help="draws the sets (default: 0)")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    settings = load_settings()
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    scorer, caps = TargetNll(backbone), caps_for(backbone.window)
    artifacts = ArtifactStore(settings.artifact_root)
    with open_catalog(settings.catalog_url) as catalog:
        waiting = labelled_states(catalog, options.labeler)
    found: list[DeletedTogether] = []
    started, measured = time.monotonic(), 0
    for labelled in waiting:
        if measured >= options.states or time.monotonic() - started > 60 * options.minutes:
            break
        run = RecordedRun.from_json(artifacts.get(labelled.blob))
        states = freeze_trajectory(run, backbone.tokenizer, caps).states
        frozen = next(state for state in states if state.decision == labelled.decision)
        target = render_output(frozen.next_output, backbone.tokenizer)
        sets = measure(scorer, frozen.state, target, measured, options.seed)
        measured += bool(sets)
        found += sets
    print(f"{settings.backbone}, {measured} states of as many tasks, {len(found):,} sets")
    print("| " + " | ".join(OfOneSize._fields) + " |")
    for row in by_size(found):
        print("| " + " | ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row) + " |")


if __name__ == "__main__":
    main()
