"""LRE: a logistic regression says which old Steps are worth their tokens.

The last five Steps stay. Older ones are added greedily by probability / tokens up to 2,048 tokens, verbatim and in
order. The regression has ten features of a Step (`lre_features.py`) and is trained on the train split
(`lre_training.py`): whether an identifier that the Step introduces recurs in three or more later Steps.

Assumptions. A Step is the source's (action, observation); the five are complete ones. The request is left alone while
all older Steps fit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, PlainMethod, Rewrite, Trained
from drsr.offline.bench.comparators.lre_features import FEATURES, step_features, step_texts
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.history import read_history
from drsr.request.request import Request

KEPT_STEPS = 5
OLDER_TOKENS = 2_048


@dataclass(frozen=True, slots=True)
class LreModel:
    """A fitted regression, and what it was fitted on."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    trajectories: int
    steps: int
    share_that_matters: float

    def probability(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that a Step matters: one number per row."""
        z = (features - np.array(self.mean)) / np.array(self.scale)
        probability: NDArray[np.float64] = 1 / (1 + np.exp(-(z @ np.array(self.weights) + self.intercept)))
        return probability

    def to_json(self) -> dict[str, Any]:
        return {"features": FEATURES, **asdict(self)}


class Lre(PlainMethod):
    """Keeps the Steps that are worth their tokens."""

    name = "lre"
    title = "LRE"
    assumptions = (
        "A Step is the source's pair of action and observation; what counts as an identifier is ours.",
        "Position is relative to the Steps up to its own; a word is rare that no earlier Step of the run had.",
        "The five latest are complete Steps; the request is left alone while all older Steps fit.",
        WHOLE_STEPS,
    )
    trained: Trained = "here"
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2})

    def __init__(self, model: LreModel, counts: TokenCounts) -> None:
        self.model = model
        self._counts = counts

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        history = read_history(request)
        complete = [step for step in history.steps if step.complete]
        if len(complete) <= KEPT_STEPS:
            return Rewrite(request)
        older = history.steps[: complete[-KEPT_STEPS].index]
        starts = [step.message for step in history.steps] + [len(request.messages)]
        per_message = self._counts.messages(request)
        tokens = [sum(per_message[starts[step.index] : starts[step.index + 1]]) for step in older]
        probability = self.model.probability(step_features(step_texts(history), self._counts))
        chosen = worth_their_tokens([float(probability[step.index]) for step in older], tokens, OLDER_TOKENS)
        if len(chosen) == len(older):
            return Rewrite(request)
        messages = list(request.messages[: starts[0]])
        for number in [*sorted(chosen), *range(len(older), len(history.steps))]:
            messages += request.messages[starts[number] : starts[number + 1]]
        return Rewrite(request.with_messages(messages))


def worth_their_tokens(probabilities: list[float], tokens: list[int], budget: int) -> list[int]:
    """Greedily by probability / tokens, the earlier on ties, whatever still fits."""
    order = sorted(range(len(tokens)), key=lambda number: (-probabilities[number] / max(1, tokens[number]), number))
    chosen: list[int] = []
    left = budget
    for number in order:
        if tokens[number] <= left:
            chosen.append(number)
            left -= tokens[number]
    return chosen
