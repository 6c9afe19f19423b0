"""Labelled deletion sets with the features of their states: what the scorer is fitted on and judged by.

Everything that would silently spoil a fit is refused here, by name, before anything is fitted. Training and calibration
take a `TrainingFrame`, and no `TrainingFrame` of the test split can exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drsr.errors import (
    FeaturesMissing,
    FrameError,
    LabelersMixed,
    LayoutMismatch,
    OneClassOnly,
    OneTrajectoryOnly,
    SplitRefused,
    ValueNotFinite,
)
from drsr.offline.ingest.splits import Split
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.scorer.network import MAX_CANDIDATES
from drsr.scorer.set_representation import cardinalities


class StateRow(NamedTuple):
    """One row per labelled decision state."""

    state_id: str
    trajectory_id: str
    group_id: str
    """Unit that is on one side of the split and counts as one draw: the task if it is known, else the trajectory."""
    split: Split
    request_tokens: int
    """Tok(C) of the full request."""
    candidate_savings: tuple[int, ...]
    """Number of tokens that deleting each candidate alone saves."""


class LabelRow(NamedTuple):
    """One row per measured deletion set."""

    state_id: str
    mask: int
    """Bit i is set when candidate i is deleted."""
    direct_saving: int
    """w(A) in tokens."""
    protocol_safe: bool
    harm: float
    """H(A) in nats per token."""
    unsafe: bool
    labeler: str
    """Hash of the labeler: backbone, renderer and rule versions."""


class StateFeatures(NamedTuple):
    """The candidates' features of one state."""

    layout_hash: str
    values: NDArray[np.float32]
    """(candidates, columns), not normalised."""


