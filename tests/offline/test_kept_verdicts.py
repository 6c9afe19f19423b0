"""What a night keeps of what it judged: the same verdicts as judging everything anew, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event

from drsr.expectations import evaluation
from drsr.expectations.evaluation import Finding
from drsr.expectations.frames import frames_of
from drsr.expectations.inputs import READ_FROM, Fingerprints
from drsr.expectations.judging import DATASETS, find
from drsr.expectations.suites import SUITES
from drsr.offline.audit.checks import chain, data_rules, splits
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Table
from drsr.offline.ingest import near_duplicates, shared_subjects
from drsr.offline.publish.lineage import trace
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.store.kept import Kept
from drsr.offline.verdicts import run_check
from tests.offline.small_pipeline import Pipeline, add_runs

DATA = DATASETS[:-1]
"""Without the policy, which this pipeline has not published."""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The datasets that are really judged within the block."""
    judged: list[str] = []
    real = evaluation.evaluate

    def evaluate(suite: Any, *arguments: Any) -> Any:
        judged.append(f"{suite.dataset}.{suite.parts[0].name}" if suite.dataset == "splits" else suite.dataset)
        return real(suite, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "evaluate", evaluate)
        yield judged


def as_json(findings: list[Finding]) -> list[bytes]:
    """Parameters of a rule may be tuples, and come back as lists."""
    return [orjson.dumps(finding._asdict()) for finding in findings]


def kept_in(pipeline: Pipeline, code: str = "code") -> Kept:
    return Kept(pipeline.folder / "kept.sqlite", code)


