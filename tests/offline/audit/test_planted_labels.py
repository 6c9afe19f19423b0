"""Labels that were changed, before training or after publishing: each is caught by the check that should catch it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.offline.audit.checks import labels
from tests.offline.audit.published import (
    WITHOUT_MODEL,
    PublishedPipeline,
    ask,
    audited,
    by_hand,
    failures,
    trained_again,
)
from tests.offline.small_pipeline import Pipeline


def test_a_changed_label(release: PublishedPipeline, tmp_path: Path) -> None:
    """Harm, measurement and verdict are changed together, before training. Only measuring again can see it."""
    pipeline = release.pipeline
    state_id, key = _labelled(pipeline, "train")
    by_hand(
        pipeline,
        "UPDATE label SET harm = harm + 0.5, deleted_nll = deleted_nll + 0.5, unsafe = 1 "
        "WHERE state_id = ? AND mask = 3",
        state_id,
    )
    forged = trained_again(pipeline, tmp_path / "forged")
    caught = failures(audited(forged, [labels.CHECK], sample=None))
    assert list(caught) == ["labels remeasured"]
    assert caught["labels remeasured"].startswith(f"state {key}, deletion set 3: recorded +")
    assert failures(audited(forged)) == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "harm = harm + 0.5, deleted_nll = deleted_nll + 0.5, unsafe = 1",
            "link labels is not the one that the policy",
        ),
        ("harm = harm + 0.5, unsafe = 1", "its harm or verdict does not follow from its NLLs"),
    ],
)
def test_a_label_that_was_changed_after_publishing(release: PublishedPipeline, change: str, says: str) -> None:
    """The chain sees it in every state, without a sample."""
    state_id, _ = _labelled(release.pipeline, "train")
    by_hand(release.pipeline, f"UPDATE label SET {change} WHERE state_id = ? AND mask = 3", state_id)
    caught = failures(audited(release))
    assert says in caught["hash chain to the trajectories"]


def test_a_row_that_no_frame_can_be_made_of(release: PublishedPipeline) -> None:
    """A safe set is called unsafe. What needs the frames says so; what does not, is checked all the same."""
    state_id, key = _labelled(release.pipeline, "train")
    by_hand(release.pipeline, "UPDATE label SET harm = -1.0, unsafe = 1 WHERE state_id = ? AND mask = 3", state_id)
    caught = failures(audited(release, [*WITHOUT_MODEL, labels.CHECK], sample=None))
    unable = {"hash chain to the trajectories", "normaliser refitted", "scorer judged again", "calibration repeated"}
    assert caught.keys() == {*unable, "labels remeasured"}
    for name in unable:
        assert caught[name].startswith("could not be checked: ")
        assert key in caught[name]
    assert caught["labels remeasured"].startswith(f"state {key}, deletion set 3: recorded -1.000000 unsafe")


def _labelled(pipeline: Pipeline, split: str) -> tuple[int, str]:
    state_id, key = ask(
        pipeline,
        "SELECT s.id, s.state_key FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "WHERE t.split = ? ORDER BY s.state_key",
        split,
    )[0]
    return state_id, key
