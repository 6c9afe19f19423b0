"""What receipts add up to: only what was sent and taken, only what could be, money only where it is known."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.decide.decision import Reason
from drsr.policy.scripted import scripted_policy
from drsr.proxy.activity import Activity
from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.exchange import Exchange
from drsr.proxy.reasons import ProxyReason
from drsr.receipts.receipt import explain
from drsr.receipts.receipt_file import ReceiptFile, append_line, read_receipts
from drsr.receipts.totals import INELIGIBLE, add_up, listed, told
from tests.features.states import run_messages

RUN = run_messages(24, words=240)
CALLS = [RUN[:end] for end, message in enumerate(RUN) if message["role"] == "assistant"]


@pytest.fixture(scope="module")
def receipts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a known model, and the same with an unknown one."""
    path = tmp_path_factory.mktemp("receipts") / "receipts.jsonl"
    policy = scripted_policy(receipts=ReceiptFile(path))
    for model in ("gpt-4o", "my-own"):
        for messages in CALLS:
            policy.prune(messages, model=model)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["receipts", *arguments]) == 0
    return capsys.readouterr().out


def test_totals_in_tokens_and_money(receipts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = json.loads(run(capsys, "--receipts", str(receipts), "--json"))["all"]
    records = list(read_receipts(receipts))
    assert total["decisions"] == 2 * len(CALLS) == len(records)
    assert total["pruned"] == sum(record["pruned"] for record in records) > 0
    assert total["pruned"] <= total["eligible"] < total["decisions"]
    assert total["tokens_saved"] == sum(record["tokens"]["saved"] for record in records) > 0
    assert total["priced"] == len(CALLS)
    assert 0 < total["money_paid"] < total["money_without"]
    said = run(capsys, "--receipts", str(receipts))
    assert f"money is of {len(CALLS)} of {2 * len(CALLS)} decisions" in said
    assert f"{total['tokens_saved']:,}" in said


def test_groups(receipts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_model = json.loads(run(capsys, "--receipts", str(receipts), "--by", "model", "--json"))
    assert list(by_model) == ["gpt-4o", "my-own"]
    assert (by_model["gpt-4o"]["priced"], by_model["my-own"]["priced"]) == (len(CALLS), 0)
    by_reason = json.loads(run(capsys, "--receipts", str(receipts), "--by", "reason", "--json"))
    assert {"pruned", "too_few_candidates"} <= set(by_reason)
    assert by_reason["too_few_candidates"]["eligible"] == 0
    (row,) = csv.DictReader(io.StringIO(run(capsys, "--receipts", str(receipts), "--by", "day", "--csv")))
    assert row["group"] == next(read_receipts(receipts))["time"][:10]
    assert int(row["decisions"]) == 2 * len(CALLS)


def test_the_latest(receipts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "--receipts", str(receipts), "--last", "3").splitlines()
    ids = [record["id"] for record in read_receipts(receipts)]
    assert [line.split()[0] for line in said[2:]] == ids[-3:]
    assert json.loads(run(capsys, "--receipts", str(receipts), "--last", "1", "--by", "day", "--json"))
    assert main(["receipts", "--receipts", str(receipts), "--last", "0"]) == 2


def one(receipts: Path) -> dict[str, Any]:
    return next(record for record in read_receipts(receipts) if record["pruned"] and record["model"] == "gpt-4o")


def test_what_the_upstream_refused_saved_nothing(receipts: Path) -> None:
    record = one(receipts)
    refused = {**record, "success": False, "usage": None, "proxy": {"applied": True, "reason": "pruned"}}
    shadow = {**record, "success": True, "proxy": {"applied": False, "reason": "shadow"}}
    totals = add_up([refused, shadow], "reason")
    assert (totals["pruned"].failed, totals["pruned"].tokens_without, totals["pruned"].priced) == (1, 0, 0)
    assert totals["shadow"].tokens_sent == totals["shadow"].tokens_without == record["tokens"]["before"]
    assert totals["shadow"].money_paid == totals["shadow"].money_without


def test_the_upstreams_own_counts_come_first(receipts: Path) -> None:
    usage = {"input": 1_000_000, "cached": 0, "cache_creation": 0, "output": 1_000_000}
    record = {**one(receipts), "usage": usage, "success": True}
    total = add_up([record])["all"]
    assert total.money_paid == pytest.approx(2.5 + 10)
    cost = record["session"]["cost"]
    assert total.money_without == pytest.approx(2.5 + 10 + cost["unpruned"] - cost["sent"])


def test_why_nothing_more_went_is_no_contradiction(receipts: Path) -> None:
    policy = scripted_policy()
    decisions = [policy.prune(messages, model="gpt-4o") for messages in CALLS]
    kept = next(decision for decision in decisions if decision.pruned and decision.reason is not None)
    assert kept.nothing_more is kept.reason
    assert (kept.receipt["reason"], kept.receipt["nothing_more"]) == (None, kept.reason)
    assert f"nothing more: {kept.reason}" in kept.explain()
    alone = next(decision for decision in decisions if not decision.pruned)
    assert (alone.nothing_more, alone.receipt["nothing_more"]) == (None, None)
    old = {name: value for name, value in kept.receipt.items() if name != "nothing_more"}
    assert f"nothing more: {kept.reason}" in explain({**old, "reason": str(kept.reason)})


def test_what_could_not_have_been_pruned_is_the_same_for_the_proxys_page(receipts: Path) -> None:
    for reason in (*Reason, *ProxyReason):
        exchange = Exchange(Endpoint.CHAT_COMPLETIONS, "POST", "/", reason=reason)
        activity = Activity()
        activity.record(exchange)
        ours = {"applied": False, "reason": str(reason)}
        of_policy = reason if isinstance(reason, Reason) else None
        record = {**one(receipts), "pruned": of_policy is None, "reason": of_policy, "proxy": ours}
        assert add_up([record])["all"].eligible == activity.to_json()["eligible"], reason


def test_reasons_are_known_and_nothing_is_a_table_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {str(reason) for reason in (*Reason, *ProxyReason)} >= INELIGIBLE
    assert told({}, None) == "no receipts"
    assert "decision" in listed([])
    assert main(["receipts", "--receipts", str(tmp_path / "none.jsonl")]) == 2
    append_line(tmp_path / "bad.jsonl", b"{}")
    assert main(["receipts", "--receipts", str(tmp_path / "bad.jsonl")]) == 2
    assert "not a receipt" in capsys.readouterr().err
