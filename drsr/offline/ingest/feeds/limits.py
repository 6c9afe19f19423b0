"""Settings per source: how much of its latest delivery may be unreadable, how many runs it must have, how it is read.

    [agents]                 # feeds.toml in the working directory; a section per source, `default` for the others
    quarantined = 0.1        # largest share of the latest delivery that may be quarantined
    runs = 100               # fewest current runs
    mapping = "desk.toml"    # where in its JSON the messages, the task, the id and the reward are

A feed that turns unreadable must not look like a quiet one. The latest delivery is what was read of a source on the
last day on which anything was read. It is judged every night until it is settled: until the files are mended, or a
reader reads them, or the limit is raised here.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from drsr.errors import SettingsError
from drsr.offline.catalog.tables import Source, SourceFile, Trajectory
from drsr.offline.ingest.formats.mapping import load_mapping
from drsr.offline.ingest.formats.reader import Reader

FEEDS_FILE = "feeds.toml"
DEFAULT = "default"
FEW = 20
"""Items that may be quarantined in any source without its own section: a README beside the runs raises no alarm."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a source must keep, and how it is read."""

    quarantined: float = 0.5
    runs: int = 0
    mapping: str = ""
    """A file, for `load_mapping`; by default formats are detected."""

    def __post_init__(self) -> None:
        if not 0 <= self.quarantined <= 1:
            raise SettingsError(f"quarantined is {self.quarantined}, which is not a share", hint="from 0 to 1")
        if self.runs < 0:
            raise SettingsError(f"runs is {self.runs}", hint="0 or more")


class Feed(NamedTuple):
    """A source, its latest delivery and its limits."""

    source: str
    runs: int
    """Current runs of all deliveries."""
    day: str
    """The day of the latest delivery (UTC)."""
    read: int
    """Runs read on that day."""
    quarantined: int
    """Things that could not be read on that day, where that is more than a few."""
    share: float
    largest_share: float
    expected_runs: int

    @property
    def is_settled(self) -> bool:
        return self.share <= self.largest_share and self.runs >= self.expected_runs


def load_limits(path: Path | None = None) -> Mapping[str, Limits]:
    """Return the sections of `feeds.toml`; none if there is no such file. SettingsError names its faults."""
    path = Path(FEEDS_FILE) if path is None else path
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot be read: {error}", where=str(path)) from None
    return {name: _limits(name, section, str(path)) for name, section in sections.items()}


def _limits(name: str, section: Any, where: str) -> Limits:
    kinds: dict[str, tuple[type, ...]] = {"runs": (int,), "mapping": (str,)}
    known = {field.name: kinds.get(field.name, (int, float)) for field in fields(Limits)}
    if not isinstance(section, dict):
        raise SettingsError(f"{name} must be a section", where=where, hint=f"[{name}], then {' and '.join(known)}")
    for key, value in section.items():
        if key not in known or isinstance(value, bool) or not isinstance(value, known[key]):
            raise SettingsError(f"[{name}] {key} = {value!r} is unknown", where=where, hint=", ".join(known))
    return Limits(**section)


def load_mappings(path: Path | None = None) -> Callable[[str], Reader | None]:
    """Return which mapping reads a source, None for those whose formats are detected. Every file is read and checked
    now; it lies beside `feeds.toml`, unless its path says otherwise."""
    folder = (Path(FEEDS_FILE) if path is None else path).parent
    limits = load_limits(path)
    readers = {name: load_mapping(folder / own.mapping) for name, own in limits.items() if own.mapping}

    def mapping_of(source: str) -> Reader | None:
        return readers.get(source if source in limits else DEFAULT)

    return mapping_of


def feeds(connection: Connection, limits: Mapping[str, Limits]) -> list[Feed]:
    """Return every source that was read here, by name, and every source that has limits."""
    current = select(Trajectory.source_id, func.count()).where(Trajectory.is_current()).group_by(Trajectory.source_id)
    runs = dict(connection.execute(current).tuples().all())
    names = connection.execute(select(Source.name, Source.id).order_by(Source.name)).tuples().all()
    columns = (SourceFile.source_id, SourceFile.read_at, SourceFile.trajectories, SourceFile.quarantined)
    latest: dict[int, tuple[datetime.date, int, int]] = {}
    for source_id, read_at, read, quarantined in connection.execute(select(*columns)):
        day = read_at.date()
        before = latest.get(source_id, (day, 0, 0))
        if day > before[0]:
            before = (day, 0, 0)
        if day == before[0]:
            latest[source_id] = (day, before[1] + read, before[2] + quarantined)
    found = []
    for name, source_id in names:
        day, read, quarantined = latest.get(source_id, (None, 0, 0))
        if day is None and name not in limits:
            continue  # only imported
        own = limits.get(name) or limits.get(DEFAULT) or Limits()
        counted = quarantined if name in limits or quarantined >= FEW else 0
        share = counted / (read + counted) if counted else 0.0
        said = "" if day is None else day.isoformat()
        found.append(Feed(name, runs.get(source_id, 0), said, read, counted, share, own.quarantined, own.runs))
    absent = sorted(set(limits) - {name for name, _ in names} - {DEFAULT})
    return found + [Feed(name, 0, "", 0, 0, 0.0, limits[name].quarantined, limits[name].runs) for name in absent]
