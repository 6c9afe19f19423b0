"""What happened around the fit: states left out and then erased, a reading of the data that is dated otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from drsr.offline.audit.journal import CHECK
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.journal import event_hash, events
from drsr.offline.erase import erase
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import ask, audited, by_hand, failures, trained_again
from tests.offline.small_pipeline import Pipeline


@pytest.fixture
def bad(pipeline: Pipeline) -> tuple[int, str, int]:
    """A run of validation with its name, and how many states it has."""
    return ask(
        pipeline,
        "SELECT t.id, t.external_id, count(*) FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "WHERE t.split = 'validation' GROUP BY t.id ORDER BY count(*) DESC, t.id LIMIT 1",
    )[0]


def judged(pipeline: Pipeline) -> Verdict:
    (verdict,) = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order()), [CHECK]).verdicts
    return verdict


def test_states_left_out_of_the_fit_and_then_erased(
    pipeline: Pipeline, bad: tuple[int, str, int], tmp_path: Path
) -> None:
    """Hidden while the scorer is fitted, and erased by the command, so that nobody can ask for them."""
    number, name, states = bad
    assert states > 1
    by_hand(pipeline, "UPDATE decision_state SET status = 'excluded' WHERE trajectory_id = ?", number)
    release = trained_again(pipeline, tmp_path / "packages")
    by_hand(release.pipeline, "UPDATE decision_state SET status = 'frozen' WHERE trajectory_id = ?", number)
    erase(release.pipeline.catalog, release.pipeline.artifacts, [f"runs/{name}"], "asked for by its author")
    caught = failures(audited(release, [CHECK]))["journal"]
    assert f"{states} of " in caught
    assert " states of validation that were at hand when the scorer's data were read (event " in caught
    assert "were erased since: nobody can say why they were left out (allowed 1)" in caught


def test_an_erased_state_that_may_have_had_no_features(
    pipeline: Pipeline, bad: tuple[int, str, int], tmp_path: Path
) -> None:
    """One may be missing, as everywhere, and it is said."""
    number, name, _ = bad
    by_hand(
        pipeline,
        "UPDATE decision_state SET status = 'excluded' WHERE id = (SELECT min(id) FROM decision_state "
        "WHERE trajectory_id = ?)",
        number,
    )
    release = trained_again(pipeline, tmp_path / "packages")
    by_hand(release.pipeline, "UPDATE decision_state SET status = 'frozen' WHERE trajectory_id = ?", number)
    erase(release.pipeline.catalog, release.pipeline.artifacts, [f"runs/{name}"], "asked for by its author")
    (verdict,) = audited(release, [CHECK]).verdicts
    assert verdict.passed
    assert (
        "; 1 states that could be fitted were erased since, and the policy was made without them: nobody can say why"
        in verdict.detail
    )


def chained_anew(pipeline: Pipeline, kind: str = "train", **facts: Any) -> None:
    """The journal with other facts in the event of the training, or with it as another kind; every hash in order."""
    with pipeline.catalog.reading() as connection:
        noted = [*events(connection)]
    before = "0" * 64
    for event in noted:
        content, is_training = event.content, event.kind == "train"
        if is_training:
            document = orjson.loads(content)
            content = orjson.dumps(document | {"facts": facts}, option=orjson.OPT_SORT_KEYS).decode()
        named = kind if is_training else event.kind
        sha256 = event_hash(event.number, named, before, content)
        values = (named, content, before, sha256, event.number)
        changes = "kind = ?, content = ?, before = ?, sha256 = ?"
        by_hand(pipeline, f"UPDATE journal_event SET {changes} WHERE id = ?", *values)
        before = sha256


@pytest.mark.parametrize("event", [0, 1_000_000])
def test_data_that_were_read_at_no_event(pipeline: Pipeline, event: int) -> None:
    """Nobody could say what was at hand then, and so nothing would have been left out."""
    chained_anew(pipeline, read_after=event)
    verdict = judged(pipeline)
    assert not verdict.passed
    assert f"says that the scorer's data were read after event {event}, which cannot be" in verdict.detail


def test_a_training_said_to_be_older_than_the_journal(pipeline: Pipeline) -> None:
    """Nothing would be asked about what was at hand."""
    chained_anew(pipeline, kind="open")
    verdict = judged(pipeline)
    assert not verdict.passed
    assert " says that it opens the journal, which had begun with event 1" in verdict.detail


def test_data_that_were_read_before_most_of_them_were_measured(pipeline: Pipeline) -> None:
    """It may be so where others go on measuring, and is said."""
    assert "while the scorer was trained" not in judged(pipeline).detail
    with pipeline.catalog.reading() as connection:
        first = next(event.number for event in events(connection) if event.kind == "label")
    chained_anew(pipeline, read_after=first)
    verdict = judged(pipeline)
    assert verdict.passed
    assert " states were measured while the scorer was trained, and took no part" in verdict.detail
