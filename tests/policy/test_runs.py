"""`Policy.prune` recognises runs: what was removed stays removed, and more goes only where it pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drsr.adapters import Pruner
from drsr.adapters.wire_form import Body, openai_body
from drsr.errors import SettingsError
from drsr.offline.bench.price_report import PrefixCache
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import common_prefix, render
from drsr.request.request import read_request
from drsr.sessions.price_table import bundled_prices
from drsr.sessions.prices import RELATIVE
from tests.features.states import run_messages

RUN = run_messages(30, words=240)
CALLS = [RUN[:end] for end, message in enumerate(RUN) if message["role"] == "assistant"]
GPT = bundled_prices().models["gpt-4o"]


def bill(policy: Policy, sent: Callable[[list[Any]], list[Any]]) -> float:
    """What the run costs at a provider that caches prefixes."""
    cache, cost = PrefixCache(), 0.0
    for messages in CALLS:
        tokens = render(read_request({"messages": sent(messages)}), policy.frozen.representation.tokenizer)
        cost += GPT.input_cost(len(tokens), cache.read(tokens.token_ids))
    return cost


def test_a_run_in_a_loop_costs_less_than_without_pruning_and_than_request_by_request() -> None:
    policy = scripted_policy()
    unpruned = bill(policy, lambda messages: messages)
    alone = bill(policy, lambda messages: policy.prune(messages, model="gpt-4o", session=None).messages)
    in_runs = bill(policy, lambda messages: policy.prune(messages, model="gpt-4o").messages)
    assert in_runs < min(unpruned, alone)
    pruner = Pruner(scripted_policy())
    bodies: dict[int, Body] = {len(messages): {"model": "gpt-4o", "messages": messages} for messages in CALLS}
    through_an_adapter = bill(
        policy, lambda messages: list(pruner.view(bodies[len(messages)], openai_body)["messages"])
    )
    assert through_an_adapter == in_runs


def test_the_prefix_stays_until_more_is_removed() -> None:
    policy, tokenizer = scripted_policy(), scripted_policy().frozen.representation.tokenizer
    sent: Any = None
    for messages in CALLS:
        decision = policy.prune(messages)
        now = render(read_request(decision.messages), tokenizer).token_ids
        if decision.reason is not None and sent is not None:
            assert common_prefix(sent, now) == len(sent)
        sent = now
    assert len(policy.runs) == 1


def test_a_first_request_with_a_history_is_decided_as_in_the_paper() -> None:
    one, other = scripted_policy().prune(CALLS[-1]), scripted_policy().prune(CALLS[-1], session=None)
    assert one.pruned
    assert one.request == other.request
    assert (other.session, one.session is None) == (None, False)


def test_two_runs_do_not_mix() -> None:
    policy = scripted_policy()
    for messages in CALLS:
        for name in ("Ada", "Bo"):
            first = {**messages[0], "content": f"{messages[0]['content']} For {name}."}
            policy.prune([first, *messages[1:]])
    assert len(policy.runs) == 2


def about(decision: Decision) -> Any:
    assert decision.session is not None
    return decision.session


def test_a_known_model_is_told_in_money_and_an_unknown_one_in_tokens() -> None:
    known, unknown = scripted_policy().session(), scripted_policy().session()
    costs = {"sent": 0.0, "unpruned": 0.0}
    for messages in CALLS:
        decision = known.prune(request={"model": "openai/gpt-4o-2024-08-06", "messages": messages})
        assert decision.receipt["model"] == "openai/gpt-4o-2024-08-06"
        assert about(decision)["priced"] is True
        assert about(decision)["prices"] == GPT.to_json()
        costs = {name: costs[name] + about(decision)["cost"][name] for name in costs}
        decision = unknown.prune(messages, model="my-own")
        assert about(decision)["priced"] is False
        assert about(decision)["prices"] == RELATIVE.to_json()
    # The session's own reckoning of both bills is that of a provider's cache.
    policy = scripted_policy()
    assert costs["unpruned"] == pytest.approx(bill(policy, lambda messages: messages), rel=0.01)
    assert costs["sent"] == pytest.approx(
        bill(policy, lambda messages: policy.prune(messages, model="gpt-4o").messages), rel=0.01
    )
    assert costs["sent"] < costs["unpruned"]


def test_anthropic_caches_only_what_is_marked() -> None:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    messages: list[Any] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}
    plain = about(scripted_policy().prune(request=body, format="anthropic"))
    assert (plain["prices"]["cached_input"], plain["prices"]["cache_write"]) == (3, 3)
    marked = {**body, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}
    assert about(scripted_policy().prune(request=marked, format="anthropic"))["prices"]["cached_input"] == 0.3


def removed_tools(decision: Decision) -> set[str]:
    names = set()
    for row in decision.receipt["removed"]:
        if row["kind"] != "tool_exchange":
            continue
        for call in CALLS[-1][row["messages"][0]].get("tool_calls") or ():
            names.add(call["function"]["name"])
    return names


def test_rules_per_tool() -> None:
    policy = scripted_policy(removal_cap=0.9)
    usual = removed_tools(policy.prune(CALLS[-1], session=None))
    assert usual
    spared = policy.prune(CALLS[-1], session=None, never_tools=[f"{name[:2]}*" for name in usual])
    assert not removed_tools(spared) & usual
    only = policy.prune(CALLS[-1], session=None, only_tools=sorted(usual))
    assert removed_tools(only) <= usual
    nothing = policy.prune(CALLS[-1], session=None, only_tools=["no_such_tool"])
    assert "tool_exchange" not in {row["kind"] for row in nothing.receipt["removed"]}
    pruner = Pruner(policy, never_tools=["*"], protect=lambda block, _: block.kind == "assistant_state")
    body: Body = {"messages": CALLS[-1]}
    assert pruner.view(body, openai_body) is body


@pytest.mark.parametrize("rule", [[], [""], "read_*", ["a", " "], [7]])
@pytest.mark.parametrize("option", ["only_tools", "never_tools"])
def test_a_rule_that_names_no_tool_is_refused_at_once(option: str, rule: Any) -> None:
    with pytest.raises(SettingsError, match=f"{option} names no tool"):
        Pruner(scripted_policy(), **{option: rule})
    with pytest.raises(SettingsError, match="min_saving_tokens"):
        Pruner(scripted_policy(), min_saving_tokens=-1)
