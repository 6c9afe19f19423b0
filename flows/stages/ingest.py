"""The flow `ingest`: read what is new or changed at some locations."""

from __future__ import annotations

import datetime
from typing import Any

from prefect import flow, task
from prefect.logging import get_run_logger

from drsr.errors import InputError, NothingThere
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Location
from drsr.flows.places import opened, patiently_opened
from drsr.flows.stage_tasks import TIMEOUTS, run_name
from drsr.offline.ingest.feeds.limits import (
    load_limits,
    load_mappings,
    load_redactions,
    load_words,
    unread_sections,
    warning_of,
)
from drsr.offline.ingest.feeds.redaction import load_redaction
from drsr.offline.ingest.stage import ingest as read_location
from drsr.offline.status import quarantined_items

MOST_NAMED = 20
"""Things that could not be read, named in the summary of a night; `drsr status --quarantined` has all."""


@task(name="ingest-location", task_run_name="ingest {location.uri}", **RETRIES)
def ingest_location(location: Location, may_be_missing: bool = False) -> dict[str, Any] | None:
    """Read one location. None if it is missing and may be."""
    began = datetime.datetime.now(datetime.UTC)
    with opened(create=True) as place:
        try:
            summary = read_location(
                place.catalog,
                place.artifacts,
                location.uri,
                source=location.source,
                reader=location.format or load_mappings(),
                day=None if location.day is None else location.day.isoformat(),
                redact=load_redactions() if location.redact is None else load_redaction(location.redact),
                words_of=load_words(),
            )
        except NothingThere as nothing:
            if not may_be_missing:
                raise
            get_run_logger().info("%s: %s", nothing.where, nothing.what)
            return None
        left_out = quarantined_items(place.catalog, since=began)[:MOST_NAMED] if summary.quarantined else []
    return summary.to_json() | {"left_out": [item._asdict() for item in left_out]}


@flow(name="ingest", flow_run_name=run_name, timeout_seconds=TIMEOUTS["ingest"])
def ingest(locations: list[Location] | None = None, gaps: bool = False) -> dict[str, Any]:
    """Read every location; there is no default. What did not change is not read again.

    `gaps`: some of the locations may be missing, but not all.
    """
    places = locations or []
    if not places:
        raise InputError(
            "no place to read recorded runs from is named",
            hint="set `locations` of this deployment, in prefect.yaml or for one run: [{uri: s3://bucket/runs}]",
        )
    done = [ingest_location(place, gaps) for place in places]
    found = [summary for summary in done if summary is not None]
    if not found:
        first, last = places[0].uri, places[-1].uri
        raise NothingThere("none of the places holds anything", where=f"{first} to {last}", hint="check the spelling")
    with patiently_opened() as opened_place, opened_place.catalog.reading() as connection:
        unread = unread_sections(connection, load_limits())
    if unread:
        get_run_logger().warning(warning_of(unread))
    return added_up(found)


def added_up(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return several summaries as one: numbers added, reasons added by name, lists one after another."""
    total: dict[str, Any] = {}
    for summary in summaries:
        for key, value in summary.items():
            if isinstance(value, dict):
                there = total.setdefault(key, {})
                for reason, count in value.items():
                    there[reason] = there.get(reason, 0) + count
            elif isinstance(value, list):
                total[key] = total.get(key, []) + value
            else:
                total[key] = total.get(key, 0) + value
    return total