@contextmanager
def tables_read(catalog: Catalog) -> Iterator[set[str]]:
    """The tables that statements within the block name."""
    found: set[str] = set()
    names = set(Table.metadata.tables)

    def note(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        found.update(names.intersection(re.findall(r"\w+", statement)))

    event.listen(catalog.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(catalog.engine, "before_cursor_execute", note)


def test_what_a_dataset_is_read_from_is_on_the_list(pipeline: Pipeline) -> None:
    """A table that is missing there could change without the dataset being judged again."""
    for name, tables in READ_FROM.items():
        dataset, _, part = name.partition(".")
        parts = [part] if part else [part.name for part in SUITES[dataset].parts]
        with tables_read(pipeline.catalog) as read:
            frames_of(dataset, pipeline.catalog, pipeline.artifacts, parts)
        assert read <= {table.__tablename__ for table in tables}, name
        assert read or dataset == "policy"


def test_kept_verdicts_are_those_of_judging_everything(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, anew = kept_in(pipeline), find(pipeline.catalog, pipeline.artifacts, DATA)
    with counted(monkeypatch) as judged:
        assert find(pipeline.catalog, pipeline.artifacts, DATA, kept) == anew
    assert len(judged) == len(READ_FROM) - 1
    with counted(monkeypatch) as judged:
        again = find(pipeline.catalog, pipeline.artifacts, DATA, kept)
    assert judged == []
    assert as_json(again) == as_json(anew)


def test_only_what_changed_is_judged_again(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, artifacts, kept = pipeline.catalog, pipeline.artifacts, kept_in(pipeline)
    find(catalog, artifacts, DATA, kept)
    add_runs(catalog, artifacts, pipeline.folder, first=500, runs={"train": 1})
    with counted(monkeypatch) as judged:
        found = find(catalog, artifacts, DATA, kept)
    unchanged = {"splits.reads", "splits.fits", "calibration"}
    assert set(judged) == READ_FROM.keys() - unchanged - {"policy"}
    assert as_json(found) == as_json(find(catalog, artifacts, DATA))


@pytest.mark.parametrize(
    ("statement", "dataset", "rule"),
    [
        ("UPDATE label SET harm = harm + 1 WHERE mask = 1", "labels", "H(empty) = 0: harm is measured against the"),
        ("UPDATE split_read SET split = 'test'", "splits.reads", "test split never read"),
        ("UPDATE decision_state SET candidates = 2 WHERE id = 1", "states", "a state has 3 or 4 candidates"),
    ],
)
def test_other_bytes_are_judged_again(pipeline: Pipeline, statement: str, dataset: str, rule: str) -> None:
    kept = kept_in(pipeline)
    assert all(found.passed for found in find(pipeline.catalog, pipeline.artifacts, [dataset], kept))
    with pipeline.catalog.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        connection.exec_driver_sql(statement)
        connection.commit()
    for _ in range(2):  # what is broken is never kept
        broken = [
            found.rule for found in find(pipeline.catalog, pipeline.artifacts, [dataset], kept) if not found.passed
        ]
        assert any(name.startswith(rule) for name in broken)


def test_other_code_judges_anew(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    find(pipeline.catalog, pipeline.artifacts, ["states"], kept_in(pipeline, "before"))
    with counted(monkeypatch) as judged:
        find(pipeline.catalog, pipeline.artifacts, ["states"], kept_in(pipeline, "after"))
    assert judged == ["states"]


def test_what_is_kept_of_the_runs_gives_the_same_findings(pipeline: Pipeline) -> None:
    """Signatures, subjects, Steps and requests: kept of some runs, read of the others."""
    catalog, artifacts, kept = pipeline.catalog, pipeline.artifacts, kept_in(pipeline)
    for _ in range(2):
        assert near_duplicates.leaked_pairs(catalog, artifacts, 0.0, kept) == near_duplicates.leaked_pairs(
            catalog, artifacts, 0.0
        )
        fast = shared_subjects.subjects_on_two_sides(catalog, artifacts, kept)
        assert fast == shared_subjects.subjects_on_two_sides(catalog, artifacts)
        for part in ("states", "candidates"):
            mine = frames_of("states", catalog, artifacts, [part], kept)[part]
            assert mine.equals(frames_of("states", catalog, artifacts, [part])[part])
        slow = trace(catalog, artifacts, pipeline.calibration)
        traced = trace(catalog, artifacts, pipeline.calibration, kept=kept)
        assert (traced.links, traced.problems, traced.state_keys) == (slow.links, slow.problems, slow.state_keys)
        add_runs(catalog, artifacts, pipeline.folder, first=700, runs={"train": 1, "test": 1})


def test_a_forged_value_deceives_a_night_and_no_audit(pipeline: Pipeline, tmp_path: Path) -> None:
    """Whoever can write the cache of a machine can lie to its nights. An audit reads everything itself."""
    catalog, artifacts, kept = pipeline.catalog, pipeline.artifacts, kept_in(pipeline)
    content = Fingerprints(catalog).of("labels")
    with catalog.writing() as connection:
        connection.exec_driver_sql("UPDATE label SET harm = harm + 1 WHERE mask = 1")
    forged = find(catalog, artifacts, ["labels"])
    passing = [found._asdict() | {"passed": True, "offending": []} for found in forged]
    now = Fingerprints(catalog).of("labels")
    assert now != content
    kept.keep("verdicts on labels", {now: orjson.dumps(passing)})
    assert all(found.passed for found in find(catalog, artifacts, ["labels"], kept))
    audit = Subject(catalog, artifacts, Order())
    assert audit.kept is None
    section = run_check(data_rules.CHECK, audit)
    assert "labels: H(empty) = 0: harm is measured against the intact history" in {
        verdict.check for verdict in section.verdicts if not verdict.passed
    }
    assert not run_check(chain.CHECK, audit).verdicts[0].passed
    forged_text = dict.fromkeys(_runs(pipeline), orjson.dumps(["another task", "0" * 64, "", "", ""]))
    kept.keep("task, text and sketches of a run", forged_text)
    assert not run_check(splits.CHECK, Subject(catalog, artifacts, Order(), kept=kept)).verdicts[0].passed
    assert run_check(splits.CHECK, audit).verdicts[0].passed


def _runs(pipeline: Pipeline) -> list[str]:
    with pipeline.catalog.reading() as connection:
        return list(connection.exec_driver_sql("SELECT content_hash FROM trajectory").scalars())
