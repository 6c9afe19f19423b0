"""Compare two recordings of one run: what a later export may replace, and what costs nothing.

Labels and features belong to what was said. A recording that says the same under another reward or task is the same
run, and one that says the same and goes on is the same run at a later time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from drsr.errors import ArtifactCorrupt
from drsr.offline.ingest.feeds.framework_words import words_alone
from drsr.offline.ingest.trajectories import Json, Trajectory
from drsr.offline.store.artifacts import ArtifactStore


class Relation(Enum):
    """The relation of a new recording to the known one."""

    SAME = "same"
    """It says the same; only task, domain, reward or reader differ."""
    LONGER = "longer"
    """It begins with all that is known, and goes on."""
    SHORTER = "shorter"
    """Everything known begins with it."""
    OTHER = "other"
    """The two part ways."""


Compare = Callable[[str, str], Relation | None]
"""Relates the artifact of a new recording (second) to that of a known one (first); None where one cannot be read."""


def relation(known: Trajectory, new: Trajectory) -> Relation:
    """Compare what two recordings say: messages and system prompt. Tools may be declared later on, and words that make
    no call may turn out to be a framework's."""
    if known.protocol != new.protocol or known.request.get("system") != new.request.get("system"):
        return Relation.OTHER
    before, now = _said(known), _said(new)
    if before[: len(now)] != now[: len(before)]:
        return Relation.OTHER
    if len(before) == len(now):
        return Relation.SAME if known.request == new.request else Relation.LONGER
    return Relation.LONGER if len(now) > len(before) else Relation.SHORTER


def _said(trajectory: Trajectory) -> list[Json]:
    """Return the messages, those that are words alone without the mark that they are no decision."""
    return [
        {name: value for name, value in message.items() if name != "is_decision"}
        if "is_decision" in message and words_alone(message) is not None
        else message
        for message in trajectory.request["messages"]
    ]


def compare_stored(artifacts: ArtifactStore) -> Compare:
    """Relate stored recordings by their keys."""

    def compare(known: str, new: str) -> Relation | None:
        try:
            first, second = (Trajectory.from_json(artifacts.get(key)) for key in (known, new))
        except ArtifactCorrupt:
            return None
        return relation(first, second)

    return compare
