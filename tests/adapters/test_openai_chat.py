"""The real OpenAI SDK against a scripted provider: what is really sent, and that nothing else changes."""

from __future__ import annotations

import asyncio
import copy
from typing import Any, cast

import httpx2
import pytest
from openai import AsyncOpenAI, AzureOpenAI, InternalServerError, OpenAI
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage
from pydantic import BaseModel

from drsr.adapters import bypass
from drsr.adapters.openai_chat import prune_with
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.request.history import Block
from drsr.request.request import Request
from drsr.sessions.prices import Prices
from tests.adapters.items import check_items, run_items
from tests.adapters.long_run import RUN, TOOLS, check_sent
from tests.adapters.scripted_upstream import ScriptedUpstream

MESSAGES: Any = RUN.to_openai()["messages"]
CALL: Any = {"model": "scripted", "tools": TOOLS}


def client_of(upstream: ScriptedUpstream, retries: int = 0) -> OpenAI:
    return OpenAI(api_key="k", http_client=httpx2.Client(transport=upstream.transport), max_retries=retries)


def async_client_of(upstream: ScriptedUpstream) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="k", http_client=httpx2.AsyncClient(transport=upstream.transport), max_retries=0)


def test_the_model_receives_the_pruned_messages_and_nothing_else_changes() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    messages = copy.deepcopy(MESSAGES)
    plain = client_of(upstream)
    client = prune_with(scripted_policy(), plain, on_decision=decisions.append)
    answer = client.chat.completions.create(messages=messages, temperature=0.5, **CALL)
    assert answer.choices[0].message.content == "done"
    assert messages == MESSAGES
    check_sent(MESSAGES, upstream.sent)
    (decision,) = decisions
    assert upstream.sent == decision.messages == scripted_policy().prune(MESSAGES, tools=TOOLS).messages
    assert upstream.bodies[-1] | {"messages": 0} == {**CALL, "temperature": 0.5, "messages": 0}
    assert upstream.headers[-1]["authorization"] == "Bearer k"

    plain.chat.completions.create(messages=messages, **CALL)  # the client that was handed in prunes nothing
    assert upstream.sent == MESSAGES
    assert len(decisions) == 1


def test_streams_raw_responses_and_parsed_answers_work() -> None:
    class Answer(BaseModel):
        word: str

    upstream = ScriptedUpstream()
    client = prune_with(scripted_policy(), client_of(upstream))
    chunks = list(client.chat.completions.create(messages=MESSAGES, stream=True, **CALL))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "done"
    with client.chat.completions.stream(messages=MESSAGES, **CALL) as stream:
        assert stream.get_final_completion().choices[0].message.content == "done"
    raw = client.chat.completions.with_raw_response.create(messages=MESSAGES, **CALL)
    assert raw.parse().choices[0].message.content == "done"
    with client.with_streaming_response.chat.completions.create(messages=MESSAGES, **CALL) as response:
        assert b"done" in response.read()
    with pytest.raises(ValueError, match="done"):  # the SDK's own parsing of an answer that is no JSON
        client.chat.completions.parse(messages=MESSAGES, response_format=Answer, model="scripted")
    client.with_options(timeout=3).chat.completions.create(messages=MESSAGES, **CALL)
    client.copy(api_key="other").chat.completions.create(messages=MESSAGES, **CALL)
    assert upstream.headers[-1]["authorization"] == "Bearer other"
    assert len(upstream.bodies) == 7
    for body in upstream.bodies:
        check_sent(MESSAGES, body["messages"])


