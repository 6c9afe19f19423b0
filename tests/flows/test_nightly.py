"""The order of a refresh, and where it ends."""

from __future__ import annotations

import itertools
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.flow_engine import FlowRunTimeoutError
from sqlalchemy import update

from drsr.errors import ExpectationFailed, InputError, ReleaseRefused
from drsr.flows import nightly
from drsr.flows.expecting import judged
from drsr.flows.places import Place
from drsr.flows.stage_tasks import StageInterrupted, StageTimedOut, in_time
from drsr.flows.stages.publish import HELD_BACK, held_back, superseded
from drsr.flows.summaries import said
from drsr.offline.catalog.label_tables import Label
from drsr.offline.stages import NAMES
from drsr.settings import Settings
from tests.offline.small_pipeline import Pipeline

ROOT = Path(__file__).parents[2]


def test_a_stage_that_is_given_up_is_named() -> None:
    """By itself Prefect says that the flow around it took too long, and how long that one may."""

    def hang() -> Mapping[str, Any]:
        time.sleep(0.1)
        raise FlowRunTimeoutError("Scope timed out after 0.1 second(s).")

    with pytest.raises(StageTimedOut, match="featurize: did not end in time.*0.1 second"):
        in_time("featurize", hang)


def test_a_stage_that_is_interrupted_did_not_take_too_long() -> None:
    """Prefect ends a flow that has lost its place in a concurrency limit, and says that its time was over."""

    def end() -> Mapping[str, Any]:
        raise FlowRunTimeoutError("Scope timed out after 259200.0 second(s).")

    with pytest.raises(StageInterrupted, match="label: Prefect ended it after 0 s, before its limit"):
        in_time("label", end)


