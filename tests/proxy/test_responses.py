"""OpenAI's Responses form: items go through pruned or as they came, whole and streamed, and no pair is parted."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from drsr.proxy.settings import SessionSettings
from drsr.sessions.prices import Prices
from tests.adapters.items import check_items, run_items
from tests.agent_runs import TOOLS, run
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

PATH = "/v1/responses"


def responses_body(marker: str = "alpha", steps: int = 8, *, reasoning: bool = False, **fields: Any) -> dict[str, Any]:
    name, description, parameters = TOOLS
    tool = {"type": "function", "name": name, "description": description, "parameters": parameters}
    items = run_items(run(marker, steps), reasoning=reasoning)
    return {"model": "echo", "instructions": "You watch logs.", "input": items, "tools": [tool], **fields}


@pytest.mark.parametrize("reasoning", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_items_are_pruned_and_stay_valid(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, reasoning: bool, stream: bool
) -> None:
    proxy = start_proxy()
    body = responses_body(reasoning=reasoning, stream=stream, store=False, include=["reasoning.encrypted_content"])
    answer = http.post(f"{proxy.address}{PATH}", json=body)
    assert answer.status_code == 200
    sent = upstream.latest().json()
    assert {**sent, "input": None} == {**body, "input": None}
    check_items(sent["input"], body["input"])
    assert answer.headers["x-drsr-reason"] == "pruned"
    assert int(answer.headers["x-drsr-tokens-saved"]) > 0
    assert len(sent["input"]) < len(body["input"])
    assert eventually(lambda: proxy.count("used", "input") == 1)
    assert proxy.count("requests", "responses", "200") == 1


def test_the_real_client(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    client = openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0)
    body = responses_body("alpha")
    assert client.responses.create(**body).output_text == "alpha"
    with client.responses.create(**body, stream=True) as stream:
        assert "".join(event.delta for event in stream if event.type == "response.output_text.delta") == "alpha"
    assert all(len(request.json()["input"]) < len(body["input"]) for request in upstream.requests)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"previous_response_id": "resp_1"}, "history_upstream"),
        ({"conversation": "conv_1"}, "history_upstream"),
        ({"input": "hello"}, "unreadable_request"),
        ({"input": [*responses_body()["input"], {"type": "item_reference", "id": "x"}]}, "history_upstream"),
        ({"input": [{"type": ["item_reference"]}, 5]}, "unreadable_request"),
    ],
)
def test_what_cannot_be_told_goes_through_as_it_came(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, fields: dict[str, Any], reason: str
) -> None:
    content = json.dumps(responses_body(**fields), indent=3).encode()
    answer = http.post(f"{proxy.address}{PATH}", content=content)
    assert upstream.latest().body == content
    assert answer.headers["x-drsr-reason"] == reason


def test_in_a_session_what_was_removed_stays_removed(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(sessions=SessionSettings(Prices(1, 1, 1, 1)))
    whole = run_items(run("alpha", 12))
    gone: list[Any] = []
    for steps in range(6, 12):
        body = responses_body(input=whole[: 1 + 3 * steps])
        http.post(f"{proxy.address}{PATH}", json=body)
        sent = upstream.latest().json()["input"]
        check_items(sent, body["input"])
        assert not any(item in sent for item in gone)
        gone = [item for item in body["input"] if item not in sent]
    assert gone
    assert len(proxy.parts.decider.conversations or ()) == 1