def test_the_async_client() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), async_client_of(upstream), on_decision=decisions.append)

    async def calls() -> None:
        answers = await asyncio.gather(
            *(client.chat.completions.create(messages=MESSAGES, **CALL) for _ in range(4)),
        )
        assert [answer.choices[0].message.content for answer in answers] == ["done"] * 4
        stream = await client.chat.completions.create(messages=MESSAGES, stream=True, **CALL)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "done"
        async with client.with_options(timeout=3).chat.completions.stream(messages=MESSAGES, **CALL) as events:
            assert (await events.get_final_completion()).choices[0].message.content == "done"
        with bypass():
            await client.chat.completions.create(messages=MESSAGES, **CALL)

    asyncio.run(calls())
    assert len(decisions) == 6
    for body in upstream.bodies[:-1]:
        check_sent(MESSAGES, body["messages"])
    assert upstream.sent == MESSAGES


def test_a_call_can_go_around_and_a_shadow_changes_nothing() -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append)
    client.chat.completions.create(messages=MESSAGES, extra_headers={"X-DRSR-Bypass": "1"}, **CALL)
    with bypass():
        client.chat.completions.create(messages=MESSAGES, **CALL)
    assert decisions == []
    shadow = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append, shadow=True)
    shadow.chat.completions.create(messages=MESSAGES, **CALL)
    assert [body["messages"] for body in upstream.bodies] == [MESSAGES] * 3
    assert decisions[0].pruned
    client.chat.completions.create(messages=MESSAGES, extra_headers={"x-drsr-bypass": "0"}, **CALL)
    check_sent(MESSAGES, upstream.sent)


def test_the_sdks_own_objects_and_iterators_are_read() -> None:
    """People append `response.choices[0].message`; the SDK takes any iterable of messages."""
    upstream = ScriptedUpstream()
    client = prune_with(scripted_policy(), client_of(upstream))
    objects: Any = [
        ChatCompletionMessage.model_validate(message) if message["role"] == "assistant" else message
        for message in MESSAGES
    ]
    before = copy.deepcopy(objects)
    client.chat.completions.create(messages=iter(objects), **CALL | {"tools": iter(TOOLS)})
    assert objects == before
    assert upstream.sent == scripted_policy().prune(MESSAGES, tools=TOOLS).messages
    assert upstream.bodies[-1]["tools"] == TOOLS


def test_the_decision_is_made_once_for_all_retries() -> None:
    upstream, decisions = ScriptedUpstream(fail_first=1), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream, retries=1), on_decision=decisions.append)
    client.chat.completions.create(messages=MESSAGES, **CALL)
    assert len(decisions) == 1
    assert len(upstream.bodies) == 2
    assert upstream.bodies[0] == upstream.bodies[1]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], Reason.TOO_FEW_CANDIDATES),
        ([{"role": "user", "content": "task"}], Reason.TOO_FEW_CANDIDATES),
        ([*MESSAGES, {"role": "wizard", "content": "?"}], Reason.UNREADABLE_REQUEST),
        ([*MESSAGES, {"role": "tool", "tool_call_id": "nobody", "content": "r"}], Reason.INVALID_PROTOCOL),
        ([*MESSAGES, "text"], Reason.UNREADABLE_REQUEST),
        (None, Reason.UNREADABLE_REQUEST),
    ],
)
def test_bad_requests_are_sent_as_they_are_with_the_reason(messages: Any, reason: Reason) -> None:
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append)
    client.chat.completions.create(messages=messages, **CALL)
    assert upstream.sent == messages
    assert [decision.reason for decision in decisions] == [reason]


def test_no_failure_of_ours_reaches_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("a secret")

    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), protect=fails, on_decision=decisions.append)
    client.chat.completions.create(messages=MESSAGES, **CALL)
    assert upstream.sent == MESSAGES
    assert decisions[0].reason is Reason.INTERNAL_FAILURE
    client = prune_with(scripted_policy(receipts=fails), client_of(upstream), on_decision=fails)
    client.chat.completions.create(messages=MESSAGES, **CALL)
    check_sent(MESSAGES, upstream.sent)
    assert "RuntimeError" in caplog.text
    assert "a secret" not in caplog.text


