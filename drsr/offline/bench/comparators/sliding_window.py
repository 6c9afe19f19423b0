"""Sliding Window: the protected prefix and the last K complete Steps; everything between is dropped, on every call.

Assumptions. The unit is the Step: an assistant message with the results of its calls. What follows the K Steps, such as
a Step that is not complete yet, stays. User messages before the window are dropped as well.
"""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.edits import cut
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.history import read_history
from drsr.request.request import Request


class SlidingWindow(PlainMethod):
    """Keeps the last `steps` Steps."""

    assumptions = ("The unit of the window is the complete Step, not the message or the token.", WHOLE_STEPS)
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2})

    def __init__(self, steps: int) -> None:
        if steps < 2:
            raise ValueError(f"a window of {steps} Steps would not keep the two latest")
        self.steps = steps
        self.name = f"sliding_window_{steps}"
        self.title = f"Sliding Window (K={steps})"

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        history = read_history(request)
        complete = [step for step in history.steps if step.complete]
        if len(complete) <= self.steps:
            return Rewrite(request)
        first = complete[-self.steps].message
        return Rewrite(request if first == history.prefix_length else cut(history, first))
