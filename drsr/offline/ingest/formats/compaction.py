"""Long sessions whose older history was replaced by a summary: each stretch between two replacements is one run.

Within a stretch the history only grows, so every decision in it sees exactly what its model saw. What a replacement
preserved word for word was decided before it, behind another request: it is marked as history (`is_decision`). The
stretches of one session share its identity as their task, and so stay in one split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from drsr.offline.ingest.formats.reader import Run
from drsr.offline.ingest.trajectories import Json


class Forgotten(NamedTuple):
    """The events that a condensation takes out of an event log's view."""

    ids: frozenset[object]
    """Ids of the events that vanish."""
    summary: Json | None
    """An event that replaces them."""
    offset: int
    """Place of the summary in the remaining view."""

    def takes(self, event: Json) -> bool:
        name = event.get("id")
        return isinstance(name, int | str) and name in self.ids


class EventView(NamedTuple):
    """The view of an agent in one stretch."""

    preserved: list[Json]
    """The events that a condensation left, with the summary of the others: history, decided before it."""
    events: list[Json]
    """Events since then."""


def views(events: Iterable[Json], condensation: Callable[[Json], Forgotten | None]) -> Iterator[EventView]:
    """Yield the stretches of an event log. `condensation` says what an event makes the agent forget, if anything.

    A summary takes the place of the one before it, which it was made from, whether the log says so or not: older
    versions of OpenHands show the latest summary alone, newer ones name it among what is forgotten.
    """
    view = EventView([], [])
    told: Json | None = None
    for happened in events:
        forgotten = condensation(happened)
        if forgotten is None:
            view.events.append(happened)
            continue
        yield view
        kept = [event for event in [*view.preserved, *view.events] if not forgotten.takes(event)]
        if forgotten.summary is not None:
            kept = [event for event in kept if event is not told]
            kept.insert(forgotten.offset, forgotten.summary)
            told = forgotten.summary
        view = EventView(kept, [])
    yield view


def stretch_run(
    place: str, request: Json, session: str | None, stretch: int, *, task: str | None, domain: str | None = "code"
) -> Run:
    """Return the run that a stretch of a session is; `session` is an id that no other has, None where it is not
    recorded."""
    name = stretch_id(session, stretch)
    local_id = None if session else stretch_id("session" if stretch else None, stretch)
    named = Run(place, "openai", request, run_id=name, local_id=local_id, task=task, domain=domain)
    return replace(named, only_session=True)


def stretch_id(session: str | None, stretch: int) -> str | None:
    """Return the id of a session's stretch, counted from 0: the first has the session's own, which growth does not
    change."""
    return session if session is None or stretch == 0 else f"{session}/{stretch + 1}"


def with_an_answer(runs: list[Run]) -> list[Run]:
    """Return the stretches in which something is decided; a session may end right after a replacement.

    Where no stretch has an answer all are handed on, so that the session is quarantined and not lost.
    """
    answered = [run for run in runs if any(map(_is_decision, run.request["messages"]))]
    return answered or runs[:1]


def _is_decision(message: Json) -> bool:
    return message["role"] == "assistant" and message.get("is_decision") is not False
