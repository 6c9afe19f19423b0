"""Runs and labels on the wrong side of a split, planted in a published policy: each is caught by name."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from drsr.offline.audit.checks import splits
from drsr.offline.ingest.corpus.task_names import load_task_names
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.ingest.stage import admit_named, ingest
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.audit.published import (
    PublishedPipeline,
    ask,
    audited,
    by_hand,
    failures,
    go_on,
    trained_again,
)
from tests.offline.chat_files import chat, task_in_split, write_json, write_text
from tests.offline.ingest.test_same_run import exported
from tests.offline.small_pipeline import Pipeline


def test_a_trajectory_in_two_splits(release: PublishedPipeline, tmp_path: Path) -> None:
    """A run of the training split, ingested once more under another name and a task of the test split."""
    pipeline = release.pipeline
    blob, name = ask(pipeline, "SELECT blob, external_id FROM trajectory WHERE split = 'train' ORDER BY id")[0]
    run = Trajectory.from_json(pipeline.artifacts.get(blob))
    again = {**run.request, "id": "somebody-else", "task": _other_task("test")}
    write_json(tmp_path / "more" / "copy.json", again)
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    caught = failures(audited(release))
    assert list(caught) == ["splits hold"]
    assert f"in train as runs/{name}" in caught["splits hold"]
    assert "in test as more/copy.json#somebody-else" in caught["splits hold"]


def test_a_run_whose_task_is_another_in_its_newer_version(release: PublishedPipeline) -> None:
    """It stays where it was, which is no fault; that another run of its new task is in the test split, is one."""
    pipeline = release.pipeline
    first, second = sorted((pipeline.folder / "runs").glob("train-*.json"))[:2]
    ((task,),) = ask(pipeline, "SELECT task FROM trajectory WHERE split = 'test'")
    go_on(pipeline, first, task=_other_task("test"))
    assert ask(pipeline, "SELECT count(*) FROM trajectory WHERE superseded_by IS NOT NULL") == [(1,)]
    assert failures(audited(release, [splits.CHECK])) == {}
    go_on(pipeline, second, task=task)
    caught = failures(audited(release, [splits.CHECK]))
    assert f"in train as runs/{second.name}" in caught["splits hold"]
    assert caught["splits hold"].startswith("the same task is in ")


def test_a_test_run_that_was_filed_by_its_newer_version(release: PublishedPipeline) -> None:
    """Its newer version names a task of the training split, and both rows were made to say so by hand."""
    pipeline = release.pipeline
    (file,) = (pipeline.folder / "runs").glob("test-*.json")
    ((name, group),) = ask(pipeline, "SELECT external_id, group_key FROM trajectory WHERE split = 'test'")
    task = _other_task("train")
    go_on(pipeline, file, task=task)
    assert failures(audited(release, [splits.CHECK])) == {}
    by_hand(pipeline, "INSERT INTO split_group (group_key, split) VALUES (?, 'train')", f"task:{task}")
    by_hand(pipeline, "UPDATE trajectory SET group_key = ?, split = 'train' WHERE split = 'test'", f"task:{task}")
    caught = failures(audited(release, [splits.CHECK]))["splits hold"].splitlines()
    assert caught == [
        f"trajectory runs/{name} is filed as 'task:{task}'; its own bytes say {group!r}",
        f"trajectory runs/{name} is filed as 'task:{task}'; the bytes of its version 1 say {group!r}",
    ]


def _other_task(split: str) -> str:
    tasks = (f"copy-{number}" for number in itertools.count())
    return next(task for task in tasks if assign_split(group_key("", "", task)) == split)


def test_a_trajectory_that_was_moved_to_another_split(release: PublishedPipeline) -> None:
    pipeline = release.pipeline
    ((name,),) = ask(pipeline, "SELECT external_id FROM trajectory WHERE split = 'test'")
    _move(pipeline, "test", "train")
    caught = failures(audited(release))
    assert f"trajectory runs/{name} is in train; the hash of its group assigns it to test" in caught["splits hold"]


def test_a_task_that_was_renamed_for_one_of_its_runs(release: PublishedPipeline) -> None:
    """The catalog's columns agree with each other; the run's own bytes do not agree with them."""
    pipeline = release.pipeline
    ((name, group),) = ask(pipeline, "SELECT external_id, group_key FROM trajectory WHERE split = 'test'")
    other = f"task:{task_in_split('validation')}-forged"
    by_hand(pipeline, "INSERT INTO split_group (group_key, split) VALUES (?, 'validation')", other)
    by_hand(pipeline, "UPDATE trajectory SET group_key = ?, split = 'validation' WHERE split = 'test'", other)
    caught = failures(audited(release))
    assert f"trajectory runs/{name} is filed as {other!r}; its own bytes say {group!r}" in caught["splits hold"]


def test_a_group_and_a_split_from_a_corpus_hold_only_while_its_table_says_so(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = release.pipeline
    task, place = _other_task("train"), tmp_path / "corpora" / "small" / "tasks.csv"
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "more" / "run.json", {**chat(77), "id": "run", "task": task})
    row = f"more,{task},shop/1,customer/ada,test"
    write_text(place, f"source,read_as,task,group,split\n{row}\n")
    names = admit_named(load_task_names("small"))
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more", admit=names)
    assert failures(audited(release, [splits.CHECK])) == {}
    write_text(place, f"source,read_as,task,group,split\n{row.removesuffix('test')}validation\n")
    caught = failures(audited(release, [splits.CHECK]))
    said = "trajectory more/run.json#run is in test; the hash of its group assigns it to train, and its corpus to"
    assert caught["splits hold"] == f"{said} validation"
    place.unlink()
    caught = failures(audited(release, [splits.CHECK]))
    assert caught["splits hold"].startswith("trajectory more/run.json#run is filed as 'task:customer/ada'; its own")


def test_a_corpus_ingested_without_its_table(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks that the corpus calls one group are on two sides, each where its own bytes put it."""
    pipeline = release.pipeline
    monkeypatch.chdir(tmp_path)
    tasks = [_other_task("train"), _other_task("test")]
    for seed, task in enumerate(tasks):
        write_json(tmp_path / "more" / f"{seed}.json", {**chat(80 + seed), "id": "run", "task": task})
    rows = "".join(f"more,{task},shop/{task},customer/ada,\n" for task in tasks)
    write_text(tmp_path / "corpora" / "small" / "tasks.csv", f"source,read_as,task,group,split\n{rows}")
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    caught = failures(audited(release, [splits.CHECK]))
    assert caught["splits hold"] == "the same task is in train as more/0.json#run and in test as more/1.json#run"


