"""Small labelled frames with harms from a known rule, for the tests of training, metrics and calibration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drsr.decide.selection import ProposedSets
from drsr.offline.ingest.splits import Split
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.params import Params, load_params
from drsr.offline.train.examples import ExampleFrame, LabelRow, StateFeatures, StateRow, TrainingFrame, assemble
from drsr.offline.train.scored_sets import ScoredSets

PARAMS_FILE = Path(__file__).parent.parent.parent / "params.yaml"
LAYOUT = "layout-of-tests"
LABELER = "labeler-of-tests"

HarmRule = Callable[[NDArray[np.float32], tuple[int, ...]], float]
"""Harm of deleting these members, from the features of all candidates."""


def params() -> Params:
    return load_params(PARAMS_FILE)


def additive_harm(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
    """Each candidate has its own harm, of either sign; jointly they add up."""
    return float(0.03 * features[list(members), 0].sum())


def rows(
    split: Split,
    trajectories: int,
    *,
    states: int = 2,
    columns: int = 6,
    seed: int = 0,
    harm: HarmRule = additive_harm,
    draw: Callable[[np.random.Generator, int], NDArray[np.float32]] | None = None,
    noise: float = 0.002,
    saving_step: int = 1,
    trials: int = 1,
) -> tuple[list[StateRow], list[LabelRow], dict[str, StateFeatures]]:
    """States, labels and features as the stages before would hand them over; some have three candidates, not four.

    With a larger `saving_step` many sets save equally much; with more `trials` so many trajectories share a task.
    """
    generator = np.random.default_rng([seed, *split.encode()])
    state_rows, labels, features = [], [], {}
    for trajectory in range(trajectories):
        group = f"{split}/{trajectory}" if trials == 1 else f"{split}/task {trajectory // trials}"
        for number in range(states):
            state_id = f"{split}/{trajectory}/{number}"
            count = 4 if generator.random() < 0.75 else 3
            values = generator.normal(size=(count, columns)).astype(np.float32)
            if draw is not None:
                values = draw(generator, count)
            savings = tuple(int(saving) // saving_step * saving_step for saving in generator.integers(50, 400, count))
            tokens = int(generator.integers(2_000, 5_000))
            state_rows.append(StateRow(state_id, f"{split}/{trajectory}", group, split, tokens, savings))
            features[state_id] = StateFeatures(LAYOUT, values)
            for mask in range(1, 1 << count):
                members = tuple(place for place in range(count) if mask >> place & 1)
                measured = harm(values, members) + noise * float(generator.normal())
                saving = sum(savings[place] for place in members) + 4 * (len(members) - 1) // saving_step
                safe = bool(generator.random() < 0.97)
                labels.append(LabelRow(state_id, mask, saving, safe, measured, measured > HARM_TOLERANCE, LABELER))
    return state_rows, labels, features


def make_frame(split: Split, trajectories: int, **options: Any) -> TrainingFrame:
    """A frame of such rows."""
    return assemble(TrainingFrame, split, LAYOUT, *rows(split, trajectories, **options))


def make_test_frame(trajectories: int, **options: Any) -> ExampleFrame:
    """The same of the test split, which no training frame can hold."""
    return assemble(ExampleFrame, "test", LAYOUT, *rows("test", trajectories, **options))


AnyFrame = TypeVar("AnyFrame", bound=ExampleFrame)


def make_scored(frame: AnyFrame, seed: int = 0, noise: float = 1.0, levels: int | None = None) -> ScoredSets[AnyFrame]:
    """Scores that follow harm with noise; with few `levels` many scores are exactly equal."""
    generator = np.random.default_rng(seed)
    logit = 40 * (frame.harm - 0.02) + noise * generator.normal(size=len(frame))
    mean, std = 1 / (1 + np.exp(-logit)), 0.1 * generator.random(len(frame))
    predicted = frame.harm + 0.01 * generator.normal(size=len(frame))
    if levels is not None:
        mean, std = np.round(mean * levels) / levels, np.round(std * levels) / levels
        predicted = np.round(predicted * levels) / levels
    return ScoredSets(frame, predicted, mean, std)


def rows_of(sets: ProposedSets, rows: NDArray[np.int64]) -> ProposedSets:
    """Some rows only: those of one state."""
    return ProposedSets(
        sets.cardinality[rows],
        sets.direct_saving[rows],
        sets.protocol_safe[rows],
        sets.unsafe_score[rows],
        sets.predicted_harm[rows],
    )
