"""Catching up by days and by source: what is selected is done, and nothing else. In this process, on a real server."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from sqlalchemy import select, update

from drsr.errors import NothingThere
from drsr.flows.backfill import backfill
from drsr.flows.parameters import Days, Location
from drsr.flows.stages.ingest import ingest
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from tests.flows.made_up_runs import write_runs
from tests.flows.prefect_runs import refused

SUNDAY, MONDAY, TUESDAY, WEDNESDAY = (datetime.date(2026, 11, day) for day in (15, 16, 17, 18))
RUN = {"train": 1}
SOURCES = ("agents", "others")
pytestmark = pytest.mark.usefixtures("prefect_server")


def run(first: int) -> str:
    """What the catalog calls it."""
    return f"train-{first}-0.json#train-{first}-0"


def labelled(site: Path) -> set[str]:
    """The runs of which a state is measured, as SOURCE/ID."""
    query = (
        select(Source.name, Trajectory.external_id)
        .join(Trajectory, Trajectory.source_id == Source.id)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
    )
    with open_catalog(f"sqlite:///{site}/catalog.sqlite") as catalog, catalog.reading() as connection:
        return {f"{source}/{name}" for source, name in connection.execute(query)}


def came_in(site: Path, source: str, name: str, moment: datetime.datetime) -> None:
    with open_catalog(f"sqlite:///{site}/catalog.sqlite") as catalog, catalog.writing() as connection:
        mine = select(Source.id).where(Source.name == source).scalar_subquery()
        which = update(Trajectory).where(Trajectory.source_id == mine, Trajectory.external_id == name)
        assert connection.execute(which.values(created_at=moment)).rowcount == 1


def test_what_came_in_on_the_days_of_the_source(site: Path) -> None:
    """Two days, two sources; the first and the last moment of a day belong to it."""
    first_moment = datetime.datetime.combine(MONDAY, datetime.time.min, datetime.UTC)
    last_moment = datetime.datetime.combine(MONDAY, datetime.time.max, datetime.UTC)
    moments = {0: first_moment, 100: last_moment, 200: last_moment + datetime.timedelta(microseconds=1)}
    for number, source in enumerate(SOURCES):
        for first in moments:
            write_runs(site / source, RUN, first=first + 1_000 * number)
    ingest([Location(uri=source, source=source) for source in SOURCES])
    for number, source in enumerate(SOURCES):
        for first, moment in moments.items():
            came_in(site, source, run(first + 1_000 * number), moment)

    nothing = backfill(Days(since=WEDNESDAY, until=WEDNESDAY))
    assert (nothing["label"], nothing["featurize"], labelled(site)) == ({"states": 0}, {"states": 0}, set())
    done = backfill(Days(since=SUNDAY, until=MONDAY), source="agents")
    agents = {f"agents/{run(0)}", f"agents/{run(100)}"}
    assert (labelled(site), done["label"]["states"], "ingest" in done) == (agents, 4, False)
    backfill(Days(since=TUESDAY, until=WEDNESDAY))
    assert labelled(site) == agents | {f"agents/{run(200)}", f"others/{run(1200)}"}


def test_the_folders_of_the_days(site: Path) -> None:
    """Files of the same name hold other runs on another day. Of other days and sources nothing is done."""
    for seed, day in enumerate((SUNDAY, MONDAY, WEDNESDAY)):
        write_runs(site / "days" / day.isoformat(), RUN, steps=6 + seed)
    ingest([Location(uri="runs", source="others")])
    location, days = Location(uri="days/{date}"), Days(since=MONDAY, until=WEDNESDAY)
    done = backfill(days, location, source="agents")
    assert (done["ingest"]["files"], done["ingest"]["added"]) == (2, 2), "nobody worked on Tuesday"
    assert labelled(site) == {f"agents/{day}/{run(0)}" for day in (MONDAY, WEDNESDAY)}
    again = backfill(days, location, source="agents")
    assert (again["ingest"]["added"], again["label"]["states"]) == (0, 0)


def test_days_that_have_nothing_at_all(site: Path) -> None:
    """Then the place is misspelt."""
    days = Days(since=MONDAY, until=TUESDAY)
    error = refused("backfill", lambda: backfill(days, Location(uri="dasy/{date}", source="agents")))
    assert isinstance(error, NothingThere)
    assert error.where == "dasy/2026-11-16 to dasy/2026-11-17"
    with pytest.raises(ValueError, match="no {date} in it"):
        backfill(days, Location(uri="runs", source="agents"))