def test_copies_without_a_task_are_beside_their_like_and_a_stranger_is_not(
    release: PublishedPipeline, tmp_path: Path
) -> None:
    """Ingesting files a copy without a task's name under the group of the run that it nearly equals."""
    pipeline = release.pipeline
    for number in range(4):
        run = {"messages": chat(90, steps=6)["messages"]}
        run["messages"][1]["content"] += f" copy {number}"
        write_json(tmp_path / "more" / f"{number}.json", run)
    write_json(tmp_path / "more" / "stranger.json", {"messages": chat(91, steps=6)["messages"]})
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    query = "SELECT DISTINCT group_key, split FROM trajectory WHERE external_id LIKE '_.json%' AND source_id = ({})"
    ((group, split),) = ask(pipeline, query.format("SELECT id FROM source WHERE name = 'more'"))
    assert failures(audited(release, [splits.CHECK])) == {}
    statement = "UPDATE trajectory SET group_key = ?, split = ? WHERE external_id LIKE 'stranger%'"
    by_hand(pipeline, statement, group, split)
    assert failures(audited(release, [splits.CHECK]))["splits hold"].startswith("trajectory more/stranger.json")


def test_a_fork_is_beside_the_run_that_it_parted_from(release: PublishedPipeline, tmp_path: Path) -> None:
    pipeline = release.pipeline
    write_text(tmp_path / "more" / "a.jsonl", exported(2))
    write_text(tmp_path / "more" / "b.jsonl", exported(2, other=" otherwise"))
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    assert ask(pipeline, "SELECT count(*) FROM trajectory WHERE external_id LIKE 'same~%'") == [(1,)]
    assert failures(audited(release, [splits.CHECK])) == {}


def test_a_test_label_in_calibration(release: PublishedPipeline, tmp_path: Path) -> None:
    """A test run counts as validation while the policy is calibrated, and is put back afterwards."""
    pipeline = release.pipeline
    ((group,),) = ask(pipeline, "SELECT group_key FROM trajectory WHERE split = 'test'")
    states = ask(
        pipeline,
        "SELECT s.state_key FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id WHERE t.split = 'test'",
    )
    _move(pipeline, "test", "validation", group)
    forged = trained_again(pipeline, tmp_path / "forged")
    _move(pipeline, "validation", "test", group)
    caught = failures(audited(forged))
    again = {"scorer judged again", "calibration repeated"}
    assert caught.keys() == {"splits hold", "hash chain to the trajectories", *again}
    assert (
        f"{len(states)} states of the test split are among those that the policy was made from" in caught["splits hold"]
    )
    assert "shipped states is 8, searched again it is 6" in caught["calibration repeated"]
    assert (
        "of split validation are not those that the scorer was trained on" in caught["hash chain to the trajectories"]
    )


def test_a_test_label_in_calibration_that_stays_there(release: PublishedPipeline, tmp_path: Path) -> None:
    """Not put back, everything can be computed again and only the run's own bytes say where it belongs."""
    pipeline = release.pipeline
    _move(pipeline, "test", "validation")
    caught = failures(audited(trained_again(pipeline, tmp_path / "forged")))
    assert list(caught) == ["splits hold"]
    assert "is in validation; the hash of its group assigns it to test" in caught["splits hold"]


def _move(pipeline: Pipeline, here: str, there: str, group: str | None = None) -> None:
    for table in ("split_group", "trajectory"):
        which = "group_key = ?" if group else "split = ?"
        by_hand(pipeline, f"UPDATE {table} SET split = ? WHERE {which}", there, group or here)


def test_a_read_of_the_test_split_to_calibrate(release: PublishedPipeline) -> None:
    by_hand(
        release.pipeline,
        "INSERT INTO split_read (view_id, labeler_id, split, purpose, states, labels, excluded, code_version, read_at) "
        "SELECT view_id, labeler_id, 'test', 'calibrate', 2, 14, 0, code_version, read_at FROM split_read LIMIT 1",
    )
    caught = failures(audited(release))
    assert list(caught) == ["split reads"]
    assert caught["split reads"].startswith("the test split was read to calibrate on 20")


def test_a_calibration_that_nobody_read_labels_for(release: PublishedPipeline) -> None:
    by_hand(release.pipeline, "DELETE FROM split_read WHERE purpose = 'calibrate'")
    caught = failures(audited(release))
    assert list(caught) == ["split reads"]
    assert "labels of validation to calibrate is recorded before" in caught["split reads"]
