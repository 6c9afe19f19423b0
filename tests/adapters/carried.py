"""The property that every form must have: what a policy removes is removed from a copy of the framework's objects."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeVar

from drsr.adapters.chat_view import joined
from drsr.adapters.forms import Form
from drsr.adapters.pruner import Pruner
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.request.protocol import violations
from drsr.request.request import read_request

T = TypeVar("T")

POLICY = scripted_policy(removal_cap=0.9)


def check_carried(native: T, read: Callable[[T], Form[T]]) -> Decision:
    """Prune it, and check what comes out."""
    before, decisions = copy.deepcopy(native), list[Decision]()
    seen = Pruner(POLICY, on_decision=decisions.append).view(native, read)
    (decision,) = decisions
    assert native == before
    assert decision.reason is not Reason.INTERNAL_FAILURE, decision.detail
    if not decision.pruned:
        assert seen is native
        return decision
    told: list[Any] = read(seen).request["messages"]
    assert joined(told) == joined(decision.messages)
    assert violations(read_request({"messages": told}, protocol="openai")) == []
    assert decision.outcome is not None
    pinned = read(native).pinned
    assert not [block for block in decision.outcome.removed if (block.parts[0].message, block.component) in pinned]
    return decision


def spelled(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message with its calls taken apart, so that the spelling of their arguments does not matter."""
    functions = [(one["id"], one["function"]) for one in message.get("tool_calls", [])]
    calls = [(call_id, function["name"], json.loads(function["arguments"])) for call_id, function in functions]
    return {**message, "tool_calls": calls}
