"""Limits loosened, seeds tried until one fits: seen by whoever kept the promise, and counted for everybody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from drsr.offline.audit.checks import promises
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.withdrawals import withdraw
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import ask, by_hand
from tests.offline.small_pipeline import Pipeline, copy_of, fit, quick_params


@pytest.fixture
def before(pipeline: Pipeline, tmp_path: Path) -> Iterator[Catalog]:
    """A catalog that is not the audited one: its journal does not know what is promised here."""
    copy = copy_of(pipeline, tmp_path / "before")
    yield copy.catalog
    copy.catalog.close()


def judged(pipeline: Pipeline, promise: bytes | None) -> Verdict:
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order(promise=promise))
    (verdict,) = run_audit(subject, [promises.CHECK]).verdicts
    return verdict


def test_a_promise_that_was_kept(pipeline: Pipeline, before: Catalog) -> None:
    verdict = judged(pipeline, promises.promise(before, quick_params()))
    assert verdict.passed
    assert "1 trainings and 1 calibrations were made on the same data" in verdict.detail


def test_a_promise_made_afterwards(pipeline: Pipeline) -> None:
    """Word for word what was done, and promised when it was done: the journal has the order."""
    verdict = judged(pipeline, promises.promise(pipeline.catalog, quick_params()))
    assert not verdict.passed
    assert verdict.detail.startswith("the promise was made after the scorer was trained (event ")


def test_limits_that_were_loosened(pipeline: Pipeline, before: Catalog) -> None:
    verdict = judged(pipeline, promises.promise(before, quick_params(max_unsafe_rate=0.05)))
    assert not verdict.passed
    assert verdict.items == ("calibrate.max_unsafe_rate was promised as 0.05, and is 0.9",)


def test_other_seeds_and_fewer_rules(pipeline: Pipeline, before: Catalog) -> None:
    promised = orjson.loads(promises.promise(before, quick_params()))
    promised["params"]["train"]["seeds"] = [1, 2]
    promised["rules"]["labels"] += 1
    verdict = judged(pipeline, orjson.dumps(promised))
    assert verdict.items == (
        "train.seeds was promised as [1, 2], and is [11, 29]",
        "23 rules of labels were promised, this version judges 22",
    )


def test_a_policy_that_nobody_promised_anything_about(pipeline: Pipeline) -> None:
    """It passes, and says so, with what was tried on the same data."""
    named = [name for _, name, *_ in ask(pipeline, "PRAGMA table_info(calibration_run)")]
    columns = ", ".join(name for name in named if name not in ("id", "calibration_key"))
    copied = f"SELECT 'tried before', {columns} FROM calibration_run"
    by_hand(pipeline, f"INSERT INTO calibration_run (calibration_key, {columns}) {copied}")
    verdict = judged(pipeline, None)
    assert verdict.passed
    assert verdict.detail.startswith("NOT COMPARED: no promise was handed over; unsafe rate 0.9, mean harm 1, ")
    assert "2 calibrations were made on the same data" in verdict.detail


def test_limits_that_were_tried_on_other_data(pipeline: Pipeline) -> None:
    """Without one run of validation that nobody misses: other hashes, and counted all the same."""
    with pipeline.catalog.writing() as connection:
        ((name,),) = ask(pipeline, "SELECT min(external_id) FROM trajectory WHERE split = 'validation'")
        withdraw(connection, f"runs/{name}", "to try on")
    fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(removal_cap=0.19))
    assert "and 1 other recipes were calibrated on other data of this view" in judged(pipeline, None).detail


def test_a_promise_of_what_turned_out_best(pipeline: Pipeline) -> None:
    """Kept to the letter, on data that differ by one run from those that another recipe was tried on before."""
    numbers = quick_params(removal_cap=0.19)
    with pipeline.catalog.writing() as connection:
        ((name,),) = ask(pipeline, "SELECT min(external_id) FROM trajectory WHERE split = 'validation'")
        withdraw(connection, f"runs/{name}", "to try on")
    promised = promises.promise(pipeline.catalog, numbers)
    fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers)
    verdict = judged(pipeline, promised)
    assert verdict.passed
    assert " of the journal, after 1 other recipes had been calibrated with these labels)" in verdict.detail


def test_something_else_than_a_promise(pipeline: Pipeline) -> None:
    for data in (b"", b"[]", b"{}", b'{"format": "drsr-promise/1", "params": 3, "rules": 4}'):
        verdict = judged(pipeline, data)
        assert not verdict.passed
        assert "is not a promise of the format" in verdict.detail
