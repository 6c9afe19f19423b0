"""Every input that would spoil a fit has a named error, before anything is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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
from drsr.offline.train.examples import StateFeatures, TrainingFrame, assemble
from tests.offline.frames import LAYOUT, make_frame, make_test_frame, rows


def test_rows_become_arrays() -> None:
    states, labels, features = rows("train", 3, seed=4)
    frame = assemble(TrainingFrame, "train", LAYOUT, states, labels, features)
    assert len(frame) == len(labels)
    assert len(frame.state_ids) == 6
    assert frame.features.shape == (6, 4, 6)
    for number in (0, 17, len(labels) - 1):
        label, state = labels[number], states[frame.state[number]]
        assert label.state_id == state.state_id == frame.state_ids[frame.state[number]]
        assert (frame.mask[number], frame.harm[number]) == (label.mask, label.harm)
        assert frame.cardinality[number] == label.mask.bit_count()
        count = len(state.candidate_savings)
        assert frame.candidate_savings[frame.state[number], :count].tolist() == list(state.candidate_savings)
        np.testing.assert_array_equal(frame.features[frame.state[number], :count], features[state.state_id].values)
    assert frame.present.sum() == sum(len(state.candidate_savings) for state in states)
    assert not frame.features[~frame.present].any()
    assert frame.trajectory.max() == 2


def test_training_cannot_hold_the_test_split() -> None:
    assert len(make_test_frame(3)) > 0  # evaluation may
    with pytest.raises(SplitRefused, match="cannot be read by training"):
        make_frame("test", 3)
    frame = make_frame("validation", 3)
    with pytest.raises(SplitRefused):
        replace(frame, split="test")


def test_rows_of_another_split_are_refused() -> None:
    states, labels, features = rows("train", 3)
    states[2] = states[2]._replace(split="test")
    with pytest.raises(SplitRefused, match="train/1/0: belongs to split test"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


def test_missing_features() -> None:
    states, labels, features = rows("train", 3)
    del features["train/1/1"]
    with pytest.raises(FeaturesMissing, match="train/1/1: is labelled but has no features"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)
    features["train/1/1"] = StateFeatures(LAYOUT, np.zeros((1, 6), dtype=np.float32))
    with pytest.raises(FeaturesMissing, match="train/1/1"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    states, labels, features = rows("train", 3)
    features["train/2/0"].values[1, 3] = value
    with pytest.raises(ValueNotFinite, match="train/2/0: 1 values of features"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)
    states, labels, features = rows("train", 3)
    labels[-1] = labels[-1]._replace(harm=value)
    with pytest.raises(ValueNotFinite, match="train/2/1: 1 values of harm"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


def test_labels_of_two_labelers() -> None:
    states, labels, features = rows("train", 3)
    labels[5] = labels[5]._replace(labeler="another")
    with pytest.raises(LabelersMixed, match="another, labeler-of-tests"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


def test_labels_under_another_tolerance() -> None:
    states, labels, features = rows("train", 3)
    labels[0] = labels[0]._replace(harm=0.03, unsafe=False)
    with pytest.raises(LabelersMixed, match="another harm tolerance"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


def test_another_layout() -> None:
    states, labels, features = rows("train", 3)
    with pytest.raises(LayoutMismatch, match="expected newer"):
        assemble(TrainingFrame, "train", "newer", states, labels, features)
    features["train/2/0"] = StateFeatures(LAYOUT, np.zeros((len(features["train/2/0"].values), 9), dtype=np.float32))
    with pytest.raises(LayoutMismatch, match="9 features, other states have 6"):
        assemble(TrainingFrame, "train", LAYOUT, states, labels, features)


@pytest.mark.parametrize(("harm", "missing"), [(0.5, "safe"), (-0.5, "unsafe")])
def test_one_class_only(harm: float, missing: str) -> None:
    with pytest.raises(OneClassOnly, match=f"deletion sets is {missing}"):
        make_frame("train", 3, harm=lambda features, members: harm)


def test_one_trajectory_only() -> None:
    with pytest.raises(OneTrajectoryOnly):
        make_frame("train", 1, states=3)


def test_nothing_labelled() -> None:
    with pytest.raises(FrameError, match="no labelled states"):
        assemble(TrainingFrame, "train", LAYOUT, [], [], {})


def test_rows_that_contradict_each_other() -> None:
    states, labels, features = rows("train", 3)

    def refused(match: str, *, states: list = states, labels: list = labels) -> None:
        with pytest.raises(FrameError, match=match):
            assemble(TrainingFrame, "train", LAYOUT, states, labels, features)

    refused("appears twice", states=[*states, states[0]])
    refused("labelled twice", labels=[*labels, labels[0]])
    refused("not among the states", labels=[*labels, labels[0]._replace(state_id="unknown")])
    refused("not a candidate", labels=[labels[0]._replace(mask=16), *labels[1:]])
    refused("not a candidate", labels=[labels[0]._replace(mask=0), *labels[1:]])
    refused("saves nothing", labels=[labels[0]._replace(direct_saving=0), *labels[1:]])
    refused("more than the whole request", labels=[labels[0]._replace(direct_saving=10**6), *labels[1:]])
    refused("a candidate saves nothing", states=[states[0]._replace(candidate_savings=(0, 1, 1, 1)), *states[1:]])
    refused("0 candidates", states=[states[0]._replace(candidate_savings=()), *states[1:]])
    frame = make_frame("train", 3)
    with pytest.raises(FrameError, match="different lengths"):
        replace(frame, harm=frame.harm[:-1])
