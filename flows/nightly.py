"""The flow `nightly`: every stage in order, on what is new. `python -m drsr.flows.nightly` runs it on this machine.

It stops at the first stage or expectation that fails; what was recorded before stays, and the next run goes on from
there. Nothing is published then. A run that finds nothing new says so, and ends after the first stage.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from drsr.errors import DrsrError, InputError, ReleaseRefused
from drsr.flows.expecting import judge_after, write_docs
from drsr.flows.parameters import EVERYTHING, HERE, Count, Enough, FanOut, Location, Name
from drsr.flows.places import only_night, opened
from drsr.flows.recording import record, require_repository
from drsr.flows.stage_tasks import BETWEEN_STAGES, in_time
from drsr.flows.stages.calibrate import calibrate
from drsr.flows.stages.evaluate import evaluate
from drsr.flows.stages.featurize import featurize
from drsr.flows.stages.freeze import freeze
from drsr.flows.stages.ingest import ingest
from drsr.flows.stages.label import label
from drsr.flows.stages.publish import publish
from drsr.flows.stages.train import train
from drsr.flows.summaries import leave_dashboard, leave_summary, said
from drsr.flows.wishes import Wishes, pages_in
from drsr.offline.catalog.journal import head
from drsr.offline.ingest.feeds.limits import feeds, load_limits, load_mappings, load_redactions
from drsr.offline.notices import failure_of, note_failure, tell_failure
from drsr.offline.params import load_params
from drsr.offline.publish.refreshes import (
    Refresh,
    Refreshed,
    last_refresh,
    new_labels,
    note_refresh,
    note_waiting,
    stamp,
    waiting,
)
from drsr.offline.run import Done, in_order
from drsr.offline.stages import LAST_BEFORE_TRAINING, NAMES

NOTHING_NEW = "nothing new"


def run_name() -> str:
    """Name a flow run by what it reads and when: `nightly 2026-11-17 s3://runs`."""
    places = flow_run.parameters.get("locations") or []
    uris = [place["uri"] if isinstance(place, dict) else place.uri for place in places]
    when = flow_run.scheduled_start_time or datetime.datetime.now(datetime.UTC)
    more = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
    return " ".join(["nightly", f"{when:%Y-%m-%d}", *uris[:1]]) + more


def tell(flow: Any, flow_run: Any, state: State[Any]) -> None:
    """Tell the failure hook why a night ended: `on_failure` in the settings of the machine that ran it."""
    error = state.result(raise_on_failure=False)
    if not isinstance(error, BaseException):
        error = RuntimeError(state.message or "no reason is known")
    tell_failure(failure_of(flow_run.name, error))


@flow(name="nightly", flow_run_name=run_name, on_failure=[tell], on_crashed=[tell])
def nightly(
    locations: list[Location] | None = None,
    fan_out: FanOut = HERE,
    view: Name = "default",
    labeler: Name = "default",
    certified: bool = False,
    ablations: bool = False,
    index: Name = "var/index",
    docs: Name | None = None,
    dvc: bool = False,
    skip_training_below: Count | Enough | None = None,
) -> dict[str, Any]:
    """Refresh labels, features, scorer and policy.

    `locations`: where recorded runs are; without any, the night ends at once. `certified`: calibrate with a bound.
    `ablations`: evaluate every configuration, not the full scorer alone. `index`: the folder that pip installs from.
    `docs`: a folder for the pages that say what was expected of the data. `dvc`: record every stage with DVC, in the
    repository that is the working directory. `skip_training_below`: end after featurize unless so many states were
    labelled since the latest scorer was trained; 2% is that share of those it has seen.
    """
    logger = get_run_logger()
    load_params()  # rather now than after a night of labelling
    load_mappings()
    load_redactions()
    if dvc:
        require_repository(Path.cwd())
    refreshed, wishes = Refreshed(view, labeler, certified), Wishes(index, docs, dvc, ablations)
    chosen: dict[str, dict[str, Any]] = {}
    run: dict[str, Callable[[], Mapping[str, Any]]] = {
        "ingest": lambda: ingest(locations),
        "freeze": lambda: freeze(),
        "label": lambda: label(EVERYTHING, fan_out, labeler),
        "featurize": lambda: featurize(EVERYTHING, fan_out, view),
        "train": lambda: train(view, labeler),
        "calibrate": lambda: chosen.setdefault("calibration", calibrate(view, labeler, certified)),
        "evaluate": lambda: evaluate(view, labeler, ablations),
        "publish": lambda: published_from(mark, refreshed, index, chosen["calibration"]["calibration_key"]),
    }
    before: dict[str, Any] | None = None
    waits: str | None = None
    mark: str | None = None
    recorded: dict[str, str] = {}

    def check(stage: str, result: Mapping[str, Any]) -> bool:
        nonlocal before, mark, waits
        logger.info("%s: %s", stage, said(stage, result))
        if stage == "ingest":  # which waits for others by itself, and makes the catalog where there is none
            night.enter_context(only_night(str(flow_run.id)))
            before = nothing_new(refreshed, wishes)
        if before is not None:
            return False
        if stage == LAST_BEFORE_TRAINING:  # what comes later, from a backfill beside, waits for the next refresh
            mark = look_at_the_data(refreshed)
        if result.get("published", True):
            judge_after(stage, docs)
        if dvc:
            recorded.update(record_stage(stage, labeler, view))
        if stage == LAST_BEFORE_TRAINING and skip_training_below is not None:
            waits = too_few_labels(refreshed, skip_training_below)
        return waits is None

    read = [place.uri for place in locations or []]
    with shown_if_it_fails(docs), ExitStack() as night:
        done = in_order(NAMES, lambda stage: in_time(stage, run[stage], read if stage == "ingest" else ()), check)
        if before is not None:
            return _end(done, NOTHING_NEW, before, docs, recorded=False)
        if waits is not None:
            note_what_waits(waits)
            return _end(done, waits, {"published": False, "reason": waits}, docs, recorded=dvc)
        outcome = dict(done.results["publish"])
        if docs is not None:
            write_docs(docs)
        left = {"recorded": recorded, "ablations": ablations, "pages": None if docs is None else pages_in(docs)}
        note_end(refreshed, mark, outcome | left)
    return _end(done, said("publish", outcome), outcome, docs, recorded=dvc)


@task(name="look-for-news", **BETWEEN_STAGES)
def nothing_new(refreshed: Refreshed, wishes: Wishes) -> dict[str, Any] | None:
    """Return how the last refresh ended if nothing waits and nothing has changed since; None if there is work.

    A source that broke its limits is work: its rule is judged again, and fails, until it is settled.
    """
    with opened() as place:
        with place.catalog.reading() as connection:
            if not all(feed.is_settled for feed in feeds(connection, load_limits())):
                return None
        last = last_refresh(place.catalog, refreshed)
        if last is None or not wishes.are_met(last.outcome):
            return None
        if last.stamp != stamp(place.catalog, load_params(), refreshed):
            return None
        left = waiting(place, view=refreshed.view, labeler=refreshed.labeler)
        return None if any(left) else last.outcome


@task(name="count-new-labels", **BETWEEN_STAGES)
def too_few_labels(refreshed: Refreshed, wanted: int | str) -> str | None:
    """Say what waits for training; None if there is enough, or nothing was trained yet."""
    with opened() as place:
        new = new_labels(place.catalog, refreshed.view, refreshed.labeler, load_params().train.source)
    return new.waiting(wanted) if new is not None and new.are_too_few(wanted) else None


@task(name="look-at-the-data", **BETWEEN_STAGES)
def look_at_the_data(refreshed: Refreshed) -> str | None:
    """Return a stamp of all that this refresh is made from."""
    with opened() as place:
        return stamp(place.catalog, load_params(), refreshed)


def published_from(mark: str | None, refreshed: Refreshed, index: str, calibration: str) -> Mapping[str, Any]:
    """Publish. If nothing is published, the reason given first is that the data changed in between."""
    try:
        return publish(index, calibration)
    except ReleaseRefused as refusal:
        if look_at_the_data(refreshed) == mark:
            raise
        raise InputError(
            "the data changed while the policy was made from them, by a backfill or another run at the same time; "
            f"nothing was published ({refusal.what})",
            hint="run it again when the other has ended",
        ) from refusal


@task(name="record-with-dvc", task_run_name="record {stage}", **BETWEEN_STAGES)
def record_stage(stage: str, labeler: str, view: str) -> dict[str, str]:
    """Export what a stage made, and name it in dvc.lock."""
    return record(stage, labeler, view).outputs


@task(name="note-the-end", **BETWEEN_STAGES)
def note_end(refreshed: Refreshed, mark: str | None, outcome: dict[str, Any]) -> None:
    """Write down that this refresh came to its end."""
    assert mark is not None  # there was something to publish
    with opened() as place:
        note_refresh(place.catalog, refreshed, Refresh(mark, outcome))


@task(name="note-what-waits", **BETWEEN_STAGES)
def note_what_waits(waits: str) -> None:
    """Write down why this refresh ended before training."""
    with opened() as place:
        note_waiting(place.catalog, waits)


@task(name="write-dashboard", **BETWEEN_STAGES)
def write_dashboard(docs: str) -> None:
    """Write the page about all nights."""
    with opened() as place:
        leave_dashboard(place, Path(docs))


@contextmanager
def shown_if_it_fails(docs: str | None) -> Iterator[None]:
    """Note a failure within the block in the catalog, and show it on the dashboard: else the page is that of before."""
    try:
        yield
    except Exception as error:
        note_failure(failure_of(flow_run.name or "nightly", error))
        if docs is not None:
            _write_dashboard(docs)
        raise


def _write_dashboard(docs: str) -> None:
    """Write the dashboard. A page that fails spoils neither the night's results nor the notice of a failure."""
    try:
        write_dashboard(docs)
    except DrsrError as error:
        get_run_logger().warning("the dashboard was not written: %s", error)


def journal_head() -> str:
    """Return the journal's latest event, to be kept where the team cannot change it."""
    with opened() as place, place.catalog.reading() as connection:
        return str(head(connection))


def _end(
    done: Done[Mapping[str, Any]],
    headline: str,
    outcome: Mapping[str, Any],
    docs: str | None,
    *,
    recorded: bool,
) -> dict[str, Any]:
    if docs is not None:
        _write_dashboard(docs)
    journal = journal_head()
    get_run_logger().info("journal: %s", journal)
    leave_summary(done.results, done.seconds, headline, None if docs is None else Path(docs))
    return {
        "headline": headline,
        "stages": {
            stage: {"said": said(stage, result), "seconds": done.seconds[stage]}
            for stage, result in done.results.items()
        },
        "outcome": dict(outcome),
        "recorded": recorded,
        "journal": journal,
    }


if __name__ == "__main__":
    import sys

    from drsr.flows.one_machine import main

    sys.exit(main())
