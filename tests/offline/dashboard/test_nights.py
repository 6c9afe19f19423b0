"""Nights from recorded runs: where one begins, how long stages took, what came of it."""

from __future__ import annotations

import pytest

from drsr.offline.catalog.engine import Catalog
from drsr.offline.dashboard.nights import grouped, read_nights
from drsr.offline.dashboard.numbers import said
from tests.offline.dashboard.history import a_night, failed, record, stage_run

PUBLISHED = {"published": True, "version": "2026.11.1"}
DAY = 24 * 60


def test_a_night_adds_up() -> None:
    (night,) = grouped(a_night(0, PUBLISHED))
    minutes = {stage: seconds / 60 for stage, seconds in night.seconds.items()}
    assert minutes == {
        "ingest": 1.0,
        "freeze": 1.0,
        "label": 30.0,  # of two workers, from the first start to the last end
        "featurize": 1.0,
        "train": 24.0,
        "calibrate": 1.0,
        "publish": 1.0,  # the row that notes the end counts for nothing
    }
    assert night.between == 3 * 60
    assert night.quarantined == {"broken_json": 2, "empty": 1}
    assert night.labelled_per_hour == 200.0
    assert night.total("label", "seconds") == 3_480.0
    assert said(night) == "published 2026.11.1"


def test_a_night_begins_with_ingest_or_after_a_pause() -> None:
    two = [*a_night(0, PUBLISHED), *a_night(62, PUBLISHED)]
    assert [len(night.runs) for night in grouped(two)] == [9, 9]
    quiet = [stage_run("ingest", day * DAY, day * DAY + 1) for day in range(3)]
    assert len(grouped(quiet)) == 3
    several = [stage_run("ingest", 0, 1), stage_run("ingest", 1, 2), stage_run("freeze", 2, 3)]
    assert len(grouped(several)) == 1
    later = [stage_run("freeze", 0, 90), stage_run("label", 149, 150), stage_run("label", 210, 211)]
    assert [len(night.runs) for night in grouped(later)] == [2, 1]
    assert grouped([]) == []


def test_nights_of_one_hour_are_told_apart() -> None:
    """A feed that is read every half hour: nothing new twice, work, and a place that is away."""
    reads = [stage_run("ingest", minute, minute + 1)._replace(subject="runs") for minute in (0, 30, 60)]
    nights = grouped([*reads, stage_run("freeze", 61, 62), failed(90, "ingest", "nothing is there")])
    assert [night.seconds for night in nights] == [
        {"ingest": 60.0},
        {"ingest": 60.0},
        {"ingest": 60.0, "freeze": 60.0},
        {},
    ]
    assert [said(night) for night in nights[1:]] == [
        "nothing new to work on",
        "ended after freeze, without a release",
        "failed in ingest: nothing is there",
    ]
    away = grouped([reads[0], failed(30, "ingest", "nothing is there")])
    assert [said(night) for night in away] == ["nothing new to work on", "failed in ingest: nothing is there"]
    at_once = [stage_run("ingest", 0, 2)._replace(subject="runs"), stage_run("ingest", 1, 3)._replace(subject="runs")]
    assert [night.seconds for night in grouped(at_once)] == [{"ingest": 180.0}]


def test_time_between_two_runs_of_a_stage_is_not_the_stages() -> None:
    (night,) = grouped([stage_run("label", 0, 10), stage_run("label", 5, 8), stage_run("label", 50, 51)])
    assert (night.seconds, night.between) == ({"label": 660.0}, 2_400.0)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([stage_run("ingest", 0, 1)], "nothing new to work on"),
        ([stage_run("ingest", 0, 1), stage_run("label", 1, None)], "not finished: label"),
        ([stage_run("ingest", 0, 1), stage_run("label", 1, 2)], "ended after label, without a release"),
        (a_night(0, {"published": False, "waits": "3 states wait"}), "3 states wait"),
        (a_night(0, {"published": False, "reason": "worse"}), "the released policy stays: worse"),
        ([stage_run("ingest", 0, 1), failed(2, "ingest", "a rule is broken")], "failed in ingest: a rule is broken"),
        ([stage_run("label", 0, None), failed(2, "label", "no room")], "failed in label: no room"),
        ([failed(50, "label", "no room"), *a_night(0, PUBLISHED)[-2:]], f"published {PUBLISHED['version']}"),
    ],
)
def test_how_a_night_ended(runs: list, expected: str) -> None:
    (night,) = grouped(runs)
    assert said(night) == expected
    assert night.between >= 0.0


def test_nights_come_back_from_the_catalog(catalog: Catalog) -> None:
    made = [*a_night(0, PUBLISHED), *a_night(DAY, PUBLISHED)]
    record(catalog, made)
    with catalog.reading() as connection:
        assert read_nights(connection) == grouped(made)
