"""Recall: the tool is in every request alike, and gives back what was removed and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from drsr.policy.scripted import scripted_policy
from drsr.receipts.recall import RECALL, recall_tool
from tests.agent_runs import anthropic_body, openai_body


def calls_of(body: dict[str, Any]) -> dict[str, Any]:
    """Results in a chat request, by the id of their call."""
    return {message["tool_call_id"]: message["content"] for message in body["messages"] if message["role"] == "tool"}


def test_the_removed_parts_are_listed_and_given_back_word_for_word() -> None:
    body = openai_body(steps=9)
    untouched = copy.deepcopy(body)
    decision = scripted_policy().prune(request=body, session=None, recall=True)
    assert decision.pruned
    assert body == untouched
    gone = set(calls_of(body)) - set(calls_of(decision.request))
    removed = decision.receipt["removed"]
    listed = decision.recall()
    assert [line.partition(":")[0] for line in listed.splitlines()[1:]] == [block["block"] for block in removed]
    told = [decision.recall(block["block"]) for block in removed if block["kind"] == "tool_exchange"]
    assert len(told) == len(gone) > 0
    for call_id in gone:
        assert sum(calls_of(body)[call_id] in text for text in told) >= 1
    assert all(text.startswith("call: ") for text in told)


def test_what_was_not_removed_is_not_given() -> None:
    decision = scripted_policy().prune(request=openai_body(steps=9), session=None, recall=True)
    there = {block["block"] for block in decision.receipt["removed"]}
    for name in ("0.0", "8.1", "no such", ""):
        if name not in there:
            assert decision.recall(name).startswith(f"No removed part is called {json.dumps(name)}.")
    short = scripted_policy().prune(request=openai_body(steps=2), recall=True)
    assert not short.pruned
    assert short.recall() == short.recall("1.1") == "Nothing was removed."
    assert scripted_policy().prune(request=7, recall=True).recall() == "Nothing was removed."


@pytest.mark.parametrize(("make", "protocol"), [(openai_body, "openai"), (anthropic_body, "anthropic")])
def test_the_tool_is_there_once_whether_or_not_anything_goes(make: Any, protocol: Any) -> None:
    policy = scripted_policy()
    for steps in (2, 9):
        body = make(steps=steps)
        decision = policy.prune(request=body, recall=True)
        assert decision.request["tools"][-1] == recall_tool(protocol)
        assert RECALL not in json.dumps(policy.prune(request=body).request.get("tools"))
        again = policy.prune(request=decision.original, recall=True)
        assert json.dumps(again.request["tools"]).count(RECALL) == 1
    assert policy.prune(body["messages"], format=protocol, recall=True).request["tools"] == [recall_tool(protocol)]


def test_a_session_gives_back_what_it_removed_before() -> None:
    policy = scripted_policy()
    first = policy.prune(request=openai_body(steps=8), recall=True)
    assert first.pruned
    later = policy.prune(request=openai_body(steps=9), recall=True)
    for block in first.receipt["removed"]:
        assert later.recall(block["block"]) == first.recall(block["block"])
