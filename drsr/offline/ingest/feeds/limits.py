"""Settings per source: how much of its latest delivery may be unreadable, how many runs it must have, how it is read.

    [agents]                 # feeds.toml in the working directory; a section per source, `default` for all
    quarantined = 0.1        # largest share of the latest delivery that may be quarantined
    runs = 100               # fewest current runs
    mapping = "desk.toml"    # where in its JSON the messages, the task, the id and the reward are
    redact = "redact.toml"   # what is replaced before anything is stored, by whoever reads it
    framework_says = ["Budget used up"]    # sentences that are no decisions of a model
    model_says = ["Have a nice day!"]      # sentences that are, however often they repeat

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
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, func, select

from drsr.errors import SettingsError
from drsr.offline.catalog.tables import Source, SourceFile, Trajectory
from drsr.offline.ingest.feeds.framework_words import AND_SO_ON, Words, WordsOf, one_line
from drsr.offline.ingest.feeds.redaction import Redaction, load_redaction
from drsr.offline.ingest.formats.mapping import load_mapping
from drsr.offline.ingest.formats.reader import Reader

Value = TypeVar("Value")

FEEDS_FILE = "feeds.toml"
DEFAULT = "default"
USUAL_SHARE = 0.5
FEW = 20
"""Items that may be quarantined in any source without its own share: a README beside the runs raises no alarm."""


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "quarantined": ((int, float), "a number from 0 to 1"),
    "runs": ((int,), "a whole number"),
    "mapping": ((str,), "the name of a file"),
    "redact": ((str,), "the name of a file"),
    "framework_says": ((list,), 'a list of sentences, such as ["Budget used up"]'),
    "model_says": ((list,), 'a list of sentences, such as ["Have a nice day!"]'),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a source must keep, and how it is read."""

    quarantined: float | None = None
    """None: USUAL_SHARE, and a few items in any case."""
    runs: int = 0
    mapping: str = ""
    """A file, for `load_mapping`; by default formats are detected."""
    redact: str = ""
    """A file, for `load_redaction`; by default runs are stored as they are."""
    framework_says: tuple[str, ...] = ()
    """For `Words`: such messages are read as history."""
    model_says: tuple[str, ...] = ()
    """For `Words`: the rule about repeated outputs accepts them."""

    def __post_init__(self) -> None:
        for words in (*self.framework_says, *self.model_says):
            if not one_line(words).removesuffix(AND_SO_ON).strip():
                raise SettingsError(f"{words!r} is no sentence", hint="the words as the broken rule shows them")
        if self.quarantined is not None and not 0 <= self.quarantined <= 1:
            raise SettingsError(f"quarantined is {self.quarantined}, which is not a share", hint="from 0 to 1")
        if self.runs < 0:
            raise SettingsError(f"runs is {self.runs}", hint="0 or more")

    @property
    def largest_share(self) -> float:
        """Largest share of the latest delivery that may be quarantined."""
        return USUAL_SHARE if self.quarantined is None else self.quarantined


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
    default = sections.get(DEFAULT)
    if isinstance(default, dict):  # a section says only what is different
        sections = {name: default | own if isinstance(own, dict) else own for name, own in sections.items()}
    return {name: _limits(name, section, str(path)) for name, section in sections.items()}


def _limits(name: str, section: Any, where: str) -> Limits:
    known = [field.name for field in fields(Limits)]
    if not isinstance(section, dict):
        hint = f"[{DEFAULT}] or the name of a source in brackets, and below it {', '.join(known)}"
        raise SettingsError(f"{name} stands in no section", where=where, hint=hint)
    for key, value in section.items():
        if key not in known:
            raise SettingsError(f"[{name}] has no setting {key!r}", where=where, hint=f"they are {', '.join(known)}")
        kinds, said = _KINDS[key]
        is_kind = isinstance(value, kinds) and not isinstance(value, bool)
        if not is_kind or (isinstance(value, list) and not all(isinstance(words, str) for words in value)):
            raise SettingsError(f"[{name}] {key} must be {said}, not {value!r}", where=where)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
    try:
        return Limits(**values)
    except SettingsError as error:
        raise SettingsError(f"[{name}] {error.what}", where=where, hint=error.hint) from None


def load_mappings(path: Path | None = None) -> Callable[[str], Reader | None]:
    """Return which mapping reads a source, None for those whose formats are detected."""
    return _by_source(path, "mapping", load_mapping)


def load_redactions(path: Path | None = None) -> Callable[[str], Redaction | None]:
    """Return by which rules a source is redacted, None for those that are stored as they are."""
    return _by_source(path, "redact", load_redaction)


def _by_source(path: Path | None, key: str, load: Callable[[Path], Value]) -> Callable[[str], Value | None]:
    """Every file that a section names is read and checked now; it lies beside `feeds.toml`, unless its path says
    otherwise."""
    folder = (Path(FEEDS_FILE) if path is None else path).parent
    limits = load_limits(path)
    loaded = {name: load(folder / getattr(own, key)) for name, own in limits.items() if getattr(own, key)}
    return lambda source: loaded.get(source if source in limits else DEFAULT)


def load_words(path: Path | None = None) -> WordsOf:
    """Return what the framework of each source says in the model's place."""
    limits = load_limits(path)
    return lambda source: Words(limits_of(source, limits).framework_says)


def limits_of(source: str, limits: Mapping[str, Limits]) -> Limits:
    """Return the limits of a source: its own section, which adds to the default one, or else that."""
    return limits.get(source) or limits.get(DEFAULT) or Limits()


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
        own = limits_of(name, limits)
        counted = quarantined if own.quarantined is not None or quarantined >= FEW else 0
        share = counted / (read + counted) if counted else 0.0
        said = "" if day is None else day.isoformat()
        found.append(Feed(name, runs.get(source_id, 0), said, read, counted, share, own.largest_share, own.runs))
    absent = sorted(set(limits) - {name for name, _ in names} - {DEFAULT})
    return found + [Feed(name, 0, "", 0, 0, 0.0, limits[name].largest_share, limits[name].runs) for name in absent]


def unread_sections(connection: Connection, limits: Mapping[str, Limits]) -> list[str]:
    """Return the sections that name a source of which nothing was ever read: what they say holds for nobody."""
    known = set(connection.execute(select(Source.name)).scalars())
    return sorted(set(limits) - known - {DEFAULT})


def warning_of(sections: list[str]) -> str:
    named = ", ".join(f"[{name}]" for name in sections)
    return f"{FEEDS_FILE}: {named}: nothing was ever read of a source of that name; what stands there has no effect"
