"""The states of a trajectory: up to three decisions, chosen without looking at any outcome.

A decision is the moment before an assistant message that a model said there (`is_decision`). It is eligible when
freezing its request gives three or four candidates. The states are the eligible decisions at the quantiles 1/3, 2/3 and
1.

Everything is derived from one tokenization of the whole trajectory, as far as it can be read: the request before a
decision renders to a prefix of the trajectory's own tokens, so the cost is linear in the trajectory's length however
many decisions it has.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from drsr.decide.candidates import (
    BINS,
    MINIMUM,
    RULE_VERSION,
    DecisionState,
    Ineligible,
    IneligibleReason,
    freeze_rendered,
    invalid_protocol,
)
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.freeze.readable_part import readable_part
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.contracts import Tokenizer
from drsr.request.history import RECENT_STEPS, History, Step, read_history, removal
from drsr.request.parts import Message
from drsr.request.protocol import violations
from drsr.request.rendering import Rendering
from drsr.request.request import Request
from drsr.request.view import Caps, longest_view, possible_starts

QUANTILES = (1 / 3, 2 / 3, 1.0)


class FrozenState(NamedTuple):
    """One decision with its frozen candidates, and the output that was recorded next."""

    decision: int
    """Index of the assistant message that is the next output; the request ends before it."""
    ordinal: int
    """Its place among the trajectory's eligible decisions, from 0."""
    quantile: float
    state: DecisionState
    next_output: Message


class FrozenTrajectory(NamedTuple):
    """The result of freezing one trajectory."""

    eligible: int
    """Number of eligible decisions."""
    states: tuple[FrozenState, ...]
    why_none: str | None
    """Reason why no decision is eligible; None if one is."""
    why_cut: str | None = None
    """Fault of the first unusable message; None if the whole run could be used."""


def rule_hash(caps: Caps) -> str:
    """Return the SHA-256 over the candidate rule's version and every number it depends on."""
    rule = [RULE_VERSION, RECENT_STEPS, BINS, MINIMUM, caps.context, list(QUANTILES)]
    return content_key(rule)


def freeze_trajectory(trajectory: Trajectory, tokenizer: Tokenizer, caps: Caps) -> FrozenTrajectory:
    """Freeze the states of one trajectory. Raise RequestError or AlignmentError if no part of it can be read."""
    request, rendering, why_cut = readable_part(trajectory, tokenizer)
    history = read_history(request)
    lead = len(tokenizer.lead)
    eligible = eligible_decisions(history, rendering, lead, caps.context)
    if not eligible:
        return FrozenTrajectory(0, (), why_cut or _why_none(history, rendering, lead, caps.context), why_cut)
    states = []
    for ordinal, quantile in chosen_ordinals(len(eligible)):
        decision = eligible[ordinal]
        state = _state_before(history, rendering, decision, lead, caps.context)
        if isinstance(state, Ineligible):  # the two ways to tell must agree, or states would be lost silently
            raise AssertionError(f"decision {decision} of {trajectory.external_id} was counted as eligible: {state}")
        states.append(FrozenState(decision, ordinal, quantile, state, request.messages[decision]))
    return FrozenTrajectory(len(eligible), tuple(states), None, why_cut)


def chosen_ordinals(eligible: int) -> list[tuple[int, float]]:
    """Return the ordinals at the quantiles, each once, with the largest quantile that chose it."""
    return sorted({ceil(quantile * eligible) - 1: quantile for quantile in QUANTILES}.items())


def eligible_decisions(history: History, rendering: Rendering, lead: int, context_cap: int) -> list[int]:
    """Return the assistant messages before which a request has enough candidates, by counting instead of freezing each.

    Before decision i the older Steps are the complete ones but the latest two; enough of them must be in the view and
    hold a Block that can be deleted. The tests compare this with freezing each decision.
    """
    decisions = [step.message for step in history.steps if _is_decision(history, step)]
    decisions = decisions[: _valid_decisions(history.request, decisions)]
    starts = possible_starts(history, rendering)
    complete = [step for step in history.steps if step.complete and _answered_in_place(history, step)]
    proposing = list(accumulate((_proposes(history, rendering, step) for step in complete), initial=0))
    messages = [step.message for step in complete]
    eligible = []
    for decision in decisions:
        older = bisect_left(messages, decision) - RECENT_STEPS
        if older < MINIMUM:
            continue
        length = rendering.message_spans[decision].start + rendering.prompt_length
        view = longest_view(starts, length, messages[older], lead, context_cap)
        if view is not None:
            first = min(bisect_left(messages, view.first_message), older)
            if proposing[older] - proposing[first] >= MINIMUM:
                eligible.append(decision)
    return eligible


def _is_decision(history: History, step: Step) -> bool:
    """Return False for what a source marks as history only: a framework's own words, or output of another request."""
    return history.request.messages[step.message].wire.get("is_decision") is not False


def _answered_in_place(history: History, step: Step) -> bool:
    """Return False when a result came only after the next assistant message: before that, the Step was incomplete."""
    following = history.steps[step.index + 1 : step.index + 2]
    return not following or step.last_message < following[0].message


def _valid_decisions(request: Request, decisions: list[int]) -> int:
    """Return how many of the decisions have a valid request. Once broken, a request stays broken as it grows."""
    return bisect_left(decisions, True, key=lambda index: _is_invalid(request.with_messages(request.messages[:index])))


def _is_invalid(request: Request) -> bool:
    return invalid_protocol(violations(request)) is not None


def _proposes(history: History, rendering: Rendering, step: Step) -> bool:
    return any(
        rendering.direct_saving(removal(history, [block])) > 0
        for block in step.blocks
        if not block.opaque and not block.pinned
    )


def _state_before(
    history: History, rendering: Rendering, decision: int, lead: int, context_cap: int
) -> DecisionState | Ineligible:
    request = history.request.with_messages(history.request.messages[:decision])
    found = violations(request)
    return freeze_rendered(read_history(request), rendering.before(decision), found, lead, context_cap)


def _why_none(history: History, rendering: Rendering, lead: int, context_cap: int) -> str:
    """Return the reason at the last decision, which had the most history to choose from."""
    decisions = [step.message for step in history.steps if _is_decision(history, step)]
    if not decisions:
        return f"{IneligibleReason.TOO_FEW_CANDIDATES}: no assistant message behind the prefix"
    decision = decisions[-1]
    return str(_state_before(history, rendering, decision, lead, context_cap))
