"""The agent behind an endpoint, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from drsr.errors import AgentFailed
from drsr.offline.bench.harness.agent import Answer, Refused
from drsr.offline.bench.harness.endpoint_agent import EndpointAgent
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.request.request import read_request
from tests.offline.bench.loopback_endpoint import Reply, Served, completion, loopback_endpoint

REQUEST = read_request(
    {
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "task"}],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
    }
)
CALL = {"id": "abc", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@contextmanager
def agent_of(served: Served, **options: Any) -> Iterator[EndpointAgent]:
    with (
        loopback_endpoint(served.reply) as url,
        closing(EndpointAgent(url, "large", pause=served.pauses.append, **options)) as agent,
    ):
        yield agent


def test_the_request_goes_out_as_it_is_and_the_endpoints_own_counts_are_taken() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    served = Served(Reply(completion(message, 120, 7, cached_tokens=64, cache_creation_tokens=32)))
    with agent_of(served, api_key="secret", seed=3) as agent:
        found = agent.begin("t", {}).answer(REQUEST)
        assert agent.name.startswith("large at http://127.0.0.1")
    assert found == Answer(message, Usage(120, 7, 64, 32))
    (asked,) = served.asked
    assert (asked.path, asked.authorization) == ("/v1/chat/completions", "Bearer secret")
    assert asked.body == {**REQUEST.to_wire(), "model": "large", "temperature": 0, "seed": 3}


def test_reasoning_is_kept_and_an_absent_content_is_null() -> None:
    given = {"role": "assistant", "reasoning_content": "hm", "tool_calls": [CALL]}
    with agent_of(Served(Reply(completion(given, 1, 1)))) as agent:
        found = agent.answer(REQUEST)
    assert isinstance(found, Answer)
    assert found.message == {**given, "content": None}


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_at_fault_ends_the_task_only(status: int) -> None:
    with agent_of(Served(Reply({"error": "too long"}, status))) as agent:
        assert agent.answer(REQUEST) == Refused(f"status {status}")


def test_what_would_meet_every_request_stops_the_run() -> None:
    with agent_of(Served(Reply({}, 401))) as agent, pytest.raises(AgentFailed, match="401(?s:.*)DRSR_AGENT_KEY"):
        agent.answer(REQUEST)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"choices": []},
        {"choices": [{"message": None}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"choices": [{"message": {"role": "assistant", "content": "8"}}]},
        {"choices": [{"message": {"role": "assistant", "content": "8"}}], "usage": {"prompt_tokens": 1}},
        completion({"role": "assistant", "content": "8"}, 10, 1, cached_tokens=11),
        completion({"role": "assistant", "tool_calls": [{"id": "x"}]}, 1, 1),
    ],
)
def test_an_answer_that_cannot_be_used_stops_the_run(body: Any) -> None:
    with agent_of(Served(Reply(body))) as agent, pytest.raises(AgentFailed, match="without a readable message"):
        agent.answer(REQUEST)
