"""Recalls through the proxy: answered behind the client's back, paid for in the bill, and never in a stream."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from drsr.adapters.recall_rounds import ROUNDS
from drsr.proxy.activity import values
from drsr.proxy.pruning import PARSED_AT_ONCE
from drsr.proxy.settings import SessionSettings
from drsr.receipts.recall import RECALL
from drsr.receipts.receipt_file import read_receipts
from drsr.receipts.totals import add_up
from drsr.sessions.prices import Prices
from tests.adapters.items import run_items
from tests.adapters.long_run import RUN, TOOLS
from tests.adapters.recalling_model import EACH, FINAL, ITS_TOOLS, RecallingModel
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually, running_app
from tests.proxy.test_page import dom
from tests.real_browser import Browser

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
BODIES: dict[str, Any] = {
    "chat": {"model": "gpt-4o", "messages": RUN.to_openai()["messages"], "tools": TOOLS},
    "messages": {"model": "claude", "max_tokens": 9, **RUN.to_anthropic(), "tools": ITS_TOOLS["messages"]},
    "responses": {"model": "gpt-4o", "input": run_items(RUN), "tools": ITS_TOOLS["responses"]},
}


class Served:
    """The double of a recalling model behind HTTP."""

    def __init__(self) -> None:
        self.model = RecallingModel("chat")
        self.fail: set[int] = set()
        """Numbers of requests that are answered with an error."""
        self.reply: Callable[[Any, Request], Response] | None = None
        """What to make of an answer where it is not simply sent."""
        self.came: list[tuple[bytes, str]] = []
        """Each request, and the encodings that it takes."""
        routes = [Route("/{path:path}", self._answer, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        self.came.append((body, request.headers.get("accept-encoding", "")))
        answer = self.model.answer(json.loads(body))
        if self.reply is not None:
            return self.reply(answer, request)
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
    proxy = start_proxy(upstream=served_at, recall=True, sessions=SessionSettings(Prices(3, 1, 3, 15)))
    http.post(proxy.address + PATHS["chat"], json=BODIES["chat"])
    assert eventually(lambda: proxy.count("recalled") == 2)
    page = dom(browser, proxy)
    (latest,) = page.tables["recent"][1:]
    assert "the tool for recalls is in both" in page.texts["money-note"]
    assert (latest[3], latest[5]) == ("pruned, recalled", "0")


CHAT_BODY = json.dumps(BODIES["chat"])
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("odd", ['{"content": "hi \\ud83d"', '{"weight": 1e400, "content": "hi"'])
def test_a_request_that_cannot_be_written_again_goes_as_it_came(
    odd: str, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    """Half an emoji, or a number that is too large for a float."""
    proxy = start_proxy(upstream=served_at, recall=True)
    came = f'{{"model": "m", "tools": {json.dumps(TOOLS)}, "messages": [{odd}, "role": "user"}}]}}'.encode()
    long = came + b" " * PARSED_AT_ONCE  # written by another thread
    for content in (came, long):
        assert http.post(proxy.address + PATHS["chat"], content=content, headers=JSON).status_code == 200
    assert [body for body, _ in served.came] == [came, long]
    late = start_proxy(upstream=served_at, recall=True, deadline=1e-6)  # before the policy could say that it is odd
    for content in (came, long):
        answer = http.post(late.address + PATHS["chat"], content=content, headers=JSON)
        assert (answer.status_code, answer.headers["x-drsr-reason"]) == (200, "deadline_exceeded")
    assert [body for body, _ in served.came] == [came, long] * 2


def test_a_long_request_is_given_the_tool_too(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    content = CHAT_BODY.encode() + b" " * PARSED_AT_ONCE
    assert FINAL in http.post(proxy.address + PATHS["chat"], content=content, headers=JSON).text
    assert len(served.came) == 3


@pytest.mark.parametrize(("plain", "odd"), [(FINAL, f"{FINAL}\\ud83d"), ('"created": 1', '"created": NaN')])
def test_a_last_answer_that_cannot_be_written_again_is_handed_on_and_paid(
    plain: str, odd: str, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    prices = Prices(3, 1, 3, 15)
    proxy = start_proxy(upstream=served_at, recall=True, sessions=SessionSettings(prices))
    served.reply = lambda answer, _: Response(json.dumps(answer).replace(plain, odd), media_type="application/json")
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert (answer.status_code, len(served.came)) == (200, 3)
    assert odd in answer.text
    assert RECALL not in answer.text
    each = (EACH / 2 * 3 + EACH / 2 * 1 + 15) / 1e6
    assert eventually(lambda: len(values(proxy.app.activity.money)) == 2)
    money = {kind: values(proxy.app.activity.money)[(kind,)] for kind in ("paid", "without_pruning")}
    assert money == pytest.approx({"paid": 3 * each, "without_pruning": each})


def test_a_recall_that_cannot_be_repeated_leads_to_the_request_as_it_came(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    def half_an_emoji(answer: Any, _: Request) -> Response:
        return Response(
            json.dumps(answer).replace('"content": null', '"content": "\\ud83d"'), media_type=JSON["content-type"]
        )

    proxy = start_proxy(upstream=served_at, recall=True)
    served.reply = half_an_emoji
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert (answer.status_code, len(served.came)) == (200, 2)
    assert served.came[-1][0] == CHAT_BODY.encode()
    assert FINAL in answer.text


ODD_ANSWERS: tuple[Any, ...] = (
    {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
    {"error": {"message": "rate limited", "code": 429}},
    "an answer that is not even an object",
)


@pytest.mark.parametrize("odd", ODD_ANSWERS)
def test_an_answer_that_is_not_understood_is_the_clients(
    odd: Any, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    served.reply = lambda *_: JSONResponse(odd)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert (answer.json(), len(served.came)) == (odd, 1)
    assert answer.headers["x-drsr-reason"] == "pruned"


def test_an_answer_that_is_not_understood_but_recalls_is_not_the_clients(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    def odd(answer: Any, _: Request) -> Response:
        if RECALL in json.dumps(answer):
            answer["choices"][0]["message"]["tool_calls"][0].pop("id")
        return JSONResponse(answer)

    served.reply = odd
    proxy = start_proxy(upstream=served_at, recall=True)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert FINAL in answer.text
    assert served.came[-1][0] == CHAT_BODY.encode()
    assert answer.json()["usage"]["prompt_tokens"] == 2 * EACH
    assert eventually(lambda: proxy.count("recalled") == 1)


@pytest.mark.parametrize("status", [400, 422])
def test_a_tool_that_the_upstream_does_not_take_is_left_out(
    status: int, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client, tmp_path: Path
) -> None:
    def refuse(answer: Any, _: Request) -> Response:
        return (
            JSONResponse({"error": "too many tools"}, status) if RECALL in json.dumps(answer) else JSONResponse(answer)
        )

    served.reply = refuse
    receipts = tmp_path / "receipts.jsonl"
    proxy = start_proxy(upstream=served_at, recall=True, receipts=receipts)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert (answer.status_code, len(served.came)) == (200, 2)
    assert FINAL in answer.text
    assert served.came[-1][0] == CHAT_BODY.encode()
    said = answer.headers["x-drsr-reason"], answer.headers["x-drsr-tokens-saved"]
    assert said == ("recall_failed", "0")
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    total = add_up(read_receipts(receipts))["all"]
    assert (total.pruned, total.failed, total.tokens_without - total.tokens_sent) == (0, 0, 0)
    assert total.tokens_sent > 0


def test_no_tool_is_offered_where_the_request_has_none(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    without: tuple[dict[str, Any], ...] = ({}, {"tools": []}, {"tools": None})
    for tools in without:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **tools}
        assert http.post(proxy.address + PATHS["chat"], json=body).status_code == 200
        assert served.model.bodies[-1] == body
    assert len(served.came) == 3


@pytest.mark.parametrize("name", ["Idempotency-Key", "x-idempotency-key"])
def test_no_tool_is_offered_with_an_idempotency_key(
    name: str, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    """The provider would answer every round with the first answer."""
    kept: dict[str | None, Any] = {}

    def once(answer: Any, request: Request) -> Response:
        return JSONResponse(kept.setdefault(request.headers.get(name), answer))

    served.reply = once
    proxy = start_proxy(upstream=served_at, recall=True)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers={**JSON, name: "x"})
    assert FINAL in answer.text
    assert [body["tools"] for body in served.model.bodies] == [TOOLS]


@pytest.mark.parametrize("encoding", ["gzip", "x-unknown"])
def test_a_compressed_answer_leaks_no_call(
    encoding: str, start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    """The proxy asks for plain answers; not everything between it and the model keeps to that."""

    def packed(answer: Any, _: Request) -> Response:
        said = gzip.compress(json.dumps(answer).encode())
        return Response(said, headers={**JSON, "content-encoding": encoding})

    served.reply = packed
    proxy = start_proxy(upstream=served_at, recall=True)
    with http.stream("POST", proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON) as answer:
        raw = b"".join(answer.iter_raw())
    if encoding == "gzip":  # understood: the client's answer says the usage of all, and is not packed any more
        assert len(served.came) == 3
        assert json.loads(raw)["usage"]["prompt_tokens"] == 3 * EACH
        assert "content-encoding" not in answer.headers
    else:
        assert [body == CHAT_BODY.encode() for body, _ in served.came] == [False, True]
        assert FINAL.encode() in gzip.decompress(raw)


def test_the_kill_switch_holds_for_a_decision_that_is_being_made(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    decide = proxy.parts.decider.decide

    async def thrown_meanwhile(*asked: Any) -> Any:
        decided = await decide(*asked)
        proxy.kill_file.touch()
        return decided

    monkeypatch.setattr(proxy.parts.decider, "decide", thrown_meanwhile)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert answer.headers["x-drsr-reason"] == "kill_switch"
    assert [body for body, _ in served.came] == [CHAT_BODY.encode()]


def test_what_the_policy_cannot_read_goes_as_it_came(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=served_at, recall=True)
    came = json.dumps({"messages": [{"role": "nobody", "content": "hi"}], "tools": TOOLS}, indent=1).encode()
    answer = http.post(proxy.address + PATHS["chat"], content=came, headers=JSON)
    assert (answer.status_code, answer.headers["x-drsr-reason"]) == (200, "unreadable_request")
    assert [body for body, _ in served.came] == [came]


def test_recalls_before_an_error_are_paid(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client, tmp_path: Path
) -> None:
    prices, receipts = Prices(3, 1, 3, 15), tmp_path / "receipts.jsonl"
    proxy = start_proxy(upstream=served_at, recall=True, receipts=receipts, sessions=SessionSettings(prices))
    served.fail = {3, 4}
    assert http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON).status_code == 500
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    assert eventually(lambda: len(values(proxy.app.activity.money)) == 2)
    paid = 2 * (EACH / 2 * 3 + EACH / 2 * 1 + 15) / 1e6
    money = {kind: values(proxy.app.activity.money)[(kind,)] for kind in ("paid", "without_pruning")}
    assert money == pytest.approx({"paid": paid, "without_pruning": 0})
    total = add_up(read_receipts(receipts))["all"]
    assert total.failed == 1
    assert (total.money_paid, total.money_without) == pytest.approx((paid, 0))
    assert f"{total.row[-2]:.9f}" == f"{paid:.9f}"


def test_a_cost_that_nobody_said_is_not_made_up(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    def silent(answer: Any, _: Request) -> Response:
        if RECALL in json.dumps(answer):
            del answer["usage"]
        return JSONResponse(answer)

    served.reply = silent
    proxy = start_proxy(upstream=served_at, recall=True, sessions=SessionSettings(Prices(3, 1, 3, 15)))
    assert FINAL in http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON).text
    assert eventually(lambda: proxy.count("recalled") == 2)
    assert eventually(lambda: proxy.count("unpriced") == 1)
    assert not values(proxy.app.activity.money)


def test_two_recalls_in_one_answer_are_both_answered(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    def twice(answer: Any, _: Request) -> Response:
        calls = answer["choices"][0]["message"].get("tool_calls", [])
        calls += [{**call, "id": "r-second"} for call in calls]
        return JSONResponse(answer)

    served.reply = twice
    proxy = start_proxy(upstream=served_at, recall=True)
    assert FINAL in http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON).text
    answered = served.model.bodies[1]["messages"][-2:]
    assert [message["role"] for message in answered] == ["tool", "tool"]
    assert answered[0]["content"] == answered[1]["content"]
    assert answered[1]["tool_call_id"] == "r-second"


def test_a_request_sent_as_it_came_in_the_end_is_not_called_pruned(
    start_proxy: StartProxy, served: Served, served_at: str, http: httpx.Client
) -> None:
    served.model.endless = True
    proxy = start_proxy(upstream=served_at, recall=True)
    answer = http.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert answer.headers["x-drsr-reason"] == "recall_failed"
    assert answer.headers["x-drsr-tokens-saved"] == "0"


def test_a_client_that_hangs_up_while_the_model_recalls_has_paid_for_it(
    start_proxy: StartProxy, served: Served, served_at: str
) -> None:
    def slow_then(answer: Any, _: Request) -> Response:
        return StreamingResponse(_never(), headers=JSON) if len(served.came) == 2 else JSONResponse(answer)

    served.reply = slow_then
    proxy = start_proxy(upstream=served_at, recall=True, sessions=SessionSettings(Prices(3, 1, 3, 15)))
    with (
        httpx.Client(timeout=httpx.Timeout(30, read=2), trust_env=False) as impatient,
        pytest.raises(httpx.ReadTimeout),
    ):
        impatient.post(proxy.address + PATHS["chat"], content=CHAT_BODY, headers=JSON)
    assert eventually(lambda: len(values(proxy.app.activity.money)) == 2)
    assert values(proxy.app.activity.money)[("paid",)] == pytest.approx((EACH / 2 * 3 + EACH / 2 * 1 + 15) / 1e6)
    assert proxy.count("gone") == 1


async def _never() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.sleep(3600)
