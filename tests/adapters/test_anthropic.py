"""The real Anthropic SDK against a scripted provider: what is really sent, and that nothing else changes."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AnthropicBedrock, AsyncAnthropic
from anthropic.types import TextBlock, ToolUseBlock

from drsr.adapters import bypass
from drsr.adapters.anthropic import prune_with
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from tests.adapters.long_run import RUN, anthropic_tools, check_sent
from tests.adapters.scripted_upstream import ScriptedUpstream

MESSAGES: Any = RUN.to_anthropic()["messages"]
CALL: Any = {"model": "scripted", "max_tokens": 9, "tools": anthropic_tools(), "system": RUN.system}


def client_of(upstream: ScriptedUpstream) -> Anthropic:
    return Anthropic(api_key="k", http_client=httpx2.Client(transport=upstream.transport), max_retries=0)


def async_client_of(upstream: ScriptedUpstream) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="k", http_client=httpx2.AsyncClient(transport=upstream.transport), max_retries=0)


def test_the_model_receives_the_pruned_messages_and_nothing_else_changes() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    messages = copy.deepcopy(MESSAGES)
    plain = client_of(upstream)
    client = prune_with(scripted_policy(), plain, on_decision=decisions.append)
    answer = client.messages.create(messages=messages, **CALL)
    assert isinstance(answer.content[0], TextBlock)
    assert answer.content[0].text == "done"
    assert messages == MESSAGES
    check_sent(MESSAGES, upstream.sent, "anthropic")
    expected = scripted_policy().prune(MESSAGES, tools=CALL["tools"], system=CALL["system"])
    assert upstream.sent == decisions[0].messages == expected.messages
    assert upstream.bodies[-1] | {"messages": 0} == {**CALL, "messages": 0}
    assert upstream.headers[-1]["authorization"] == "Bearer k"

    plain.messages.create(messages=messages, **CALL)  # the client that was handed in prunes nothing
    assert upstream.sent == MESSAGES
    assert len(decisions) == 1


def test_streams_raw_responses_and_copies_work() -> None:
    upstream = ScriptedUpstream()
    client = prune_with(scripted_policy(), client_of(upstream))
    kinds = [event.type for event in client.messages.create(messages=MESSAGES, stream=True, **CALL)]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    with client.messages.stream(messages=MESSAGES, **CALL) as stream:
        assert "".join(stream.text_stream) == "done"
    raw = client.messages.with_raw_response.create(messages=MESSAGES, **CALL)
    assert raw.parse().content[0].type == "text"
    with client.with_streaming_response.messages.create(messages=MESSAGES, **CALL) as response:
        assert b"done" in response.read()
    client.beta.messages.create(messages=MESSAGES, **CALL)
    client.with_options(timeout=3).messages.create(messages=MESSAGES, **CALL)
    client.copy(api_key="other").messages.create(messages=MESSAGES, **CALL)
    assert upstream.headers[-1]["authorization"] == "Bearer other"
    assert len(upstream.bodies) == 7
    for body in upstream.bodies:
        check_sent(MESSAGES, body["messages"], "anthropic")
    counted = client.messages.count_tokens(messages=MESSAGES, model="scripted")
    assert counted.input_tokens == len(MESSAGES)


def test_the_async_client() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), async_client_of(upstream), on_decision=decisions.append)

    async def calls() -> None:
        answer = await client.messages.create(messages=MESSAGES, **CALL)
        assert answer.content[0].type == "text"
        async with client.messages.stream(messages=MESSAGES, **CALL) as stream:
            assert "".join([text async for text in stream.text_stream]) == "done"
        events = await client.messages.create(messages=MESSAGES, stream=True, **CALL)
        assert [event.type async for event in events][-1] == "message_stop"
        with bypass():
            await client.messages.create(messages=MESSAGES, **CALL)

    asyncio.run(calls())
    assert len(decisions) == 3
    for body in upstream.bodies[:-1]:
        check_sent(MESSAGES, body["messages"], "anthropic")
    assert upstream.sent == MESSAGES


def test_a_call_can_go_around() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append)
    client.messages.create(messages=MESSAGES, extra_headers={"x-drsr-bypass": "1"}, **CALL)
    with bypass():
        client.messages.create(messages=MESSAGES, **CALL)
    assert [body["messages"] for body in upstream.bodies] == [MESSAGES] * 2
    assert decisions == []


def test_the_sdks_own_objects_and_iterators_are_read() -> None:
    """People send `response.content` back; the SDK takes any iterable of messages."""
    upstream = ScriptedUpstream()
    client = prune_with(scripted_policy(), client_of(upstream))
    kinds: dict[str, Any] = {"text": TextBlock, "tool_use": ToolUseBlock}
    objects: Any = [
        {**message, "content": [kinds[block["type"]].model_validate(block) for block in message["content"]]}
        if message["role"] == "assistant"
        else message
        for message in MESSAGES
    ]
    client.messages.create(messages=iter(objects), **CALL | {"tools": iter(CALL["tools"])})
    assert isinstance(objects[1]["content"][0], ToolUseBlock)
    assert upstream.sent == scripted_policy().prune(MESSAGES, tools=CALL["tools"], system=CALL["system"]).messages
    assert upstream.bodies[-1]["tools"] == CALL["tools"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], Reason.TOO_FEW_CANDIDATES),
        ([*MESSAGES, {"role": "wizard", "content": "?"}], Reason.UNREADABLE_REQUEST),
        ([*MESSAGES[:3], *MESSAGES[4:]], Reason.INVALID_PROTOCOL),
        (None, Reason.UNREADABLE_REQUEST),
    ],
)
def test_bad_requests_are_sent_as_they_are_with_the_reason(messages: Any, reason: Reason) -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append)
    client.messages.create(messages=messages, **CALL)
    assert upstream.sent == messages
    assert [decision.reason for decision in decisions] == [reason]


def test_other_clients() -> None:
    upstream = ScriptedUpstream()
    bedrock = AnthropicBedrock(
        aws_access_key="a",
        aws_secret_key="s",
        aws_region="eu-north-1",
        http_client=httpx2.Client(transport=upstream.transport),
    )
    prune_with(scripted_policy(), bedrock).messages.create(messages=MESSAGES, **CALL)
    check_sent(MESSAGES, upstream.sent, "anthropic")
    assert upstream.paths == ["/model/scripted/invoke"]
    with pytest.raises(TypeError, match="a client of the SDK, not a str"):
        prune_with(scripted_policy(), "client")
