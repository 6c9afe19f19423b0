"""Decide recorded requests by an 8-bit backbone, offline and online: `python -m benchmarks.eight_bit [--states 200]`.

Offline means what training and calibration see: runs are ingested, frozen and featurized in a catalog of their own, as
`drsr ingest`, `drsr freeze` and `drsr featurize` do it, and the set is chosen from the stored features. Online means
`Policy.prune` on the same request, read again. The policy has seeded weights of the real shapes; its threshold is the
median score of what it would delete without one, so that the features decide whether and what is deleted. Exit code 1
unless all verdicts are the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.long_request import recorded_runs
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.decide.deletion_sets import deletion_sets
from drsr.decide.selection import ProposedSets, select
from drsr.features.vectors import CandidateFeatures
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import present_view
from drsr.offline.freeze.rows import load_states
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from drsr.policy.policy import Policy
from drsr.request.view import caps_for
from tests.seeded_policies import tiny_policy


class Stored(NamedTuple):
    """A frozen state and its stored features."""

    state: DecisionState
    matrix: NDArray[np.float32]


class Compared(NamedTuple):
    """One request, decided twice."""

    tokens: int
    offline: tuple[str, ...]
    """Names of the Blocks that are deleted; empty if the policy abstains."""
    online: tuple[str, ...]
    difference: float
    """Largest difference of a feature."""
    unread: str
    """Reason why nothing was read online; empty if something was."""

    @property
    def is_same(self) -> bool:
        return self.offline == self.online and not self.unread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="smollm2-135m-int8")
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--location", default=str(recorded_runs() / "intercode"), help="recorded runs, short ones")
    options = parser.parse_args()
    torch.set_num_threads(1)
    backbone = load_backbone(options.backbone)
    assert isinstance(backbone, FrozenLM)
    found: list[Compared] = []
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        stored = featurized(backbone, options.location, options.states, Path(folder))
        print(f"{len(stored)} states featurized offline, {time.process_time() - start:.0f} s of CPU", flush=True)
    start = time.process_time()
    for compared in decided_twice(backbone, stored):
        found.append(compared)
        if len(found) % 20 == 0:
            print(f"{len(found)} decided online, {sum(one.is_same for one in found)} the same", flush=True)
    print(f"decided online, {time.process_time() - start:.0f} s of CPU")
    print(shown(options.backbone, found))
    return 0 if found and all(one.is_same for one in found) else 1


def featurized(backbone: FrozenLM, location: str, states: int, folder: Path) -> list[Stored]:
    """Return at least that many states of the runs at a location, if there are as many, with features from a
    catalog."""
    caps = caps_for(backbone.window)
    run = featurize_run(backbone, "float32", caps, limit=states)
    freezing = run.identity.freezing
    artifacts = ArtifactStore(str(folder / "artifacts"))
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog:
        ingest(catalog, artifacts, location)
        freeze(catalog, artifacts, backbone.tokenizer, caps)
        materialize(catalog, artifacts, backbone, run)
        with catalog.reading() as connection:
            view = present_view(connection, run.view, run.identity)
            assert view is not None
            there = stored_states(connection, view)
        reader = FeatureReader(artifacts, view)
        frozen = {
            row.state_key: row.frozen.state
            for item in dict.fromkeys(state.trajectory for state in there)
            for row in load_states(catalog, artifacts, item, backbone.tokenizer, caps, freezing)
        }
        return [Stored(frozen[state.state_key], reader.matrix(state)) for state in there[:states]]


def decided_twice(backbone: FrozenLM, stored: Sequence[Stored]) -> Iterator[Compared]:
    """Yield each request decided from its stored features, and by `Policy.prune`."""
    policy = tiny_policy(backbone, _threshold(tiny_policy(backbone, minimums=None), stored), minimums=None)
    for one in stored:
        decision = policy.prune(request=one.state.history.request.to_wire(), session=None)
        outcome = decision.outcome
        read = outcome.evidence.features if outcome else None
        yield Compared(
            tokens=len(one.state.rendering),
            offline=_chosen(policy, one),
            online=tuple(block.name for block in outcome.removed) if outcome else (),
            difference=_difference(read, one.matrix),
            unread=decision.detail if read is None else "",
        )


def shown(backbone: str, found: Sequence[Compared]) -> str:
    """Return the result in a few lines."""
    tokens = sorted(one.tokens for one in found)
    pruned = sum(bool(one.offline) for one in found)
    sizes = Counter(len(one.offline) for one in found if one.offline)
    lines = [
        f"{backbone}: {sum(one.is_same for one in found)} of {len(found)} verdicts are the same",
        f"requests of {tokens[0]:,} to {tokens[-1]:,} tokens, median {tokens[len(tokens) // 2]:,}",
        f"{pruned} pruned offline, by Blocks at once: {dict(sorted(sizes.items()))}; {len(found) - pruned} left alone",
        f"features equal to the bit in {sum(one.difference == 0 for one in found)}, largest difference of one "
        f"{max(one.difference for one in found):.3g}",
    ]
    lines += [
        f"  differs: {one.tokens:,} tokens, offline {one.offline}, online {one.online} {one.unread}"
        for one in found
        if not one.is_same
    ]
    return "\n".join(lines)


def _threshold(policy: Policy, stored: Sequence[Stored]) -> float:
    """Return the median score of what would be deleted without a threshold: half of the states must choose differently,
    or nothing."""
    scores = []
    for one in stored:
        proposed = _proposed(policy, one)
        chosen = select(proposed, len(one.state.rendering), policy.numbers.rule).chosen
        scores += [] if chosen is None else [float(proposed.unsafe_score[chosen])]
    return float(np.median(scores))


def _proposed(policy: Policy, one: Stored) -> ProposedSets:
    numbers, sets = policy.numbers, deletion_sets(one.state, policy.numbers.max_cardinality)
    scores = policy.frozen.scorer.score(
        one.matrix,
        [candidate.direct_saving for candidate in one.state.candidates],
        [found.mask for found in sets],
        [found.direct_saving for found in sets],
    )
    return ProposedSets(
        cardinality=np.array([len(found.members) for found in sets], dtype=np.int64),
        direct_saving=np.array([found.direct_saving for found in sets], dtype=np.int64),
        protocol_safe=np.array([not found.violations for found in sets]),
        unsafe_score=scores.unsafe_score(numbers.uncertainty_coefficient),
        predicted_harm=scores.predicted_harm,
    )


def _chosen(policy: Policy, one: Stored) -> tuple[str, ...]:
    selection = select(_proposed(policy, one), len(one.state.rendering), policy.numbers.rule)
    if selection.chosen is None:
        return ()
    members = deletion_sets(one.state, policy.numbers.max_cardinality)[selection.chosen].members
    return tuple(one.state.candidates[member].block.name for member in members)


def _difference(read: CandidateFeatures | None, stored: NDArray[np.float32]) -> float:
    return float("nan") if read is None else float(np.abs(read.matrix - stored).max(initial=0.0))


if __name__ == "__main__":
    sys.exit(main())
