"""The real `openai` and `anthropic` clients talk through the proxy, with and without streaming, tools included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from drsr.request.protocol import violations
from drsr.request.request import read_request
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.running import RunningProxy
from tests.proxy.scripted_upstream import ScriptedUpstream


@pytest.fixture
def chat(proxy: RunningProxy) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="sk-openai-secret", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(proxy: RunningProxy) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=proxy.address, api_key="sk-ant-secret", max_retries=0) as client:
        yield client


def check_pruned(upstream: ScriptedUpstream, sent: dict[str, Any], headers: Any) -> None:
    """The upstream got a valid request with less in it, and the client was told so."""
    got = upstream.latest().json()
    assert headers["x-drsr-reason"] == "pruned"
    assert int(headers["x-drsr-tokens-saved"]) > 0
    assert len(headers["x-drsr-decision"]) == 16
    assert len(json.dumps(got["messages"])) < len(json.dumps(sent["messages"]))
    assert got["messages"][-1] == sent["messages"][-1]
    assert {key: value for key, value in got.items() if key != "messages"} == {
        key: value for key, value in sent.items() if key != "messages"
    }
    assert violations(read_request(got)) == []


def test_openai(chat: openai.OpenAI, upstream: ScriptedUpstream) -> None:
    body = openai_body("alpha")
    raw = chat.chat.completions.with_raw_response.create(**body)
    assert raw.parse().choices[0].message.content == "alpha"
    assert raw.headers["x-request-id"] == "r1"
    check_pruned(upstream, body, raw.headers)
    assert upstream.latest().header("authorization") == "Bearer sk-openai-secret"


def test_openai_streamed(chat: openai.OpenAI, upstream: ScriptedUpstream) -> None:
    body = openai_body("beta", stream=True)
    raw = chat.chat.completions.with_raw_response.create(**body)
    chunks = list(raw.parse())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "beta"
    assert chunks[-1].choices[0].finish_reason == "stop"
    check_pruned(upstream, body, raw.headers)


def test_openai_tool_calls(chat: openai.OpenAI, upstream: ScriptedUpstream) -> None:
    answer = chat.chat.completions.create(**openai_body("gamma", model="tools"))
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("read_log", {"path": "gamma"})


def test_openai_tool_calls_streamed(chat: openai.OpenAI, upstream: ScriptedUpstream) -> None:
    deltas = [
        chunk.choices[0].delta for chunk in chat.chat.completions.create(**openai_body(model="tools", stream=True))
    ]
    calls = [call for delta in deltas for call in delta.tool_calls or []]
    assert calls[0].function is not None
    assert calls[0].function.name == "read_log"
    assert json.loads("".join(call.function.arguments or "" for call in calls if call.function)) == {"path": "alpha"}


def test_anthropic(claude: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    body = anthropic_body("alpha")
    raw = claude.messages.with_raw_response.create(**body)
    assert raw.parse().content[0].to_dict() == {"type": "text", "text": "alpha"}
    check_pruned(upstream, body, raw.headers)
    assert any("sk-ant-secret" in value for _, value in upstream.latest().headers)
    assert upstream.latest().header("anthropic-version") is not None


def test_anthropic_streamed(claude: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    body = anthropic_body("beta")
    with claude.messages.stream(**body) as stream:
        assert "".join(stream.text_stream) == "beta"
        headers = stream.response.headers
    check_pruned(upstream, {**body, "stream": True}, headers)


def test_anthropic_tool_calls(claude: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    answer = claude.messages.create(**anthropic_body("gamma", model="tools"))
    assert answer.stop_reason == "tool_use"
    (block,) = answer.content
    assert block.type == "tool_use"
    assert (block.name, block.input) == ("read_log", {"path": "gamma"})


def test_anthropic_tool_calls_streamed(claude: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    with claude.messages.stream(**anthropic_body("gamma", model="tools")) as stream:
        (block,) = stream.get_final_message().content
    assert block.type == "tool_use"
    assert (block.name, block.input) == ("read_log", {"path": "gamma"})


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_errors_of_the_upstream_arrive_as_they_are(
    chat: openai.OpenAI, claude: anthropic.Anthropic, status: int
) -> None:
    with pytest.raises(openai.APIStatusError) as said:
        chat.chat.completions.create(**openai_body(model=f"status-{status}"))
    assert said.value.status_code == status
    assert said.value.response.json()["error"]["message"] == f"scripted {status}"
    with pytest.raises(anthropic.APIStatusError) as also:
        claude.messages.create(**anthropic_body(model=f"status-{status}"))
    assert also.value.status_code == status
    assert also.value.response.json() == {
        "type": "error",
        "error": {"type": "scripted", "message": f"scripted {status}"},
    }


def test_the_clients_retry_through_the_proxy(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    with (
        openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=2) as client,
        pytest.raises(openai.RateLimitError),
    ):
        client.chat.completions.create(**openai_body(model="status-429"))
    assert len(upstream.requests) == 3