@pytest.mark.parametrize("broken", NAMES)
def test_nothing_runs_after_an_expectation_that_fails(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge_after(stage: str, docs: str | None) -> int:
        judged.append(stage)
        if stage == broken:
            raise ExpectationFailed("a rule is broken", where=stage)
        return 1

    noted = refresh_with_doubles(monkeypatch, lambda *arguments: {})
    monkeypatch.setattr(nightly, "judge_after", judge_after)
    with pytest.raises(ExpectationFailed):
        nightly.nightly.fn()
    assert judged == list(NAMES[: NAMES.index(broken) + 1])
    assert noted == []


def test_it_ends_where_there_is_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = refresh_with_doubles(monkeypatch, lambda *arguments: {})
    monkeypatch.setattr(nightly, "nothing_new", lambda *arguments: {"published": True})
    found = nightly.nightly.fn()
    assert (found["headline"], list(found["stages"]), noted) == (nightly.NOTHING_NEW, ["ingest"], [])


def test_a_planted_fault_is_named_and_the_pages_show_it(pipeline: Pipeline, tmp_path: Path) -> None:
    settings = Settings(*pipeline.settings.values())
    place = Place(settings, pipeline.catalog, pipeline.artifacts)
    rows, failure = judged(place, "label", str(tmp_path / "docs"))
    assert (failure, all(row["passed"] for row in rows), len(rows) > 5) == (None, True, True)
    assert not (tmp_path / "docs").exists()
    with pipeline.catalog.writing() as connection:
        connection.execute(update(Label).values(unsafe=True).where(Label.harm < 0))
    rows, failure = judged(place, "label", str(tmp_path / "docs"))
    assert isinstance(failure, ExpectationFailed)
    assert "labels" in str(failure)
    assert not all(row["passed"] for row in rows)
    assert (tmp_path / "docs" / "index.html").exists()


def refusal(*failed: str) -> ReleaseRefused:
    gates = [(check, check not in failed, "detail") for check in ("admissible", "lineage", *HELD_BACK)]
    return ReleaseRefused("nothing was published", gates=gates)


@pytest.mark.parametrize("check", sorted(HELD_BACK))
def test_a_policy_that_may_not_follow_is_an_outcome(check: str) -> None:
    found = held_back(refusal(check))
    assert (found["published"], found["reason"]) == (False, "nothing was published")
    assert {gate["check"] for gate in found["gates"] if not gate["passed"]} == {check}


@pytest.mark.parametrize("failed", [("lineage",), ("lineage", "admissible"), ()])
def test_any_other_refusal_is_a_fault(failed: tuple[str, ...]) -> None:
    with pytest.raises(ReleaseRefused):
        held_back(refusal(*failed))


def test_the_names_of_the_checks_are_those_that_are_run() -> None:
    from drsr.offline.publish.gates import ADMISSIBLE
    from drsr.offline.publish.succession import NOT_WORSE

    assert {ADMISSIBLE.name, NOT_WORSE.name} == HELD_BACK


def refresh_with_doubles(monkeypatch: pytest.MonkeyPatch, publish: Callable[..., dict[str, Any]]) -> list[Any]:
    """The flow's own steps alone; gives what is noted at the end. Every look at the data finds another stamp."""
    noted: list[Any] = []
    looks = itertools.count()

    def nothing(*arguments: Any) -> dict[str, Any]:
        return {}

    for stage in NAMES:
        monkeypatch.setattr(nightly, stage, nothing)
    monkeypatch.setattr(nightly, "calibrate", lambda *arguments: {"calibration_key": "feed"})
    monkeypatch.setattr(nightly, "publish", publish)
    monkeypatch.setattr(nightly, "get_run_logger", logging.getLogger)
    monkeypatch.setattr(nightly, "said", lambda stage, result: stage)
    monkeypatch.setattr(nightly, "nothing_new", lambda *arguments: None)
    monkeypatch.setattr(nightly, "look_at_the_data", lambda *arguments: f"look {next(looks)}")
    monkeypatch.setattr(nightly, "note_end", lambda *arguments: noted.append(arguments))
    monkeypatch.setattr(nightly, "journal_head", lambda: "7 feed")
    monkeypatch.setattr(nightly, "only_night", lambda flow_run: nullcontext())
    for outside in ("leave_summary", "judge_after"):
        monkeypatch.setattr(nightly, outside, nothing)
    return noted


def test_what_was_calibrated_tonight_is_what_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not whatever calibration happens to be the latest in the catalog."""
    asked: list[tuple[Any, ...]] = []

    def publish(*arguments: Any) -> dict[str, Any]:
        asked.append(arguments)
        return {"published": False, "reason": "a double"}

    noted = refresh_with_doubles(monkeypatch, publish)
    nightly.nightly.fn(index="packages", certified=True)
    assert asked == [("packages", "feed")]
    ((refreshed, mark, outcome),) = noted
    assert (refreshed.certified, outcome["published"], outcome["recorded"]) == (True, False, {})
    assert mark == "look 0", "as the data were before anything was fitted: what came later is news for the next night"


def test_a_night_of_few_new_labels_ends_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = refresh_with_doubles(monkeypatch, lambda *arguments: {"published": False, "reason": "a double"})
    monkeypatch.setattr(nightly, "too_few_labels", lambda refreshed, wanted: f"3 of {wanted} wait")
    told: list[str] = []
    monkeypatch.setattr(nightly, "note_what_waits", told.append)
    ended = nightly.nightly.fn(skip_training_below=5)
    assert list(ended["stages"]) == ["ingest", "freeze", "label", "featurize"]
    assert (ended["headline"], ended["outcome"]) == ("3 of 5 wait", {"published": False, "reason": "3 of 5 wait"})
    assert noted == [], "the next night looks again"
    assert told == ["3 of 5 wait"]


def test_a_night_that_cannot_be_recorded_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path}/catalog.sqlite")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nightly, "get_run_logger", logging.getLogger)
    with pytest.raises(InputError, match="has no .dvc"):
        nightly.nightly.fn(dvc=True)
    assert not (tmp_path / "catalog.sqlite").exists()


def test_data_that_changed_meanwhile_are_the_reason_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(*arguments: Any) -> dict[str, Any]:
        raise refusal("lineage")

    noted = refresh_with_doubles(monkeypatch, publish)
    with pytest.raises(InputError, match="the data changed while the policy was made from them"):
        nightly.nightly.fn()
    monkeypatch.setattr(nightly, "look_at_the_data", lambda *arguments: "the same")
    with pytest.raises(ReleaseRefused):
        nightly.nightly.fn()
    assert noted == []


def test_a_policy_that_others_followed_is_not_called_published() -> None:
    found = superseded("2026.11.1", "2026.11.2")
    assert not found["published"]
    assert "published as 2026.11.1 and followed by 2026.11.2" in said("publish", found)
