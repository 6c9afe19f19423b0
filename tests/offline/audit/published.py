"""A small published policy, the audit of it, and the tools to tamper with what it rests on.

release = published(pipeline, folder)        the small pipeline's calibration as a wheel
audit = audited(release)                     the checks that need no language model, or those that are named
by_hand(pipeline, statement)                 change rows as somebody with the file would: no rule stops it
go_on(pipeline, file, **changes)             ingest a run that has changed since: its states so far are superseded
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drsr.offline.audit.checks import data_rules, future, golden, labels, states
from drsr.offline.audit.journal import CHECK as JOURNAL
from drsr.offline.audit.release import gated_order
from drsr.offline.audit.running import CHECKS, Audit, run_audit
from drsr.offline.ingest.stage import ingest
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Check
from tests.offline import small_pipeline
from tests.offline.chat_files import write_json
from tests.offline.small_pipeline import Pipeline, fit, publish_quickly, quick_params

ALL_BUT_RULES = tuple(check for check in CHECKS if check is not data_rules.CHECK)
"""The expectations take seconds of their own."""
WITHOUT_MODEL = tuple(
    check for check in ALL_BUT_RULES if check not in (JOURNAL, future.CHECK, golden.CHECK, labels.CHECK, states.CHECK)
)
"""The quick ones: what no language model is needed for, and no run is read again for. Without the journal, which every
change by hand offends: `planted/test_past_the_journal.py` asks it."""


class PublishedPipeline(NamedTuple):
    pipeline: Pipeline
    packages: Path
    wheel: Path


def published(pipeline: Pipeline, folder: Path) -> PublishedPipeline:
    """A copy of a calibrated pipeline, with its policy in an index."""
    return publish_again(small_pipeline.copy_of(pipeline, folder / "pipeline"), folder / "packages")


def found(folder: Path, pipeline: Pipeline) -> PublishedPipeline:
    """The one that was published into a folder before."""
    (wheel,) = (folder / "packages").rglob("*.whl")
    return PublishedPipeline(pipeline, folder / "packages", wheel)


def publish_again(pipeline: Pipeline, packages: Path) -> PublishedPipeline:
    """Publish what the pipeline's calibration gives."""
    done = publish_quickly(pipeline, gated_order(index=packages))
    return PublishedPipeline(pipeline, packages, done.wheel)


def trained_again(pipeline: Pipeline, packages: Path) -> PublishedPipeline:
    """Train, calibrate and publish from what is in the catalog now, so that every hash is in order."""
    calibration = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params())
    return publish_again(pipeline._replace(calibration=calibration), packages)


def copy_of(release: PublishedPipeline, folder: Path) -> PublishedPipeline:
    """The same in a folder of its own, to be changed at will."""
    packages = folder / "packages"
    shutil.copytree(release.packages, packages)
    wheel = packages / release.wheel.relative_to(release.packages)
    return PublishedPipeline(small_pipeline.copy_of(release.pipeline, folder / "pipeline"), packages, wheel)


def audited(
    release: PublishedPipeline, checks: Sequence[Check[Subject]] = WITHOUT_MODEL, sample: int | None = 1
) -> Audit:
    pipeline = release.pipeline
    order = Order(policy=str(release.wheel), sample=sample)
    return run_audit(Subject(pipeline.catalog, pipeline.artifacts, order), checks)


def asked(pipeline: Pipeline, check: Check[Subject], sample: int | None = 0) -> dict[str, str]:
    """What fails of one check, asked of the latest calibration before anything is published."""
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order(sample=sample))
    return failures(run_audit(subject, [check]))


def failures(audit: Audit) -> dict[str, str]:
    """What failed, by the check's name: the offending items, or what was found."""
    return {verdict.check: "\n".join(verdict.items) or verdict.detail for verdict in audit.failures}


def by_hand(pipeline: Pipeline, statement: str, *values: Any) -> None:
    """Change rows as somebody with the file and a tool would: none of the database's own rules stops it."""
    connection = sqlite3.connect(pipeline.folder / "catalog.sqlite", isolation_level=None)
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        assert connection.execute(statement, values).rowcount >= 1
    finally:
        connection.close()


def go_on(pipeline: Pipeline, file: Path, **changes: Any) -> None:
    """The run of a file with one more message, and with what else changes, as its newer version."""
    ((before,),) = ask(pipeline, "SELECT min(location) FROM source_file")
    moved = (before.partition("/runs/")[0], str(pipeline.folder))
    by_hand(pipeline, "UPDATE source_file SET location = replace(location, ?, ?)", *moved)
    run = json.loads(file.read_text())
    more = {"messages": [*run["messages"], {"role": "user", "content": "And now?"}]} | changes
    write_json(file, run | more, long_ago=False)
    ingest(pipeline.catalog, pipeline.artifacts, str(file.parent), source="runs")


def ask(pipeline: Pipeline, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows, the same way."""
    connection = sqlite3.connect(pipeline.folder / "catalog.sqlite")
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()
