"""Rows deleted, added or changed past the journal, and a journal written anew: each is caught, with a sentence."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from drsr.offline.audit.journal import CHECK
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.journal import event_hash, events, head
from drsr.offline.erase import erase
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.withdrawals import take_back, withdraw
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import (
    PublishedPipeline,
    ask,
    asked,
    audited,
    by_hand,
    failures,
    go_on,
    trained_again,
)
from tests.offline.small_pipeline import Pipeline

_OF_A_STATE = ("interaction", "label", "state_measurement", "state_features", "candidate")


@pytest.fixture
def bad(pipeline: Pipeline) -> tuple[int, str, int]:
    """A state of validation with its key, and its run."""
    return ask(
        pipeline,
        "SELECT s.id, s.state_key, t.id FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "WHERE t.split = 'validation' ORDER BY s.id LIMIT 1",
    )[0]


@pytest.fixture
def anchored(pipeline: Pipeline) -> bytes:
    """The head as somebody else wrote it down."""
    with pipeline.catalog.reading() as connection:
        return f"{head(connection)} {datetime.datetime.now(datetime.UTC).isoformat()}\n".encode()


def judged(pipeline: Pipeline, anchor: bytes | None = None) -> Verdict:
    (verdict,) = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order(anchor=anchor)), [CHECK]).verdicts
    return verdict


def said(pipeline: Pipeline) -> str:
    return asked(pipeline, CHECK)["journal"]


def test_an_honest_pipeline(pipeline: Pipeline, anchored: bytes) -> None:
    verdict = judged(pipeline, anchored)
    assert verdict.passed
    assert "events replayed, the tables hold what they record; head " in verdict.detail
    assert "NOT COVERED" not in verdict.detail
    assert "NOT ANCHORED" in judged(pipeline).detail


def test_an_honest_release_with_more_since(release: PublishedPipeline, tmp_path: Path) -> None:
    """What came after the policy was made is no fault of it."""
    pipeline = release.pipeline
    ((name,),) = ask(pipeline, "SELECT external_id FROM trajectory WHERE split = 'train' ORDER BY id LIMIT 1")
    with pipeline.catalog.writing() as connection:
        withdraw(connection, f"runs/{name}", "a copy")
    assert judged(pipeline).passed
    with pipeline.catalog.writing() as connection:
        take_back(connection, f"runs/{name}")
    assert judged(pipeline).passed


def test_a_measurement_dropped(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    for table in _OF_A_STATE[:3]:
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", bad[0])
    assert f"measurement default {bad[1]} is in the journal" in said(pipeline)
    assert "(event " in said(pipeline)
    assert ", label) and not in the catalog: it was deleted past the journal" in said(pipeline)


def test_a_harm_lowered(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    by_hand(pipeline, "UPDATE label SET deleted_nll = deleted_nll - 1, harm = harm - 1 WHERE state_id = ?", bad[0])
    assert "differently than in the catalog: it was changed past the journal" in said(pipeline)


def test_a_set_excluded(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    by_hand(
        pipeline,
        "INSERT INTO label_exclusion SELECT state_id, labeler_id, mask, 'out_of_memory', '' FROM label "
        "WHERE state_id = ? AND mask = 3",
        bad[0],
    )
    by_hand(pipeline, "DELETE FROM interaction WHERE state_id = ? AND mask = 3", bad[0])
    by_hand(pipeline, "DELETE FROM label WHERE state_id = ? AND mask = 3", bad[0])
    assert f"measurement default {bad[1]} is in the journal" in said(pipeline)


def test_a_state_deleted(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    for table in _OF_A_STATE:
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", bad[0])
    by_hand(pipeline, "DELETE FROM decision_state WHERE id = ?", bad[0])
    assert f"state {bad[1]} is in the journal" in said(pipeline)


def test_a_run_unfrozen(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    by_hand(pipeline, "DELETE FROM frozen_trajectory WHERE trajectory_id = ?", bad[2])
    assert said(pipeline).startswith("mark of a frozen run ")


def test_a_run_deleted_and_its_file_counted_anew(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    """Nothing else can know of it: neither freezing again nor the file's count."""
    mine = "SELECT id FROM decision_state WHERE trajectory_id = ?"
    for table in _OF_A_STATE:
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id IN ({mine})", bad[2])
    file = "SELECT source_file_id FROM trajectory_file WHERE trajectory_id = ?"
    by_hand(pipeline, f"UPDATE source_file SET trajectories = trajectories - 1 WHERE id IN ({file})", bad[2])
    for table in ("decision_state", "frozen_trajectory", "trajectory_file"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE trajectory_id = ?", bad[2])
    by_hand(pipeline, "DELETE FROM trajectory WHERE id = ?", bad[2])
    told = said(pipeline).splitlines()
    assert any(line.startswith("run ") and line.endswith("it was deleted past the journal") for line in told)
    assert any(line.startswith("source file ") and "it was changed past the journal" in line for line in told)


def test_a_withdrawn_row_deleted_after_fitting(pipeline: Pipeline, tmp_path: Path) -> None:
    ((name,),) = ask(pipeline, "SELECT external_id FROM trajectory WHERE split = 'train' ORDER BY id LIMIT 1")
    with pipeline.catalog.writing() as connection:
        withdraw(connection, f"runs/{name}", "inconvenient")
    release = trained_again(pipeline, tmp_path / "packages")
    again = release.pipeline
    by_hand(again, "DELETE FROM withdrawal")
    assert failures(audited(release)) == {}  # nothing else sees it
    assert said(again).startswith("withdrawal ")
    assert "withdraw) and not in the catalog: it was deleted past the journal" in said(again)


def test_a_run_superseded_while_fitting(pipeline: Pipeline, tmp_path: Path) -> None:
    """All by the commands: a run is replaced, the policy fitted without it, the run put back."""
    ((location, name),) = ask(
        pipeline,
        "SELECT f.location, t.external_id FROM source_file f JOIN trajectory_file h ON h.source_file_id = f.id "
        "JOIN trajectory t ON t.id = h.trajectory_id WHERE t.split = 'train' ORDER BY t.id LIMIT 1",
    )
    file = pipeline.folder / "runs" / Path(location).name
    by_hand(pipeline, "UPDATE source_file SET location = ? WHERE location = ?", str(file), location)
    original = file.read_text()
    run = json.loads(original)
    other = run | {"messages": [{"role": "user", "content": "Something else."}, *run["messages"][1:]]}
    file.write_text(json.dumps(other))
    ingest(pipeline.catalog, pipeline.artifacts, str(file), source="runs")
    assert ask(pipeline, "SELECT count(*) FROM trajectory WHERE superseded_by IS NOT NULL") == [(1,)]
    release = trained_again(pipeline, tmp_path / "packages")
    again = release.pipeline
    file.write_text(original)
    ingest(again.catalog, again.artifacts, str(file), source="runs")
    assert ask(again, "SELECT superseded_by FROM trajectory WHERE external_id = ? AND version = 1", name) == [(None,)]
    assert failures(audited(release)) == {}  # nothing else sees it
    told = [line for line in said(again).splitlines() if line.startswith("run ")]
    assert len(told) == 1
    assert f"run runs/{name} of train was superseded when the scorer's data were read" in told[0]
    assert told[0].endswith("the policy was made without it")


def test_runs_superseded_by_versions_without_a_label(pipeline: Pipeline, tmp_path: Path) -> None:
    """By the commands, before the scorer's data are read: nothing is forged, and it is said."""
    assert "had taken their place" not in judged(pipeline).detail
    go_on(pipeline, next((pipeline.folder / "runs").glob("validation-*.json")))
    again = trained_again(pipeline, tmp_path / "packages").pipeline
    assert "1 labelled versions of runs took no part, because a newer version that had no label then" in (
        judged(again).detail
    )


def test_a_run_superseded_by_hand(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    by_hand(pipeline, "UPDATE trajectory SET superseded_by = 7 WHERE id = ?", bad[2])
    assert "it was changed past the journal" in said(pipeline)


def test_states_left_out_of_the_fit(pipeline: Pipeline, bad: tuple[int, str, int], tmp_path: Path) -> None:
    """Marked as excluded while the scorer is fitted, and put back afterwards: the tables show nothing."""
    by_hand(pipeline, "UPDATE decision_state SET status = 'excluded' WHERE id = ?", bad[0])
    again = trained_again(pipeline, tmp_path / "packages").pipeline
    by_hand(again, "UPDATE decision_state SET status = 'frozen' WHERE id = ?", bad[0])
    assert f"state {bad[1]} was measured and took part when the scorer's data were read" in said(again)


def test_an_event_deleted(pipeline: Pipeline) -> None:
    by_hand(pipeline, "DELETE FROM journal_event WHERE id = 3")
    assert "event 4 of the journal does not follow event 2: one is missing" in said(pipeline)


def test_an_event_changed(pipeline: Pipeline) -> None:
    by_hand(pipeline, "UPDATE journal_event SET kind = 'forget' WHERE id = 3")
    assert "event 3 of the journal (forget) does not have the hash of its content" in said(pipeline)


def rewrite(pipeline: Pipeline, without: int) -> None:
    """Write the journal anew without one event, every hash in order."""
    with pipeline.catalog.reading() as connection:
        kept = [event for event in events(connection) if event.number != without]
    by_hand(pipeline, "DELETE FROM journal_event")
    before = "0" * 64
    for number, event in enumerate(kept, 1):
        sha256 = event_hash(number, event.kind, before, event.content)
        row = (number, event.kind, event.content, before, sha256, str(event.noted_at))
        by_hand(pipeline, "INSERT INTO journal_event VALUES (?, ?, ?, ?, ?, ?)", *row)
        before = sha256


@pytest.fixture
def rewritten(release: PublishedPipeline) -> Pipeline:
    """A release whose catalog's journal was written anew without one event of labelling."""
    pipeline = release.pipeline
    with pipeline.catalog.reading() as connection:
        first = next(event.number for event in events(connection) if event.kind == "label")
    rewrite(pipeline, without=first)
    return pipeline


def test_a_journal_written_anew_after_publishing(rewritten: Pipeline) -> None:
    """The wheel names the event of its calibration."""
    told = said(rewritten)
    assert " in the policy's journal, and " in told
    assert "the journal was written anew or cut short" in told


def test_a_journal_written_anew_before_publishing(pipeline: Pipeline, anchored: bytes) -> None:
    """Nothing inside can tell; the head that somebody else keeps can."""
    ((name,),) = ask(pipeline, "SELECT external_id FROM trajectory WHERE split = 'train' ORDER BY id LIMIT 1")
    with pipeline.catalog.writing() as connection:
        withdraw(connection, f"runs/{name}", "inconvenient")
        found = head(connection)
    assert found is not None
    anchor = f"{found}\n".encode()
    by_hand(pipeline, "DELETE FROM withdrawal")
    rewrite(pipeline, without=found.number)
    assert judged(pipeline).passed
    assert judged(pipeline, anchored).passed
    verdict = judged(pipeline, anchor)
    assert not verdict.passed
    assert f"event {found.number} is {found.sha256} in the anchor, and missing in the catalog" in verdict.detail


def test_an_erased_run(pipeline: Pipeline, bad: tuple[int, str, int]) -> None:
    """It is gone with the journal's knowledge, and the journal holds nothing of it but hashes."""
    ((name, text),) = ask(pipeline, "SELECT external_id, group_key FROM trajectory WHERE id = ?", bad[2])
    erase(pipeline.catalog, pipeline.artifacts, [f"runs/{name}"], "asked for by its author")
    verdict = judged(pipeline)
    assert verdict.passed
    assert "were erased since" in verdict.detail
    for (content,) in ask(pipeline, "SELECT content FROM journal_event"):
        assert name not in content
        assert text not in content
        assert "asked for by its author" not in content


def test_a_catalog_from_before_the_journal(pipeline: Pipeline) -> None:
    from drsr.offline.catalog.migrations import downgrade_catalog, upgrade_catalog

    url = pipeline.settings["DRSR_CATALOG_URL"]
    pipeline.catalog.close()
    downgrade_catalog(url, "0006", may_lose_rows=True)
    upgrade_catalog(url)
    verdict = judged(pipeline)
    assert verdict.passed
    assert "NOT COVERED is how this came to be, which is older than the journal: 1 calibrations, 8 files" in (
        verdict.detail.replace("source files", "files")
    )
    by_hand(pipeline, "DELETE FROM frozen_trajectory WHERE trajectory_id = 1")
    assert ", open) and not in the catalog: it was deleted past the journal" in said(pipeline)
