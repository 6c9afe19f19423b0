"""The start of Recent2 before a decision, counted from the recorded run itself and not from frozen rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from drsr.offline.freeze.readable_part import read_beginning
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.history import RECENT_STEPS, read_history


def first_recent_steps(trajectory: Trajectory, decisions: Iterable[int]) -> dict[int, int]:
    """For each decision the number of the first Step of Recent2: whatever is from there on may not be a candidate.

    Complete is, at that time, a Step whose results all came before the decision. -1 where there are no two of them.
    """
    request, _ = read_beginning(trajectory)
    complete = sorted((step.last_message, step.index) for step in read_history(request).steps if step.complete)
    found = {}
    for decision in decisions:
        before = sorted(step for _, step in complete[: bisect_left(complete, (decision, -1))])
        found[decision] = before[-RECENT_STEPS] if len(before) >= RECENT_STEPS else -1
    return found
