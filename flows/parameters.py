"""Parameters of flows: typed, validated before a run starts, and shown as a form by Prefect's page."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from drsr.offline.freeze.selection import Selection, Shard
from drsr.offline.ingest.format_names import known_formats
from drsr.offline.publish.refreshes import ENOUGH_LABELS
from drsr.redaction import redact

Count = Annotated[int, Field(ge=1)]
Enough = Annotated[str, Field(pattern=f"^({ENOUGH_LABELS})$")]
"""A number of states, or a share such as 2%."""
Name = Annotated[str, Field(min_length=1)]
DATE = "{date}"
"""Stands for a day, as 2026-11-16, in the location of a backfill."""
MOST_DAYS = 3_660


class _Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Location(_Parameters):
    """A place that recorded runs are read from."""

    uri: Name
    """A path, a glob, an archive, a bucket: any fsspec URI. Credentials come from the environment, not from here."""
    source: Name | None = None
    """Name of the origin; by default the first folder below the location."""
    format: str | None = None
    """By default every file's format is detected."""
    redact: Name | None = None
    """A file of rules that says what is replaced before anything is stored, as for `drsr ingest --redact`."""
    day: datetime.date | None = None
    """Of a place that holds the runs of one day, and has the day in its URI: other days have files of the same name."""

    @field_validator("format")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is not None and value not in known_formats():
            raise ValueError(f"unknown format; one of {', '.join(known_formats())}")
        return value

    @field_validator("uri")
    @classmethod
    def _holds_no_secret(cls, value: str) -> str:
        if redact(value) != value:
            raise ValueError(
                "a parameter is shown to everybody; no user, password or query in it: put the credentials into the "
                "environment, and write * for ? in a pattern"
            )
        return value


class Days(_Parameters):
    """A range of days (UTC), both included."""

    since: datetime.date
    until: datetime.date

    @model_validator(mode="after")
    def _is_a_range(self) -> Days:
        days = (self.until - self.since).days
        if days < 0:
            raise ValueError(f"{self.until} is before {self.since}")
        if days > MOST_DAYS:
            raise ValueError(f"{days:,} days are more than {MOST_DAYS:,}")
        return self

    def each(self) -> Iterator[datetime.date]:
        """Yield every day, in order."""
        for number in range((self.until - self.since).days + 1):
            yield self.since + datetime.timedelta(days=number)


class Part(_Parameters):
    """The trajectories to work on; by default all."""

    source: Name | None = None
    split: Literal["train", "validation", "test"] | None = None
    days: Days | None = None
    """The days on which they came into the catalog."""

    def selection(self, shard: Shard | None = None) -> Selection:
        since, until = (None, None) if self.days is None else (self.days.since, self.days.until)
        return Selection(self.source, self.split, since, until, shard)


class FanOut(_Parameters):
    """The way label and featurize are spread over processes and workers."""

    over: Literal["processes", "work-pool", "dask"] = "processes"
    """`processes` of this machine; `work-pool`: shards as separate flow runs, taken by whatever workers poll the pool;
    `dask`: shards as tasks on a Dask cluster."""
    processes: Count = 1
    """Of this machine; also the size of a Dask cluster that is started for this run."""
    states_per_shard: Count = 200
    """About this many: a shard is worth minutes, because each loads the language model once."""
    most_shards: Annotated[int, Field(ge=1, le=1_000)] = 64
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """The number of times that a shard is started again after its worker was lost."""
    poll_seconds: Annotated[float, Field(gt=0)] = 5.0
    dask_scheduler: Name | None = None
    """Address of a running scheduler, such as tcp://host:8786; by default a cluster is started on this machine."""


EVERYTHING = Part()
HERE = FanOut()


def of_day(location: Location, day: datetime.date) -> Location:
    """Return the location of one day; its URI must have a place for it."""
    if DATE not in location.uri:
        raise ValueError(f"{location.uri!r} has no {DATE} in it, so every day would be read at the same place")
    if location.source is None:
        raise ValueError(f"the source of {location.uri!r} has no name, so by default it would be the day")
    return location.model_copy(update={"uri": location.uri.replace(DATE, day.isoformat()), "day": day})
