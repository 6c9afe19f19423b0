"""Recalls through the proxy: answered behind the client's back, paid for in the bill, and never in a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from drsr.adapters.recall_rounds import ROUNDS
from drsr.proxy.activity import values
from drsr.proxy.settings import SessionSettings
from drsr.receipts.recall import RECALL
from drsr.receipts.receipt_file import read_receipts
from drsr.receipts.totals import add_up
from drsr.sessions.prices import Prices
from tests.adapters.items import run_items
from tests.adapters.long_run import RUN, TOOLS
from tests.adapters.recalling_model import EACH, FINAL, RecallingModel
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually, running_app
from tests.proxy.test_page import dom
from tests.real_browser import Browser

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
BODIES: dict[str, Any] = {
    "chat": {"model": "gpt-4o", "messages": RUN.to_openai()["messages"], "tools": TOOLS},
    "messages": {"model": "claude", "max_tokens": 9, **RUN.to_anthropic()},
    "responses": {"model": "gpt-4o", "input": run_items(RUN)},
}


class Served:
    """The double of a recalling model behind HTTP."""

    def __init__(self) -> None:
        self.model = RecallingModel("chat")
        self.fail: set[int] = set()
        """Numbers of requests that are answered with an error."""
        self.came: list[tuple[bytes, str]] = []
        """Each request, and the encodings that it takes."""
        routes = [Route("/{path:path}", self._answer, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        self.came.append((body, request.headers.get("accept-encoding", "")))
        answer = self.model.answer(json.loads(body))
        return JSONResponse(answer, 500 if len(self.came) in self.fail else 200, headers={"x-request-id": "r1"})


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def served_at(served: Served) -> Iterator[str]:
    with running_app(served.app) as address:
        yield address


@pytest.mark.parametrize("protocol", tuple(PATHS))
def test_the_client_sees_the_last_answer_and_the_bill_all_of_them(
    protocol: str, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client, tmp_path: Path
) -> None:
    served.model = RecallingModel(protocol)
    prices, receipts = Prices(3, 1, 3, 15), tmp_path / "receipts.jsonl"
    proxy = start_proxy(upstream=served_at, recall=True, receipts=receipts, sessions=SessionSettings(prices))
    answer = http.post(proxy.address + PATHS[protocol], json=BODIES[protocol], headers={"accept-encoding": "gzip"})
    assert (answer.status_code, answer.headers["x-drsr-reason"], answer.headers["x-drsr-tokens-saved"]) == (
        *(200, "pruned"),
        "0",
    )
    assert FINAL in answer.text
    assert RECALL not in answer.text
    assert answer.headers["x-request-id"] == "r1"
    listed, part = served.model.results
    assert listed.startswith("Removed, by id:")
    assert len(part) > 20
    assert {encoding for _, encoding in served.came} == {"identity"}

    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    (receipt,) = read_receipts(receipts)
    cached = 0 if protocol == "messages" else EACH // 2
    one = {"input": EACH - cached, "cached": cached, "cache_creation": 0, "output": 1}
    assert receipt["usage"] == {kind: 3 * tokens for kind, tokens in one.items()}
    assert (receipt["recalled"]["calls"], len(receipt["recalled"]["blocks"])) == (2, 1)
    assert receipt["recalled"]["usage"] == {kind: 2 * tokens for kind, tokens in one.items()}
    each = ((EACH - cached) * 3 + cached * 1 + 15) / 1e6
    assert eventually(lambda: bool(values(proxy.app.activity.money)))
    money = {kind: values(proxy.app.activity.money)[(kind,)] for kind in ("paid", "without_pruning")}
    assert money == pytest.approx({"paid": 3 * each, "without_pruning": each})
    total = add_up([receipt])["all"]
    assert (total.money_paid, total.money_without) == pytest.approx((3 * each, each))
    assert total.tokens_sent == total.tokens_without > 0
    assert proxy.count("recalled") == 2
    assert proxy.count("saved") == 0


def test_the_very_bytes_that_came_are_sent_where_it_leads_nowhere(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    came = json.dumps(BODIES["chat"], indent=1).encode()
    url, headers = proxy.address + PATHS["chat"], {"content-type": "application/json"}
    served.model.endless = True
    assert FINAL in http.post(url, content=came, headers=headers).text
    assert len(served.came) == ROUNDS + 2
    assert served.came[-1][0] == came

    served.came.clear()
    served.fail = {2}
    assert FINAL in http.post(url, content=came, headers=headers).text
    assert [body == came for body, _ in served.came] == [False, False, True]

    served.came.clear()
    served.fail = {1}
    assert http.post(url, content=came, headers=headers).status_code == 500
    assert len(served.came) == 1
    served.came.clear()
    served.fail = {2, 3}
    assert http.post(url, content=came, headers=headers).status_code == 500


def test_only_what_can_be_answered_is_offered(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    url = proxy.address + PATHS["chat"]
    short = {**BODIES["chat"], "messages": BODIES["chat"]["messages"][:2]}
    assert FINAL in http.post(url, json=short).text  # the tool is there all the same: tools come before all else
    assert served.model.results == ["Nothing was removed."]
    served.model.bodies.clear()
    for body, headers in (
        ({**BODIES["chat"], "stream": True}, {}),
        ({**BODIES["chat"], "n": 2}, {}),
        (BODIES["chat"], {"x-drsr-bypass": "1"}),
        (BODIES["chat"], {"x-drsr-mode": "shadow"}),
    ):
        assert http.post(url, json=body, headers=headers).status_code == 200
    assert all(sent["tools"] == TOOLS for sent in served.model.bodies)
    assert len(served.model.bodies) == 4
    proxy.kill_file.touch()
    assert http.post(url, json=BODIES["chat"]).status_code == 200
    assert served.model.bodies[-1] == BODIES["chat"]


def test_without_being_asked_for_no_tool_is_sent(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at)
    http.post(proxy.address + PATHS["chat"], json=BODIES["chat"])
    assert [body["tools"] for body in served.model.bodies] == [TOOLS]


def test_the_page_says_why_such_a_request_saved_nothing(
    browser: Browser, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    http.post(proxy.address + PATHS["chat"], json=BODIES["chat"])
    assert eventually(lambda: proxy.count("recalled") == 2)
    (latest,) = dom(browser, proxy).tables["recent"][1:]
    assert (latest[3], latest[5]) == ("pruned, recalled", "0")
