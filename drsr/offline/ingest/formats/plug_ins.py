"""Readers that other packages bring: entry points of the group `drsr.formats`, each naming one Reader.

    [project.entry-points."drsr.formats"]
    acme = "acme_drsr:READER"               # a Reader("acme", 1, ...), made with `each` or a function of its own

What such a reader does wrong costs the file that it was shown, which is quarantined with the names of reader and
package, and never the ingest. One that cannot be loaded recognises nothing, and says so of every file that nobody
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from drsr.offline.ingest.format_names import FORMATS, package_of, plug_in_entries
from drsr.offline.ingest.formats.anthropic_messages import request_of
from drsr.offline.ingest.formats.openai_chat import conversation
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, identity, malformed, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_GROUPINGS = ("each", "session")
"""A stream would let a reader catch what storage raises in the middle of it."""


class _Guarded:
    """A recogniser of another package: an exception is a no, and can be asked for."""

    def __init__(self, recognises: Callable[[Any], Any]) -> None:
        self._recognises = recognises

    def __call__(self, value: Any) -> bool:
        try:
            return bool(self._recognises(value))
        except Exception:
            return False

    def failure(self, value: Any) -> Exception | None:
        try:
            self._recognises(value)
        except Exception as error:
            return error
        return None


@cache
def plug_ins() -> tuple[Reader, ...]:
    """Return every reader of an installed package, by name, including broken ones."""
    return tuple(_loaded(entry) for entry in plug_in_entries())


def failure_on(value: Any, readers: tuple[Reader, ...]) -> str | None:
    """Return which reader of another package failed to say whether it knows a value, and how."""
    for reader in readers:
        if isinstance(reader.recognises, _Guarded) and (error := reader.recognises.failure(value)) is not None:
            return f"the reader {shown(reader)} failed on it ({type(error).__name__}: {error!s:.300})"
    return None


def shown(reader: Reader) -> str:
    """Return how a complaint names a reader: with its package, unless it is one of ours."""
    return reader.name if reader.package is None else f"{reader.name} of the package {reader.package}"


def sound(found: Any) -> Found:
    """Check what another package's reader hands out, and put its messages in wire form. Raises Unreadable."""
    if isinstance(found, Quarantined):
        return found
    if not isinstance(found, Run):
        raise malformed("what a reader hands out", "a Run", found)
    request = as_dict(found.request, "request")
    messages = as_list(request.get("messages"), "messages")
    tools = request.get("tools")
    if found.protocol == "anthropic":
        made = request_of(messages, request.get("system"), tools)
    elif found.protocol == "openai":
        made = {"messages": conversation(messages)}
        if tools is not None and as_list(tools, "tools"):
            made["tools"] = tools
    else:
        raise Unreadable("malformed", f"protocol should be openai or anthropic and is {found.protocol!r:.60}")
    return Run(
        str(found.place),
        found.protocol,
        made,
        run_id=identity(found.run_id),
        local_id=identity(found.local_id),
        task=identity(found.task),
        domain=identity(found.domain),
        reward=score(found.reward),
        only_session=found.only_session is True,
    )


def _loaded(entry: EntryPoint) -> Reader:
    package = package_of(entry)
    try:
        reader = _checked(entry, entry.load())
    except Exception as error:
        return _broken(entry.name, package, error)
    return Reader(
        reader.name,
        reader.version,
        reader.title,
        _Guarded(reader.recognises),
        reader.read,
        reader.grouping,
        package=package,
    )


def _checked(entry: EntryPoint, found: Any) -> Reader:
    if not isinstance(found, Reader):
        raise TypeError(f"{entry.value} is no Reader")
    if found.name != entry.name:
        raise ValueError(f"it calls itself {found.name!r}, and its entry point is called {entry.name!r}")
    if entry.name in FORMATS:
        raise ValueError("drsr has a reader of this name")
    if sum(other.name == entry.name for other in plug_in_entries()) > 1:
        raise ValueError("several installed packages have a reader of this name")
    if isinstance(found.version, bool) or not isinstance(found.version, int) or found.grouping not in _GROUPINGS:
        raise TypeError(f"its version should be a whole number, its grouping one of {', '.join(_GROUPINGS)}")
    return found


def _broken(name: str, package: str, error: Exception) -> Reader:
    """Take the place of a reader that cannot be loaded."""
    problem = f"cannot be loaded: {type(error).__name__}: {error!s:.300}"

    def recognises(value: Any) -> NoReturn:
        raise RuntimeError(problem)

    def read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
        raise RuntimeError(problem)

    return Reader(name, 0, problem, _Guarded(recognises), read, package=package)
