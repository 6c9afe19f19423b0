"""Parameters are checked before anything runs."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.utilities.engine import collect_task_run_inputs_sync
from pydantic import ValidationError

from drsr.flows.parameters import DATE, Days, FanOut, Location, Part, of_day
from drsr.offline.freeze.selection import Selection, Shard

MONDAY = datetime.date(2026, 11, 16)


@pytest.mark.parametrize(
    "values",
    [
        {"uri": ""},
        {"uri": "runs", "format": "word"},
        {"uri": "runs", "colour": "red"},
        {"uri": "s3://key:secret@bucket/runs"},
        {"uri": "https://host/runs.zip?sig=secret"},
        {"uri": "zip://runs::s3://key:secret@bucket/runs.zip"},
        {"uri": "s3://key:sec/ret@bucket/runs"},
    ],
)
def test_locations_that_are_refused(values: dict) -> None:
    with pytest.raises(ValidationError):
        Location(**values)


@pytest.mark.parametrize("uri", ["runs", "s3://bucket/a@b/runs", "/data/*.jsonl", "s3://bucket/2026-11-16/"])
def test_locations_that_are_taken(uri: str) -> None:
    assert Location(uri=uri, format="tau_bench").uri == uri


@pytest.mark.parametrize(
    "values",
    [{"processes": 0}, {"states_per_shard": 0}, {"over": "threads"}, {"attempts": 0}, {"poll_seconds": 0}],
)
def test_fan_out_that_is_refused(values: dict) -> None:
    with pytest.raises(ValidationError):
        FanOut(**values)


def test_days_end_after_they_begin() -> None:
    with pytest.raises(ValidationError, match="before"):
        Days(since=MONDAY, until=MONDAY - datetime.timedelta(days=1))
    with pytest.raises(ValidationError, match="more than"):
        Days(since=datetime.date(1990, 1, 1), until=MONDAY)


@given(st.dates(datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)), st.integers(0, 400))
def test_days_are_each_day_once(first: datetime.date, more: int) -> None:
    days = list(Days(since=first, until=first + datetime.timedelta(days=more)).each())
    assert len(days) == len(set(days)) == more + 1
    assert (days[0], days[-1]) == (first, first + datetime.timedelta(days=more))


def test_the_location_of_a_day() -> None:
    location = Location(uri=f"s3://bucket/{DATE}/runs", source="agents")
    assert of_day(location, MONDAY) == Location(uri="s3://bucket/2026-11-16/runs", source="agents", day=MONDAY)
    with pytest.raises(ValueError, match="no {date}"):
        of_day(Location(uri="s3://bucket/runs", source="agents"), MONDAY)
    with pytest.raises(ValueError, match="has no name"):
        of_day(Location(uri="s3://bucket/{date}"), MONDAY)


def test_tasks_can_be_given_them() -> None:
    """Prefect looks into whatever a task is given, and takes models apart."""
    days = Days(since=MONDAY, until=MONDAY)
    for value in (Part(source="agents", days=days), FanOut(), Location(uri="runs"), [Location(uri="runs")]):
        assert collect_task_run_inputs_sync(value) == set()


def test_a_part_as_the_stages_take_it() -> None:
    assert Part().selection() == Selection()
    days = Days(since=MONDAY, until=MONDAY)
    shard = Shard(1, 3)
    found = Part(source="agents", split="train", days=days).selection(shard)
    assert found == Selection("agents", "train", MONDAY, MONDAY, shard)