def test_what_the_provider_refuses_is_raised_as_ever() -> None:
    client = prune_with(scripted_policy(), client_of(ScriptedUpstream(fail_first=1)))
    with pytest.raises(InternalServerError):
        client.chat.completions.create(messages=MESSAGES, **CALL)


def test_protect_pins_blocks() -> None:
    def tool_exchanges(block: Block, request: Request) -> bool:
        return block.kind == "tool_exchange"

    upstream = ScriptedUpstream()
    client = prune_with(scripted_policy(), client_of(upstream), protect=tool_exchanges)
    client.chat.completions.create(messages=MESSAGES, **CALL)
    assert [m for m in upstream.sent if m["role"] == "tool"] == [m for m in MESSAGES if m["role"] == "tool"]


def test_a_session_keeps_what_it_sent_before() -> None:
    """The same run, call by call: what was removed stays removed, so that the beginning stays the same."""
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    session = scripted_policy().session(Prices(3, 0.3, 3.75, 15), expected_calls=200)
    client = prune_with(session, client_of(upstream), on_decision=decisions.append)
    ends = [n for n, message in enumerate(MESSAGES, 1) if message["role"] == "tool"]
    for end in ends:
        client.chat.completions.create(messages=MESSAGES[:end], **CALL)
    assert decisions[-1].pruned
    assert session.calls == len(ends)
    earlier = [block["block"] for block in decisions[-2].receipt["removed"]]
    assert earlier == [block["block"] for block in decisions[-1].receipt["removed"]][: len(earlier)]


def test_responses_are_pruned_too() -> None:
    """`response.output` is sent back as the SDK's own objects; what stays is sent as it would have been."""
    upstream, decisions = ScriptedUpstream(), list[Decision]()
    client = prune_with(scripted_policy(), client_of(upstream), on_decision=decisions.append)
    plain = run_items(RUN)
    kinds: dict[str, Any] = {"message": ResponseOutputMessage, "function_call": ResponseFunctionToolCall}
    items: Any = [
        kinds[item["type"]].model_validate(item) if item.get("type") in kinds else item for item in copy.deepcopy(plain)
    ]
    before = copy.deepcopy(items)
    answer = client.responses.create(model="scripted", instructions=RUN.system, input=items)
    assert answer.output_text == "done"
    assert items == before
    sent = upstream.bodies[-1]["input"]
    check_items(sent, plain)
    assert len(sent) < len(plain)
    assert [item for item in sent if item not in plain] == []
    assert upstream.bodies[-1]["instructions"] == RUN.system
    client.responses.create(model="scripted", input="Hello.")
    assert upstream.bodies[-1]["input"] == "Hello."
    client.responses.create(model="scripted", input=cast(Any, [*plain, {"type": "item_reference", "id": "x"}]))
    assert upstream.bodies[-1]["input"] == [*plain, {"type": "item_reference", "id": "x"}]
    assert [decision.reason for decision in decisions] == [None, *[Reason.UNREADABLE_REQUEST] * 2]


def test_other_calls_and_other_clients() -> None:
    upstream = ScriptedUpstream()
    azure = AzureOpenAI(
        api_key="k",
        api_version="2026-01-01",
        azure_endpoint="https://azure.test",
        http_client=httpx2.Client(transport=upstream.transport),
    )
    prune_with(scripted_policy(), azure).chat.completions.create(messages=MESSAGES, **CALL)
    check_sent(MESSAGES, upstream.sent)
    assert upstream.paths == ["/openai/deployments/scripted/chat/completions"]
    posted = prune_with(scripted_policy(), client_of(upstream)).post(
        "/other", body={"messages": MESSAGES}, cast_to=dict
    )
    assert posted
    assert upstream.sent == MESSAGES
    with pytest.raises(TypeError, match="a client of the SDK, not a str"):
        prune_with(scripted_policy(), "client")  # type: ignore[type-var]
    with pytest.raises(TypeError, match="a policy or sessions of one, not a str"):
        prune_with("policy", azure)  # type: ignore[arg-type]
