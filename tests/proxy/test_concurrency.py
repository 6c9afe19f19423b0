"""Two hundred requests at once, slow ones, failing ones and clients that leave among them: none lost, none mixed up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai

from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.proxy.activity import counted
from drsr.proxy.settings import ProxySettings, UpstreamUrl
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import PATIENCE, RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream, last_text

REQUESTS = 200


def expected(policy: Policy, number: int) -> Any:
    """What the upstream must get for a request."""
    body = body_of(number)
    return policy.prune(request=body, format="openai" if number % 2 == 0 else "anthropic", session=None).request


def body_of(number: int) -> dict[str, Any]:
    make = openai_body if number % 2 == 0 else anthropic_body
    return make(f"marker-{number}", steps=1 + number % 8)


async def one(number: int, chat: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> str:
    """The answer to one request, in one of four ways."""
    body, streamed = body_of(number), number % 4 >= 2
    if number % 2 == 0:
        if not streamed:
            answer = await chat.chat.completions.create(**body)
            return str(answer.choices[0].message.content)
        deltas = [chunk.choices[0].delta async for chunk in await chat.chat.completions.create(**body, stream=True)]
        return "".join(str(delta.content or "") for delta in deltas)
    if not streamed:
        (block,) = (await claude.messages.create(**body)).content
        assert block.type == "text"
        return str(block.text)
    async with claude.messages.stream(**body) as stream:
        return "".join([text async for text in stream.text_stream])


async def leaves(address: str, number: int) -> None:
    """A client that hangs up before its answer is complete."""
    body = openai_body(f"leaves-{number}", model="gated" if number % 2 else "silent", stream=True)
    async with httpx.AsyncClient(trust_env=False) as client:
        asking = asyncio.create_task(client.post(f"{address}/v1/chat/completions", json=body))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def fails(address: str, number: int) -> int:
    body = openai_body(f"fails-{number}", model=f"status-{500 + number % 4}")
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        return (await client.post(f"{address}/v1/chat/completions", json=body)).status_code


async def all_at_once(proxy: RunningProxy) -> tuple[list[str], list[int]]:
    async with (
        openai.AsyncOpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0, timeout=120) as chat,
        anthropic.AsyncAnthropic(base_url=proxy.address, api_key="k", max_retries=0, timeout=120) as claude,
    ):
        good = asyncio.gather(*(one(number, chat, claude) for number in range(REQUESTS)))
        bad = asyncio.gather(*(fails(proxy.address, number) for number in range(12)))
        gone = asyncio.gather(*(leaves(proxy.address, number) for number in range(12)))
        await gone
        return await good, await bad


def markers(upstream: ScriptedUpstream) -> dict[str, Any]:
    """What the upstream got, by marker."""
    got: dict[str, Any] = {}
    for request in upstream.requests:
        body = request.json()
        marker = last_text(body)
        if marker.startswith("marker-"):
            assert marker not in got, "sent twice"
            got[marker] = {key: value for key, value in body.items() if key != "stream"}
    return got


def test_two_hundred_at_once(start_proxy: StartProxy, upstream: ScriptedUpstream) -> None:
    proxy = start_proxy(deadline=120.0, queued_decisions=REQUESTS + 24, workers=2)
    texts, statuses = asyncio.run(all_at_once(proxy))
    assert texts == [f"marker-{number}" for number in range(REQUESTS)]
    assert statuses == [500 + number % 4 for number in range(12)]
    policy = scripted_policy()
    assert markers(upstream) == {f"marker-{number}": expected(policy, number) for number in range(REQUESTS)}
    admission, decider = proxy.parts.admission, proxy.parts.decider
    assert eventually(lambda: admission.inside == admission.waiting == decider.running == decider.waiting == 0)
    outcomes = {reason for _, reason in counted(proxy.app.activity.decisions)}
    assert outcomes == {"pruned", "too_few_candidates"}


def test_two_hundred_with_the_default_limits(start_proxy: StartProxy, upstream: ScriptedUpstream) -> None:
    """Some decisions then find no room and their requests go through unchanged, but every one is answered."""
    default = ProxySettings(UpstreamUrl.parse("http://127.0.0.1"), Path("off"))
    proxy = start_proxy(deadline=default.deadline)
    texts, _ = asyncio.run(all_at_once(proxy))
    assert texts == [f"marker-{number}" for number in range(REQUESTS)]
    policy = scripted_policy()
    got = markers(upstream)
    for number in range(REQUESTS):
        assert got[f"marker-{number}"] in (body_of(number), expected(policy, number))
    outcomes = {reason for _, reason in counted(proxy.app.activity.decisions)}
    assert outcomes <= {"pruned", "too_few_candidates", "busy", "deadline_exceeded"}
