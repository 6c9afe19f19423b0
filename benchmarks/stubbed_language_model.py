"""A stub in the place of the language model: harms and features are drawn, and the time that takes is not counted."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from drsr.decide.candidates import DecisionState
from drsr.decide.deletion_sets import deletion_sets
from drsr.features.geometry import geometry_of
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import Kind, scored_layout
from drsr.offline.featurize import stage as featurize
from drsr.offline.featurize.records import FeaturizedState, featurized
from drsr.offline.freeze.rows import StateRow
from drsr.offline.label import remeasure
from drsr.offline.label import stage as label
from drsr.offline.label.harm import MeasuredHarm, MeasuredStates, StateHarms
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.request.contracts import TokenIds

KNOWN_STATES = 16
"""Number of states that the tiny model really reads."""
FloatMatrix = NDArray[np.float32]


class Clock:
    """CPU seconds of this process, but for those of the language model's stub."""

    def __init__(self) -> None:
        self._not_counted = 0.0

    def read(self) -> float:
        return time.process_time() - self._not_counted

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Run a block that is not counted."""
        started = time.process_time()
        try:
            yield
        finally:
            self._not_counted += time.process_time() - started


CLOCK = Clock()


@contextmanager
def stubbed_language_model() -> Iterator[None]:
    """Within the block, labels and features are drawn, and collected in one walk as in a real night."""
    drawn = StubOfFeaturizeStates()
    with (
        patch.object(label, "measure_states", stub_of_measure_states),
        patch.object(label, "CollectingWatch", drawn.watch),
        patch.object(remeasure, "measure_harm", stub_of_measure_harm),
        patch.object(featurize, "featurize_states", drawn),
    ):
        yield


def stub_of_measure_states(
    scorer: TargetNll, states: Sequence[tuple[DecisionState, TokenIds]], watches: Mapping[int, Any]
) -> MeasuredStates:
    harms = [tuple(_drawn_harms(state, target)) for state, target in states]
    return MeasuredStates(tuple(StateHarms(2.0, found, {}) for found in harms), Method.DIRECT, 0, 0)


def stub_of_measure_harm(
    backbone: Any, state: DecisionState, target: TokenIds, masks: Collection[int] | None = None
) -> Iterator[MeasuredHarm]:
    """Give the same harm when a set is measured again."""
    return (harm for harm in _drawn_harms(state, target) if masks is None or harm.deletion_set.mask in masks)


def _drawn_harms(state: DecisionState, target: TokenIds) -> list[MeasuredHarm]:
    sets = deletion_sets(state, len(state.candidates))
    with CLOCK.stopped():
        draw = random.Random(len(state.rendering))
        return [MeasuredHarm(found, 2.0, 2.0 + draw.gauss(0.01, 0.05)) for found in sets]


class StubOfFeaturizeStates:
    """The first few states are read by the tiny model; all others get the result of one of them with some noise, so
    that features have real scales."""

    def __init__(self) -> None:
        self.real = featurize.featurize_states
        self.known: defaultdict[Kind, list[FloatMatrix]] = defaultdict(list)

    def watch(self, backbone: Any, row: StateRow, kinds: Sequence[Kind]) -> StubOfCollectingWatch:
        return StubOfCollectingWatch(self, backbone, row)

    def __call__(self, backbone: Any, rows: Sequence[StateRow], kind: Kind = Kind.FULL) -> list[FeaturizedState]:
        known = self.known[kind]
        if len(known) < KNOWN_STATES:
            with CLOCK.stopped():
                found = self.real(backbone, rows, kind)
            known += [state.result.matrix for state in found if isinstance(state.result, CandidateFeatures)]
            return found
        layout = scored_layout(kind, geometry_of(backbone))
        results = []
        for row in rows:
            state = row.frozen.state
            with CLOCK.stopped():
                structural = structural_features(state)
                if kind is Kind.WINDOW:  # which has no such columns
                    structural = structural[:, :0]
                matrix = self._drawn(row.id, structural, known)
            features = CandidateFeatures(matrix, layout.hash, prefix_hash(state))
            sets = deletion_sets(state, len(state.candidates))
            results.append(featurized(row.id, row.state_key, state, sets, features))
        return results

    def _drawn(self, seed: int, structural: NDArray[np.float64], known: Sequence[FloatMatrix]) -> FloatMatrix:
        """Keep real what needs no language model: the expectations compare it with what was frozen."""
        draw = np.random.default_rng(seed)
        like = known[seed % len(known)]
        like = like[draw.integers(0, len(like), size=len(structural))]
        drawn = like * draw.normal(1.0, 0.2, size=like.shape)
        return np.hstack([structural, drawn[:, structural.shape[1] :]]).astype(np.float32)


class StubOfCollectingWatch:
    """Has seen the whole walk."""

    def __init__(self, features: StubOfFeaturizeStates, backbone: Any, row: StateRow) -> None:
        self.features, self.backbone, self.row = features, backbone, row

    def collected(self, kind: Kind) -> FeaturizedState:
        (found,) = self.features(self.backbone, [self.row], kind)
        return found
