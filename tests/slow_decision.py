"""The slow obvious twin of a decision: every set deleted, rendered and scored on its own, and one sort at the end."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from drsr.decide.candidates import DecisionState, freeze
from drsr.policy.policy import Policy
from drsr.request.history import Protect, delete
from drsr.request.protocol import new_violations
from drsr.request.rendering import render
from drsr.request.request import Request


def slow_decision(request: Request, policy: Policy, protect: Protect | None = None) -> Any:
    """What to send, in wire form."""
    numbers, representation, scorer = policy.frozen
    state = freeze(request, representation.tokenizer, numbers.context_cap, protect)
    if not isinstance(state, DecisionState) or numbers.risk_threshold is None:
        return request.to_wire()
    features = representation.features(state).matrix
    tokens = len(render(request, representation.tokenizer))
    feasible = []
    for size in range(1, numbers.max_cardinality + 1):
        for members in combinations(range(len(state.candidates)), size):
            rewritten = delete(state.history, [state.candidates[member].block for member in members])
            saving = tokens - len(render(rewritten.request, representation.tokenizer))
            savings = [candidate.direct_saving for candidate in state.candidates]
            scores = scorer.score(features, savings, [sum(1 << member for member in members)], [saving])
            unsafe = scores.unsafe_mean[0] + numbers.uncertainty_coefficient * scores.unsafe_std[0]
            valid = not new_violations(rewritten.request, rewritten.kept, state.violations)
            if valid and 0 < saving <= numbers.removal_cap * tokens and unsafe <= numbers.risk_threshold:
                feasible.append((-saving, unsafe, scores.predicted_harm[0], size, members, rewritten.request))
    return min(feasible, key=lambda row: row[:5])[-1].to_wire() if feasible else request.to_wire()
