"""After every stage the data is judged: what the stage changed must keep its rules, or the run ends there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_table_artifact

from drsr.errors import ExpectationFailed
from drsr.expectations.judging import AFTER, find, judge, present, require, whole, write_pages
from drsr.flows.places import Place, opened
from drsr.flows.stage_tasks import BETWEEN_STAGES
from drsr.offline.store.kept import kept_here


@task(name="judge", task_run_name="judge after {stage}", **BETWEEN_STAGES)
def judge_after(stage: str, docs: str | None) -> int:
    """Judge what a stage changed; returns how many rules hold. ExpectationFailed names the first that does not."""
    with opened() as place:
        rows, failure = judged(place, stage, docs)
    create_table_artifact(table=rows, key=f"expectations-after-{stage}", description="The rules of the data.")
    if failure is not None:
        raise failure
    return len(rows)


@task(name="write-data-docs", **BETWEEN_STAGES)
def write_docs(docs: str) -> None:
    """Write the pages about all datasets that hold anything."""
    with opened() as place:
        judge(place.catalog, place.artifacts, present(place.catalog), Path(docs), kept_here())


def judged(place: Place, stage: str, docs: str | None) -> tuple[list[dict[str, Any]], Exception | None]:
    """Return a row per rule, and the error if one is broken, which the pages then show if pages are wanted."""
    verdicts = judge(place.catalog, place.artifacts, AFTER[stage], kept=kept_here())
    rows = [found.row for found in verdicts]
    try:
        require(verdicts)
    except ExpectationFailed as failure:
        if docs is not None:
            datasets = whole(AFTER[stage])  # a page has every rule of its dataset
            write_pages(Path(docs), find(place.catalog, place.artifacts, datasets, kept_here()), place.catalog.location)
        return rows, failure
    return rows, None
