"""Money: what was paid and what would have been, counted only where the upstream answered with success."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from drsr.proxy.bill import bill
from drsr.proxy.http.usage import Usage
from drsr.proxy.settings import SessionSettings
from drsr.receipts.receipt_file import read_receipts
from drsr.receipts.totals import add_up
from drsr.sessions.price_table import PriceTable
from drsr.sessions.prices import Prices
from tests.agent_runs import openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

PRICES = Prices(3, 0.3, 3.75, 15)


def test_by_the_upstreams_counts() -> None:
    paid, without = bill(PRICES, Usage(1_000, 0, 0, 100), 500, None)
    assert paid == pytest.approx((3_000 + 1_500) / 1e6)
    assert without - paid == pytest.approx(500 * 3 / 1e6)
    paid, without = bill(PRICES, Usage(0, 10_000, 400, 100), 500, None)
    assert paid == pytest.approx((3_000 + 1_500 + 1_500) / 1e6)
    assert without - paid == pytest.approx(500 * 0.3 / 1e6)  # they would have been read from the cache
    paid, without = bill(PRICES, Usage(0, 0, 400, 0), 500, {"cost": {"sent": 0.005, "unpruned": 0.004}})
    assert without < paid  # the cache was written again for it


@pytest.mark.parametrize("status", [429, 500])
def test_what_fails_saves_nothing(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path, status: int
) -> None:
    proxy = start_proxy(sessions=SessionSettings(PRICES, 40), receipts=tmp_path / "receipts.jsonl")
    answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body(model=f"status-{status}"))
    assert (answer.status_code, answer.headers["x-drsr-reason"]) == (status, "pruned")
    assert answer.headers["x-drsr-tokens-saved"] == "0"
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    assert proxy.count("saved") == proxy.count("tokens") == 0
    assert proxy.app.activity.to_json()["money"] == {}
    (receipt,) = read_receipts(tmp_path / "receipts.jsonl")
    assert (receipt["success"], receipt["usage"], receipt["proxy"]["status"]) == (False, None, status)


def test_an_upstream_that_is_not_there_saves_nothing(start_proxy: StartProxy, http: httpx.Client) -> None:
    proxy = start_proxy(upstream="http://127.0.0.1:1")
    answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body())
    assert (answer.status_code, answer.headers["x-drsr-tokens-saved"]) == (502, "0")
    assert proxy.count("saved") == 0


@pytest.mark.parametrize("stream", [False, True])
def test_money_and_tokens_reach_metrics_page_and_receipt(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path, stream: bool
) -> None:
    proxy = start_proxy(sessions=SessionSettings(Prices(3, 3, 3, 15)), receipts=tmp_path / "receipts.jsonl")
    body = openai_body(stream=stream, stream_options={"include_usage": True}) if stream else openai_body()
    http.post(f"{proxy.address}/v1/chat/completions", json=body)
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    state = http.get(f"{proxy.address}/drsr/state.json").json()
    assert state["usage"] == {"input": 1, "cached": 0, "cache_creation": 0, "output": 1}
    assert state["money"]["paid"] == pytest.approx(18 / 1e6)
    assert state["money"]["without_pruning"] > state["money"]["paid"]
    assert (state["eligible"], state["unpriced"]) == (1, 0)
    metrics = http.get(f"{proxy.address}/metrics").text
    assert 'drsr_usage_tokens_total{kind="input"} 1.0' in metrics
    assert 'drsr_money_total{kind="paid"} 1.8e-05' in metrics
    (receipt,) = read_receipts(tmp_path / "receipts.jsonl")
    assert receipt["usage"] == {"input": 1, "cached": 0, "cache_creation": 0, "output": 1}
    assert receipt["success"] is True


def test_page_and_receipts_agree_without_sessions(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path
) -> None:
    path = tmp_path / "receipts.jsonl"
    proxy = start_proxy(prices=PriceTable.parse("3,3,3,15"), receipts=path)
    http.post(f"{proxy.address}/v1/chat/completions", json=openai_body())
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    state = proxy.app.activity.to_json()
    total = add_up(read_receipts(path))["all"]
    assert (total.eligible, total.pruned, total.priced) == (state["eligible"], 1, 1)
    assert {"paid": total.money_paid, "without_pruning": total.money_without} == pytest.approx(state["money"])
    assert state["money"]["without_pruning"] > state["money"]["paid"] == pytest.approx(18 / 1e6)


def test_a_model_without_prices_is_said_and_counts_in_tokens_alone(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy()
    http.post(f"{proxy.address}/v1/chat/completions", json=openai_body())
    assert eventually(lambda: proxy.count("unpriced") == 1)
    assert proxy.count("saved") > 0
    assert proxy.app.activity.to_json()["money"] == {}
