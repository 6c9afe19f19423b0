"""Where a history can be cut so that nothing unfinished is lost."""

from __future__ import annotations

from drsr.request.history import History


def steps_before_recent(history: History) -> int:
    """Return how many Steps, complete or not, lie before the two latest complete ones."""
    return history.recent[0].index if history.recent else 0


def end_of_finished(history: History) -> int:
    """The message behind the last complete Step: what follows is unanswered yet, a call or something the user said."""
    complete = [step for step in history.steps if step.complete]
    return complete[-1].last_message + 1 if complete else history.prefix_length


KEEPS_UNFINISHED = (
    "A Step that is not complete, and what the user said behind the last complete one, are never summarised away."
)
"""The assumption of every method that resets the whole conversation."""
