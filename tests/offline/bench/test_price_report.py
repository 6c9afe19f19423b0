"""The price report: its arithmetic by hand, all three modes on recorded runs, and the command that shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drsr.cli import main
from drsr.decide.invariants import Held
from drsr.offline import samples
from drsr.offline.bench.price_report import (
    MODES,
    NO_PRUNING,
    PER_REQUEST,
    SESSION,
    Bill,
    PrefixCache,
    RunBill,
    price_run,
    price_runs,
    totals,
)
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import render, render_output
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.features.states import run_messages

PRICES = Prices(3, 0.3, 3.75, 15)


def run_of(steps: int, **fields: Any) -> Trajectory:
    return Trajectory("a run", "openai", {"messages": run_messages(steps, words=60), **fields}, "test/1")


def test_a_cache_knows_every_prefix_it_has_seen() -> None:
    cache = PrefixCache()
    rows = [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 9], [1, 2, 3, 4, 5, 6], [7], [1, 2, 9, 9]]
    assert [cache.read(np.array(row, dtype=np.int32)) for row in rows] == [0, 3, 2, 5, 0, 3]


def test_without_pruning_every_call_reads_the_one_before_from_the_cache() -> None:
    """Recomputed from scratch, call by call."""
    run = run_of(9)
    policy = scripted_policy()
    bill = price_run(run, policy, PRICES, 30).bills[NO_PRUNING]
    tokenizer = policy.frozen.representation.tokenizer
    messages = run.request["messages"]
    cost, before = 0.0, 0
    for index in range(2, len(messages), 2):
        tokens = len(render(read_request({"messages": messages[:index]}), tokenizer))
        output = len(render_output(read_request(messages).messages[index], tokenizer))
        cost += (before * 0.3 + (tokens - before) * 3.75 + output * 15) / 1e6
        before = tokens
    assert bill.calls == 9
    assert bill.pruned == 0
    assert bill.cost == pytest.approx(cost, rel=1e-12)


def test_the_three_modes_of_a_run() -> None:
    bills = price_run(run_of(30), scripted_policy(), PRICES, 60).bills
    assert list(bills) == list(MODES)
    assert {bill.calls for bill in bills.values()} == {30}
    assert {bill.output_tokens for bill in bills.values()} == {bills[NO_PRUNING].output_tokens}
    assert max(bills[PER_REQUEST].input_tokens, bills[SESSION].input_tokens) < bills[NO_PRUNING].input_tokens
    assert bills[PER_REQUEST].cached_tokens < bills[SESSION].cached_tokens
    assert bills[SESSION].cost < bills[PER_REQUEST].cost, "request by request breaks the cache every time"


def test_a_policy_that_abstains_costs_what_no_pruning_costs() -> None:
    bills = price_run(run_of(9), scripted_policy(risk_threshold=None), PRICES, 30).bills
    assert bills[NO_PRUNING] == bills[PER_REQUEST] == bills[SESSION]


def test_a_fault_of_ours_is_not_taken_for_an_abstention(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("drsr.policy.policy.decide", fail)
    with pytest.raises(ZeroDivisionError):
        price_run(run_of(9), scripted_policy(), PRICES, 30)
    monkeypatch.undo()
    monkeypatch.setattr("drsr.decide.decision.check_all", lambda evidence: (Held("planted", "wrong"),))
    with pytest.raises(AssertionError, match="planted: wrong"):
        price_run(run_of(9), scripted_policy(), PRICES, 30)


def test_totals_and_runs_that_cannot_be_reckoned() -> None:
    bad = Trajectory("bad", "openai", {"messages": [{"role": "wizard"}]}, "test/1")
    found = list(price_runs([run_of(8), bad, run_of(8)], scripted_policy(), PRICES, 30))
    assert [type(item) for item in found] == [type(found[0]), Quarantined, type(found[0])]
    bills = [item for item in found if not isinstance(item, Quarantined)]
    total = totals(bills)
    for mode in MODES:
        assert total[mode] == bills[0].bills[mode] + bills[1].bills[mode]
    assert Bill() + total[SESSION] == total[SESSION]


def test_the_sample_corpus_can_be_read() -> None:
    runs = [item for item in read_runs(str(samples.CORPUS)) if isinstance(item, Trajectory)]
    assert len(runs) > 10


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scripted_policy().save("policy")
    command = ["prune", "--policy", "policy", "--price-report", str(samples.CORPUS), "--limit", "3"]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("3 runs, policy scripted.0 with scripted; prices 3,0.3,3.75,15")
    assert all(f"\n  {mode}" in captured.out for mode in MODES)
    assert main([*command, "--json", "--prices", "2.5,1.25,2.5,10", "--expected-calls", "9"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert len(seen["runs"]) == 3
    assert seen["prices"]["cached_input"] == 1.25
    assert seen["total"][NO_PRUNING]["calls"] == sum(run[NO_PRUNING]["calls"] for run in seen["runs"])


def test_an_interrupted_report_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted_policy().save("policy")
    command = ["prune", "--policy", "policy", "--price-report", str(samples.CORPUS), "--limit", "3", "--json"]
    assert main(command) == 0
    whole = capsys.readouterr().out
    resumed = [*command, "--resume", "bills.jsonl"]
    reckoned: list[str] = []

    def counting(run: Trajectory, *given: Any) -> RunBill:
        if len(reckoned) == 2:
            reckoned.append("interrupted")
            raise KeyboardInterrupt
        reckoned.append(run.external_id)
        return price_run(run, *given)

    monkeypatch.setattr("drsr.offline.bench.price_report.price_run", counting)
    assert main(resumed) == 130
    assert "2 runs are kept in bills.jsonl; run the same command to go on" in capsys.readouterr().err
    with (tmp_path / "bills.jsonl").open("a") as file:
        file.write('["cut off in the mid')
    assert main(resumed) == 0
    assert capsys.readouterr().out == whole
    assert len(reckoned) == 4  # two, the interruption, and the one that was missing
    (tmp_path / "bills.jsonl").write_text("something else\n")
    assert main(resumed) == 2
    assert "bills.jsonl:1" in capsys.readouterr().err


def test_what_the_command_refuses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted_policy().save("policy")
    (tmp_path / "nothing.json").write_text("{}")
    for more, complaint in (
        (["--price-report", "nowhere"], "nowhere"),
        (["--price-report", "nothing.json"], "holds no run"),
        (["--price-report", str(samples.CORPUS), "--prices", "1,2"], "four numbers"),
        (["--price-report", str(samples.CORPUS), "--expected-calls", "0"], "whole number from 1 on"),
        (["--price-report", str(samples.CORPUS), str(samples.REQUEST)], "takes no request"),
    ):
        assert main(["prune", "--policy", "policy", *more]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert complaint in captured.err