@dataclass(frozen=True, eq=False)
class ExampleFrame:
    """Labelled deletion sets of one split, as read-only arrays."""

    split: Split
    layout_hash: str
    labeler: str

    state_ids: tuple[str, ...]
    """One per state; the other state arrays have this order."""
    trajectory_ids: tuple[str, ...]
    """The source trajectory of each state."""
    group_ids: tuple[str, ...]
    """The split group of each state: trials of one task are not independent."""
    request_tokens: NDArray[np.int64]
    candidate_counts: NDArray[np.int64]
    """n of each state, 1 to 4."""
    candidate_savings: NDArray[np.int64]
    """(states, 4); zero beyond n."""
    features: NDArray[np.float32]
    """(states, 4, columns), not normalised; zero beyond n."""

    state: NDArray[np.int64]
    """One per labelled set: the index of its state. The other set arrays have this order."""
    mask: NDArray[np.int64]
    direct_saving: NDArray[np.int64]
    protocol_safe: NDArray[np.bool_]
    harm: NDArray[np.float64]
    """Measured H(A), nats per token."""
    unsafe: NDArray[np.bool_]
    """H(A) > harm_tolerance."""

    def __post_init__(self) -> None:
        _check_arrays(self)

    @cached_property
    def cardinality(self) -> NDArray[np.int64]:
        """|A| of each set."""
        return cardinalities(MAX_CANDIDATES)[self.mask - 1]

    @cached_property
    def state_trajectory(self) -> NDArray[np.int64]:
        """A number from 0 for the trajectory of each state."""
        return np.unique(np.array(self.trajectory_ids), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def state_group(self) -> NDArray[np.int64]:
        """A number from 0 for the split group of each state."""
        return np.unique(np.array(self.group_ids), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def trajectory_group(self) -> NDArray[np.int64]:
        """The same for each trajectory, in the order of their numbers."""
        groups = np.empty(int(self.state_trajectory.max()) + 1, dtype=np.int64)
        groups[self.state_trajectory] = self.state_group
        return groups

    @cached_property
    def trajectory(self) -> NDArray[np.int64]:
        """The same for each set."""
        return self.state_trajectory[self.state]

    @property
    def columns(self) -> int:
        """Features per candidate."""
        return int(self.features.shape[2])

    @property
    def present(self) -> NDArray[np.bool_]:
        """(states, 4): which candidate places are filled."""
        return np.arange(MAX_CANDIDATES) < self.candidate_counts[:, None]

    def __len__(self) -> int:
        """Return the number of labelled sets."""
        return len(self.mask)


class TrainingFrame(ExampleFrame):
    """Examples that may be fitted on (`train`) or calibrated and chosen by (`validation`). Never test."""

    def __post_init__(self) -> None:
        if self.split not in ("train", "validation"):
            raise SplitRefused(
                f"the {self.split} split cannot be read by training or calibration",
                hint="train on `train`, calibrate on `validation`; `test` is for the final evaluation only",
            )
        super().__post_init__()
        unsafe = int(self.unsafe.sum())
        if unsafe in (0, len(self)):
            missing = "unsafe" if unsafe == 0 else "safe"
            raise OneClassOnly(
                f"none of the {len(self)} deletion sets is {missing}", where=self.split, hint="label more trajectories"
            )
        if len(set(self.group_ids)) < 2:
            raise OneTrajectoryOnly(
                "all examples come from one trajectory, or from trials of one task",
                where=self.split,
                hint="ingest and label more trajectories",
            )


FrameKind = TypeVar("FrameKind", bound=ExampleFrame)


def assemble(
    kind: type[FrameKind],
    split: Split,
    layout_hash: str,
    states: Sequence[StateRow],
    labels: Sequence[LabelRow],
    features: Mapping[str, StateFeatures],
) -> FrameKind:
    """Join states, labels and features of one split into a frame of the asked kind, in the order given."""
    place = {state.state_id: number for number, state in enumerate(states)}
    if len(place) != len(states):
        raise FrameError("a state appears twice", where=split)
    _check_rows(split, place, states, labels)
    rows = [_features_of(state, layout_hash, features) for state in states]
    columns = rows[0].shape[1]
    padded = np.zeros((len(states), MAX_CANDIDATES, columns), dtype=np.float32)
    savings = np.zeros((len(states), MAX_CANDIDATES), dtype=np.int64)
    for number, (state, values) in enumerate(zip(states, rows, strict=True)):
        if values.shape[1] != columns:
            raise LayoutMismatch(f"{values.shape[1]} features, other states have {columns}", where=state.state_id)
        padded[number, : len(values)] = values
        savings[number, : len(values)] = state.candidate_savings
    return kind(
        split=split,
        layout_hash=layout_hash,
        labeler=labels[0].labeler,
        state_ids=tuple(state.state_id for state in states),
        trajectory_ids=tuple(state.trajectory_id for state in states),
        group_ids=tuple(state.group_id for state in states),
        request_tokens=np.array([state.request_tokens for state in states], dtype=np.int64),
        candidate_counts=np.array([len(state.candidate_savings) for state in states], dtype=np.int64),
        candidate_savings=savings,
        features=padded,
        state=np.array([place[label.state_id] for label in labels], dtype=np.int64),
        mask=np.array([label.mask for label in labels], dtype=np.int64),
        direct_saving=np.array([label.direct_saving for label in labels], dtype=np.int64),
        protocol_safe=np.array([label.protocol_safe for label in labels], dtype=np.bool_),
        harm=np.array([label.harm for label in labels], dtype=np.float64),
        unsafe=np.array([label.unsafe for label in labels], dtype=np.bool_),
    )


def joined(train: TrainingFrame, validation: TrainingFrame) -> TrainingFrame:
    """Return both splits as one frame, the states of `train` first; it is called `train`, because scorers are fitted on
    it."""
    values: dict[str, Any] = {}
    for field in fields(train):
        first, second = getattr(train, field.name), getattr(validation, field.name)
        if field.name in ("split", "layout_hash", "labeler"):
            values[field.name] = first
        elif field.name == "state":
            values[field.name] = np.concatenate([first, second + len(train.state_ids)])
        else:
            values[field.name] = first + second if isinstance(first, tuple) else np.concatenate([first, second])
    return TrainingFrame(**values)


def some_states(
    kind: type[FrameKind], frame: ExampleFrame, kept: NDArray[np.bool_], split: Split = "train"
) -> FrameKind:
    """Return the states for which `kept` is true, with their sets, in the same order, as a frame of the requested
    kind."""
    rows = kept[frame.state]
    values: dict[str, Any] = {"split": split, "layout_hash": frame.layout_hash, "labeler": frame.labeler}
    for field in fields(frame):
        value = getattr(frame, field.name)
        if field.name in _BY_SET:
            values[field.name] = value[rows]
        elif isinstance(value, tuple):
            values[field.name] = tuple(item for item, wanted in zip(value, kept, strict=True) if wanted)
        elif field.name not in values:
            values[field.name] = value[kept]
    values["state"] = (np.cumsum(kept) - 1)[values["state"]]
    return kind(**values)


_BY_SET = ("state", "mask", "direct_saving", "protocol_safe", "harm", "unsafe")
"""The arrays of a frame with one entry per labelled set; others have one per state."""


def _check_rows(split: Split, place: Mapping[str, int], states: Sequence[StateRow], labels: Sequence[LabelRow]) -> None:
    if not states or not labels:
        raise FrameError("there are no labelled states", where=split, hint="run the label stage first")
    for state in states:
        if state.split != split:
            raise SplitRefused(f"belongs to split {state.split}, not {split}", where=state.state_id)
        if not 1 <= len(state.candidate_savings) <= MAX_CANDIDATES:
            raise FrameError(f"has {len(state.candidate_savings)} candidates", where=state.state_id)
    labelers = sorted({label.labeler for label in labels})
    if len(labelers) > 1:
        raise LabelersMixed(
            f"harms from {len(labelers)} labelers: {', '.join(labelers)}",
            where=split,
            hint="choose one labeler, or label the remaining states with it",
        )
    for label in labels:
        if label.state_id not in place:
            raise FrameError("has a label but is not among the states", where=label.state_id)


def _features_of(state: StateRow, layout_hash: str, features: Mapping[str, StateFeatures]) -> NDArray[np.float32]:
    if state.state_id not in features:
        raise FeaturesMissing(
            "is labelled but has no features", where=state.state_id, hint="run the featurize stage first"
        )
    found = features[state.state_id]
    if found.layout_hash != layout_hash:
        raise LayoutMismatch(
            f"has features of layout {found.layout_hash}, expected {layout_hash}",
            where=state.state_id,
            hint="featurize again with the present backbone and layout",
        )
    if found.values.ndim != 2 or len(found.values) != len(state.candidate_savings):
        raise FeaturesMissing(
            f"has {len(state.candidate_savings)} candidates and features of shape {found.values.shape}",
            where=state.state_id,
        )
    return found.values


def _check_arrays(frame: ExampleFrame) -> None:
    states, sets = len(frame.state_ids), len(frame.mask)
    if states == 0 or sets == 0:
        raise FrameError("there are no labelled states", where=frame.split, hint="run the label stage first")
    by_state = (
        frame.trajectory_ids,
        frame.group_ids,
        frame.request_tokens,
        frame.candidate_counts,
        frame.candidate_savings,
    )
    by_set = (frame.state, frame.direct_saving, frame.protocol_safe, frame.harm, frame.unsafe)
    lengths_fit = all(len(a) == states for a in (*by_state, frame.features)) and all(len(a) == sets for a in by_set)
    if not lengths_fit or frame.features.shape[1:2] != (MAX_CANDIDATES,) or frame.features.ndim != 3:
        raise FrameError("arrays of different lengths", where=frame.split)
    for name in ("features", "harm"):
        bad = ~np.isfinite(getattr(frame, name))
        if bad.any():
            first = int(np.argwhere(bad)[0][0])
            state = first if name == "features" else int(frame.state[first])
            raise ValueNotFinite(
                f"{int(bad.sum())} values of {name} are NaN or infinite",
                where=frame.state_ids[state],
                hint=f"compute the {name} of this state again",
            )
    _check_sets(frame)


def _check_sets(frame: ExampleFrame) -> None:
    def refuse(wrong: NDArray[np.bool_], what: str, kind: type[FrameError] = FrameError) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            where = f"{frame.state_ids[int(frame.state[row])]}, deletion set {int(frame.mask[row])}"
            raise kind(f"{what} ({int(wrong.sum())} such sets)", where=where)

    if frame.state.min() < 0 or frame.state.max() >= len(frame.state_ids):
        raise FrameError("a deletion set of no state", where=frame.split)
    refuse(
        (frame.mask < 1) | (frame.mask >= 1 << frame.candidate_counts[frame.state]),
        "deletes something that is not a candidate",
    )
    identity = frame.state * (1 << MAX_CANDIDATES) + frame.mask
    repeated = np.ones(len(identity), dtype=np.bool_)
    repeated[np.unique(identity, return_index=True)[1]] = False
    refuse(repeated, "is labelled twice")
    refuse(frame.direct_saving <= 0, "saves nothing")
    refuse(frame.direct_saving > frame.request_tokens[frame.state], "saves more than the whole request")
    refuse((frame.unsafe != (frame.harm > HARM_TOLERANCE)), "is labelled under another harm tolerance", LabelersMixed)
    if (frame.candidate_savings[frame.present] <= 0).any():
        raise FrameError("a candidate saves nothing", where=frame.split)


def check_frames(train: TrainingFrame, validation: TrainingFrame) -> None:
    """Refuse frames that do not belong together."""
    if (train.split, validation.split) != ("train", "validation"):
        raise SplitRefused(f"fitted on `train`, chosen by `validation`, not on {train.split} by {validation.split}")
    if train.layout_hash != validation.layout_hash or train.columns != validation.columns:
        raise LayoutMismatch(f"train has layout {train.layout_hash}, validation {validation.layout_hash}")
    if train.labeler != validation.labeler:
        raise LabelersMixed(f"train was labelled by {train.labeler}, validation by {validation.labeler}")
    for what, ids, others in (
        ("trajectories", train.trajectory_ids, validation.trajectory_ids),
        ("tasks", train.group_ids, validation.group_ids),
    ):
        shared = sorted(set(ids) & set(others))
        if shared:
            raise SplitRefused(f"{len(shared)} {what} are in both splits", where=shared[0])
