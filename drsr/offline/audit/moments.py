"""Moments beside the chain: what the order of the journal's events, and heads that were kept elsewhere, say of them.

A moment can be forged where the row is; the order of events cannot, without writing the whole journal anew.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from drsr.errors import InputError
from drsr.offline.catalog.journal import NOTHING, Head

CLOCKS = datetime.timedelta(minutes=5)
"""The clocks of a team's machines may be so far apart."""


class Dated(NamedTuple):
    """A row that says when it was made."""

    what: str
    at: datetime.datetime
    event: int | None
    """The event that records it; None if it waits for one."""
    since: int | None
    """The event that it cannot be older than: the same, or for a read that waited to be noted one before. None: any."""


class Anchored(NamedTuple):
    """A head that somebody else wrote down."""

    head: Head
    at: datetime.datetime | None
    """Moment in UTC; None if the line does not say."""


def other_moments(moments: Mapping[int, datetime.datetime], rows: Iterable[Dated]) -> Iterator[str]:
    """Yield events whose moments go back, and rows whose moments are not those of their events."""
    latest = next(iter(moments.values()))
    for number, moment in moments.items():
        if moment < latest - CLOCKS:
            yield f"event {number} was noted on {_shown(moment)}, and one before it on {_shown(latest)}"
        latest = max(latest, moment)
    for what, at, event, since in rows:
        if event is not None and at > moments[event] + CLOCKS or since is not None and at < moments[since] - CLOCKS:
            noted = "is not yet noted" if event is None else f"was noted on {_shown(moments[event])} (event {event})"
            after = f", after event {since} of {_shown(moments[since])}" if since not in (None, event) else ""
            yield f"{what} says that it was made on {_shown(at)}, and {noted}{after}"


def not_by_then(moments: Mapping[int, datetime.datetime], anchors: Iterable[Anchored]) -> Iterator[str]:
    """Yield events that are said to be of the other side of the moment at which a head was anchored."""
    for head, at in anchors:
        if at is None:
            continue
        for number, moment in moments.items():
            if number <= head.number and moment > at + CLOCKS:
                yield f"event {number} is said to be of {_shown(moment)}, and was anchored on {_shown(at)}"
            elif number > head.number and moment < at - CLOCKS:
                yield f"event {number} is said to be of {_shown(moment)}, and was not there on {_shown(at)}: an anchor"


def read_anchor(data: bytes) -> list[Anchored]:
    """Read the heads of a file that `drsr journal --anchor` added to. InputError where a line is none, or there is
    none: nothing would be compared, and the verdict would read as if it had been."""
    found = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        event, _, rest = line.partition(" ")
        sha256, _, moment = rest.partition(" ")
        try:
            at = datetime.datetime.fromisoformat(moment).astimezone(datetime.UTC) if moment else None
        except ValueError:
            at, sha256 = None, ""
        if not event.isascii() or not event.isdigit() or len(sha256) != len(NOTHING):
            raise InputError(
                f"line {number} is not a head of a journal", where="--anchor", hint="drsr journal --anchor"
            )
        found.append(Anchored(Head(int(event), sha256), at))
    if not found:
        raise InputError("holds no head of a journal", where="--anchor", hint="drsr journal --anchor FILE adds one")
    return found


def _shown(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
