"""Ablations are configurations: what each takes away is gone, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drsr.errors import FrameError, SettingsError
from drsr.features.geometry import Geometry
from drsr.features.layout import Layout
from drsr.offline.train.ablations import (
    ABLATIONS,
    BLOCK_PROJECTION,
    STATE_GROUPS,
    column_group,
    find_ablation,
    mismatch_states,
    mismatched_partners,
    prepare_frame,
    used_columns,
)
from drsr.offline.train.fitting import train_scorer
from drsr.offline.train.scored_sets import score_frame
from tests.offline.frames import make_frame, params

GROUPS = ["structural", "structural", "attention", "hidden", "projection", "projection"]


def test_their_names() -> None:
    assert list(ABLATIONS) == [
        "full",
        "no-retained-context",
        "no-pair-pooling",
        "no-abstention",
        "structural-only",
        "attention-only",
        "hidden-only",
        "projection-only",
        "mismatched-state",
    ]
    with pytest.raises(SettingsError, match="no ablation is called 'none'"):
        find_ablation("none")


def test_columns_of_a_group() -> None:
    assert used_columns(find_ablation("full"), GROUPS).all()
    assert used_columns(find_ablation("structural-only"), GROUPS).tolist() == [True, True, False, False, False, False]
    with pytest.raises(SettingsError, match="the layout has no column"):
        used_columns(find_ablation("hidden-only"), ["structural"])


def test_what_the_layout_calls_its_columns() -> None:
    layout = Layout(Geometry(layers=4, heads=2, full_attention=(1, 2, 3, 4)))
    groups = [column_group(column) for column in layout.columns]
    assert set(groups) == {*STATE_GROUPS, "structural", BLOCK_PROJECTION}
    own = [column.name for column, group in zip(layout.columns, groups, strict=True) if group == BLOCK_PROJECTION]
    assert len(own) == groups.count("projection") == 4 * 64
    assert own[0].endswith("_block_01")
    both = used_columns(find_ablation("projection-only"), groups)
    assert both.sum() == 2 * len(own)  # of the Block and of the state


def test_a_mismatched_state_leaves_the_candidates_own_projection() -> None:
    frame = make_frame("train", 12)
    groups = ["structural", "attention", "hidden", BLOCK_PROJECTION, "projection", "projection"]
    changed = (mismatch_states(frame, groups, seed=3).features != frame.features)[frame.present]
    assert changed.any(axis=0).tolist() == [False, True, True, False, True, True]


def test_a_scorer_of_one_group_does_not_see_the_others() -> None:
    train, validation = make_frame("train", 8), make_frame("validation", 4)
    tiny = replace(params().train, max_epochs=5, seeds=(11,))
    ablation = find_ablation("structural-only")
    ensemble = train_scorer(train, validation, tiny, ablation=ablation, column_groups=GROUPS).ensemble
    other = validation.features.copy()
    other[:, :, 2:] += 3
    before, after = (score_frame(ensemble, f) for f in (validation, replace(validation, features=other)))
    np.testing.assert_array_equal(before.unsafe_mean, after.unsafe_mean)
    other[:, :, 0] += 3
    changed = score_frame(ensemble, replace(validation, features=other))
    assert (before.unsafe_mean != changed.unsafe_mean).all()


def test_a_scorer_without_retained_context_does_not_see_what_stays() -> None:
    train, validation = make_frame("train", 8), make_frame("validation", 4)
    tiny = replace(params().train, max_epochs=5, seeds=(11,))
    other = validation.features.copy()
    first_only = validation.mask == 1
    other[:, 1:] += 3  # everything but the first candidate changes
    for name, sees in (("no-retained-context", False), ("no-pair-pooling", True)):
        ensemble = train_scorer(train, validation, tiny, ablation=find_ablation(name)).ensemble
        assert ensemble.parts == find_ablation(name).parts
        before, after = (score_frame(ensemble, f) for f in (validation, replace(validation, features=other)))
        changed = np.abs(before.unsafe_mean - after.unsafe_mean)[first_only] > 1e-6
        assert changed.all() if sees else not changed.any()


def test_a_mismatched_state_changes_state_columns_only() -> None:
    frame = make_frame("train", 12)
    partner = mismatched_partners(frame, seed=3)
    assert sorted(partner.tolist()) == list(range(len(frame.state_ids)))
    assert (frame.state_trajectory[partner] != frame.state_trajectory).all()
    assert (frame.candidate_counts[partner] == frame.candidate_counts).all()
    assert (mismatched_partners(frame, seed=3) == partner).all()
    assert (mismatched_partners(frame, seed=4) != partner).any()
    mismatched = mismatch_states(frame, GROUPS, seed=3)
    np.testing.assert_array_equal(mismatched.features[:, :, :2], frame.features[:, :, :2])
    np.testing.assert_array_equal(mismatched.features[:, :, 2:], frame.features[partner][:, :, 2:])
    np.testing.assert_array_equal(mismatched.harm, frame.harm)
    assert prepare_frame(frame, find_ablation("full"), GROUPS) is frame
    assert (prepare_frame(frame, find_ablation("mismatched-state"), GROUPS).features != frame.features).any()
    with pytest.raises(SettingsError, match="the layout has none"):
        mismatch_states(frame, ["structural"] * 6, seed=3)


def test_training_exchanges_the_decisions_itself() -> None:
    """The signal stands in column 0: as a state-related column it is lost with its candidate, whatever the state."""
    train, validation = make_frame("train", 24), make_frame("validation", 12)
    few = replace(params().train, max_epochs=30, seeds=(11,))
    ablation, groups = find_ablation("mismatched-state"), ["attention"] + ["structural"] * 5
    matched = train_scorer(train, validation, few)
    mismatched = train_scorer(train, validation, few, ablation=ablation, column_groups=groups)
    assert matched.chosen[0].quality.pair_accuracy > 0.85
    assert mismatched.chosen[0].quality.pair_accuracy < 0.7


def test_too_few_trajectories_to_mismatch() -> None:
    frame = make_frame("train", 2)
    with pytest.raises(FrameError, match="too few of other trajectories"):
        mismatched_partners(replace(frame, trajectory_ids=(*frame.trajectory_ids[:1] * 3, "b")), seed=0)
