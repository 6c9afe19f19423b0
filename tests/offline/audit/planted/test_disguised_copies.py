"""A run of training that is copied into the test split with its words disguised: its task is another, its text too."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.expectations.judging import judge
from drsr.offline.audit.checks import splits
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.audit.published import ask, asked
from tests.offline.chat_files import chat, task_in_split, write_json
from tests.offline.disguised_runs import DISGUISES, disguised
from tests.offline.small_pipeline import Pipeline

RULE = "trajectories: no copy in disguise across splits"


def test_an_honest_pipeline(pipeline: Pipeline) -> None:
    assert asked(pipeline, splits.CHECK) == {}
    rules = {verdict.check: verdict.passed for verdict in judge(pipeline.catalog, pipeline.artifacts, ["trajectories"])}
    assert rules[RULE]


@pytest.mark.parametrize("how", DISGUISES)
def test_a_copy_in_disguise(pipeline: Pipeline, tmp_path: Path, how: str) -> None:
    blob, name = ask(
        pipeline, "SELECT blob, external_id FROM trajectory WHERE split = 'train' ORDER BY messages DESC, id"
    )[0]
    original = Trajectory.from_json(pipeline.artifacts.get(blob)).request
    copied = disguised(original["messages"], how, chat(77, steps=len(original["messages"]) // 2)["messages"])
    copy = {**original, "messages": copied, "id": "copy", "task": task_in_split("test")}
    write_json(tmp_path / "more" / "copy.json", copy)
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    assert ask(pipeline, "SELECT split FROM trajectory WHERE external_id LIKE 'copy%'") == [("test",)]
    if how != "other numbers":  # of which a run may have none
        assert leaked_pairs(pipeline.catalog, pipeline.artifacts) == []  # what judged texts before sees nothing
    caught = asked(pipeline, splits.CHECK)["splits hold"]
    assert "are one run in disguise: they share " in caught
    assert f"runs/{name} (train)" in caught
    assert "more/copy.json#copy (test)" in caught
    (verdict,) = [
        verdict for verdict in judge(pipeline.catalog, pipeline.artifacts, ["trajectories"]) if verdict.check == RULE
    ]
    assert not verdict.passed
