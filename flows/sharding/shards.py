"""Shards of a stage: how many there are, and what to do about one from what is known of its flow run. Pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from drsr.offline.freeze.selection import Shard

STARTING_SECONDS = 420.0
"""A flow run that claims to be running, but has shown no sign of life in the catalog for this long, is lost.

Longer than the longest pause of one that waits for the catalog (`DELAYS` in flows/faults.py)."""
SUBMITTED_SECONDS = 600.0
"""A worker that took a flow run and has not begun it after so long is taken for lost."""


class Move(StrEnum):
    WAIT = "wait"
    DONE = "done"
    RESTART = "restart"
    """Its worker is lost."""
    FAILED = "failed"


class Sight(NamedTuple):
    """The state of a shard's flow run at one moment."""

    state: str
    """Prefect's type of its state: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLED, ..."""
    seconds: float
    """Since it has been in that state."""
    holder_lives: bool | None
    """Whether the process that works on it renews its claim in the catalog; None: there is no claim."""
    answering: float = math.inf
    """Seconds for which the catalog has answered without a break: before, nobody could show himself there."""


def shards_for(states: int, states_per_shard: int, most: int) -> list[Shard]:
    """Return shards of about `states_per_shard` states each, but at most `most` shards."""
    count = max(1, min(most, -(-states // states_per_shard)))
    return [Shard(number, count) for number in range(count)]


def next_move(sight: Sight) -> Move:
    """Return what to do about a shard.

    A worker that is killed alone takes its flow run along: CRASHED. A machine that is lost leaves it RUNNING for ever;
    then the claim that the flow run renewed every few seconds tells.
    """
    if sight.state == "COMPLETED":
        return Move.DONE
    if sight.state == "CRASHED":
        return Move.RESTART
    if sight.state in ("FAILED", "CANCELLED", "CANCELLING"):
        return Move.FAILED
    if sight.state == "RUNNING":
        silent = sight.holder_lives is None and min(sight.seconds, sight.answering) > STARTING_SECONDS
        return Move.RESTART if silent or sight.holder_lives is False else Move.WAIT
    if sight.state == "PENDING" and sight.seconds > SUBMITTED_SECONDS:
        return Move.RESTART
    return Move.WAIT
