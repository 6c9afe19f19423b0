"""Long sessions whose older history was replaced by a summary: each stretch between two replacements is one run.

Within a stretch the history only grows, so every decision in it sees exactly what its model saw. The stretches of one
session share its identity as their task, and so stay in one split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from drsr.offline.ingest.formats.reader import Run
from drsr.offline.ingest.trajectories import Json


class Forgotten(NamedTuple):
    """What a condensation takes out of an event log's view."""

    ids: frozenset[object]
    """Ids of the events that vanish."""
    summary: Json | None
    """An event that stands for them."""
    offset: int
    """Where in the remaining view the summary goes."""

    def takes(self, event: Json) -> bool:
        name = event.get("id")
        return isinstance(name, int | str) and name in self.ids


def views(events: Iterable[Json], condensation: Callable[[Json], Forgotten | None]) -> Iterator[list[Json]]:
    """The stretches of an event log. `condensation` tells what an event makes the agent forget, if anything."""
    view: list[Json] = []
    for event in events:
        forgotten = condensation(event)
        if forgotten is None:
            view.append(event)
            continue
        yield view
        view = [kept for kept in view if not forgotten.takes(kept)]
        if forgotten.summary is not None:
            view.insert(forgotten.offset, forgotten.summary)
    yield view


def stretch_id(session: str | None, stretch: int) -> str | None:
    """The id of a session's stretch, counted from 0: the first has the session's own, which growth does not change."""
    return session if session is None or stretch == 0 else f"{session}/{stretch + 1}"


def with_an_answer(runs: list[Run]) -> list[Run]:
    """The stretches in which the assistant says something; a session may end right behind a replacement.

    Where no stretch has an answer all are handed on, so that the session is quarantined and not lost.
    """
    answered = [run for run in runs if any(message["role"] == "assistant" for message in run.request["messages"])]
    return answered or runs[:1]
