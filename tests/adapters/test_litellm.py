"""LiteLLM against a scripted provider, and its proxy's hook: what is really sent, and that nothing else changes."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import httpx2
import litellm
import pytest
from litellm.router import Router
from openai import AsyncOpenAI, OpenAI

from drsr.adapters import bypass
from drsr.adapters.litellm import PruningHook, prune_with
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from tests.adapters.items import check_items, run_items
from tests.adapters.long_run import RUN, TOOLS, anthropic_tools, check_sent
from tests.adapters.scripted_upstream import ScriptedUpstream

MESSAGES: list[Any] = RUN.to_openai()["messages"]
CALL: Any = {"model": "openai/scripted", "tools": TOOLS}


def client_of(upstream: ScriptedUpstream) -> OpenAI:
    return OpenAI(api_key="k", http_client=httpx2.Client(transport=upstream.transport), max_retries=0)


def async_client_of(upstream: ScriptedUpstream) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="k", http_client=httpx2.AsyncClient(transport=upstream.transport), max_retries=0)


def without_nulls(messages: list[Any]) -> list[Any]:
    """LiteLLM sends no null fields."""
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def test_completion_sends_the_pruned_messages_and_changes_nothing_else() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    messages = copy.deepcopy(MESSAGES)
    completion: Any = prune_with(scripted_policy(), litellm.completion, on_decision=decisions.append)
    answer = completion(messages=messages, client=client_of(upstream), temperature=0.5, **CALL)
    assert answer.choices[0].message.content == "done"
    assert messages == MESSAGES
    check_sent(MESSAGES, upstream.sent)
    assert decisions[0].messages == scripted_policy().prune(MESSAGES, tools=TOOLS).messages
    assert upstream.sent == without_nulls(decisions[0].messages)
    assert upstream.bodies[-1]["tools"] == TOOLS
    assert upstream.bodies[-1]["temperature"] == 0.5
    assert completion.__name__ == "completion"

    completion("openai/scripted", messages, tools=TOOLS, client=client_of(upstream))
    check_sent(MESSAGES, upstream.sent)
    chunks = list(completion(messages=messages, client=client_of(upstream), stream=True, **CALL))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "done"
    check_sent(MESSAGES, upstream.sent)
    assert len(decisions) == 3


def test_acompletion() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    acompletion: Any = prune_with(scripted_policy(), litellm.acompletion, on_decision=decisions.append)

    async def calls() -> None:
        client = async_client_of(upstream)
        answer = await acompletion(messages=MESSAGES, client=client, **CALL)
        assert answer.choices[0].message.content == "done"
        stream = await acompletion(messages=MESSAGES, client=client, stream=True, **CALL)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "done"
        with bypass():
            await acompletion(messages=MESSAGES, client=client, **CALL)

    asyncio.run(calls())
    assert len(decisions) == 2
    for body in upstream.bodies[:-1]:
        check_sent(MESSAGES, body["messages"])
    assert upstream.sent == without_nulls(MESSAGES)


def test_litellms_own_messages_are_read() -> None:
    """People append `response.choices[0].message`."""
    upstream = ScriptedUpstream()
    completion: Any = prune_with(scripted_policy(), litellm.completion)
    objects = [litellm.Message(**m) if m["role"] == "assistant" else m for m in copy.deepcopy(MESSAGES)]
    completion(messages=objects, client=client_of(upstream), **CALL)
    assert without_nulls(upstream.sent) == without_nulls(scripted_policy().prune(MESSAGES, tools=TOOLS).messages)


def test_a_call_can_go_around_and_bad_input_passes_through() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    completion: Any = prune_with(scripted_policy(), litellm.completion, on_decision=decisions.append)
    completion(messages=MESSAGES, client=client_of(upstream), extra_headers={"x-drsr-bypass": "1"}, **CALL)
    assert upstream.sent == without_nulls(MESSAGES)
    orphan = [*MESSAGES, {"role": "tool", "tool_call_id": "nobody", "content": "r"}]
    completion(messages=orphan, client=client_of(upstream), **CALL)
    assert upstream.sent == without_nulls(orphan)
    assert [decision.reason for decision in decisions] == [Reason.INVALID_PROTOCOL]


def test_a_router() -> None:
    upstream = ScriptedUpstream()
    router = Router(
        model_list=[{"model_name": "group", "litellm_params": {"model": "openai/scripted", "api_key": "k"}}]
    )
    completion: Any = prune_with(scripted_policy(), router.completion)
    completion(model="group", messages=MESSAGES, tools=TOOLS, client=client_of(upstream))
    check_sent(MESSAGES, upstream.sent)


def hooked(hook: PruningHook, data: dict[str, Any], call_type: str) -> dict[str, Any]:
    """What the proxy sends on: it goes on with what the hook gives back."""
    return asyncio.run(hook.async_pre_call_hook(None, None, data, call_type))


@pytest.mark.parametrize(
    ("call_type", "data", "protocol"),
    [
        ("completion", {"messages": MESSAGES, "tools": TOOLS}, "openai"),
        ("acompletion", {"messages": MESSAGES, "tools": TOOLS}, "openai"),
        ("anthropic_messages", {**RUN.to_anthropic(), "tools": anthropic_tools()}, "anthropic"),
    ],
)
def test_the_proxys_hook(call_type: str, data: dict[str, Any], protocol: Any) -> None:
    data = {"model": "m", "metadata": {"user": 1}, **data}
    before, decisions = copy.deepcopy(data), list[Decision]()
    sent = hooked(PruningHook(scripted_policy(), on_decision=decisions.append), data, call_type)
    assert data == before
    check_sent(data["messages"], sent["messages"], protocol)
    assert {key: sent[key] for key in sent if key != "messages"} == {
        key: data[key] for key in data if key != "messages"
    }
    assert decisions[0].pruned


def test_the_proxys_hook_reads_items_and_leaves_the_rest() -> None:
    hook = PruningHook(scripted_policy())
    items = run_items(RUN)
    sent = hooked(hook, {"model": "m", "input": items}, "aresponses")
    check_items(sent["input"], items)
    assert len(sent["input"]) < len(items)
    for call_type in ("embedding", "call_mcp_tool", "moderation"):
        data = {"messages": MESSAGES}
        assert hooked(hook, data, call_type) is data
    around: dict[str, Any] = {"messages": MESSAGES, "proxy_server_request": {"headers": {"x-drsr-bypass": "1"}}}
    assert hooked(hook, around, "completion") is around
    bad: dict[str, Any] = {"messages": "hello"}
    assert hooked(hook, bad, "completion") is bad
    shadow = {"messages": MESSAGES}
    assert hooked(PruningHook(scripted_policy(), shadow=True), shadow, "completion") is shadow


def test_the_proxy_will_call_the_hook() -> None:
    """It asks whether the very class defines the hook, and calls it by keyword."""
    assert "async_pre_call_hook" in vars(PruningHook)
    sent = asyncio.run(
        PruningHook(scripted_policy()).async_pre_call_hook(
            user_api_key_dict=None, cache=None, data={"messages": MESSAGES}, call_type="acompletion"
        )
    )
    check_sent(MESSAGES, sent["messages"])
