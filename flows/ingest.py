"""The flow `ingest`: read what is new or changed at some locations."""

from __future__ import annotations

from typing import Any

from prefect import flow, task

from drsr.offline import samples
from drsr.offline.ingest import ingest as read_location
from flows.faults import RETRIES
from flows.parameters import Location
from flows.places import opened
from flows.stage_tasks import TIMEOUTS

SAMPLE = Location(uri=str(samples.CORPUS), source="sandbox")
"""The bundled sample corpus."""


@task(name="ingest-location", task_run_name="ingest {location.uri}", **RETRIES)
def ingest_location(location: Location) -> dict[str, Any]:
    """Read one location."""
    with opened(create=True) as place:
        summary = read_location(
            place.catalog, place.artifacts, location.uri, source=location.source, reader=location.format
        )
    return summary.to_json()


@flow(name="ingest", timeout_seconds=TIMEOUTS["ingest"])
def ingest(locations: list[Location] | None = None) -> dict[str, Any]:
    """Read every location, by default the sample corpus. What did not change is not read again."""
    done = [ingest_location(location) for location in (locations or [SAMPLE])]
    return added_up(done)


def added_up(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Several summaries as one: numbers added, reasons added by name."""
    total: dict[str, Any] = {}
    for summary in summaries:
        for key, value in summary.items():
            if isinstance(value, dict):
                there = total.setdefault(key, {})
                for reason, count in value.items():
                    there[reason] = there.get(reason, 0) + count
            else:
                total[key] = total.get(key, 0) + value
    return total
