"""`drsr plan` in text and JSON: what it counts before and after freezing, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.offline.chat_files import chat, write_json
from tests.offline.commands.conftest import Drsr

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def ingested(drsr: Drsr, tmp_path: Path) -> Drsr:
    for seed, steps in enumerate((5, 8)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    drsr("ingest", "runs")
    return drsr


def test_a_plan_before_freezing_has_its_price(ingested: Drsr) -> None:
    shown = ingested("plan").out
    assert "freeze: 2 trajectories wait\n  2 trajectories: never frozen\n" in shown
    assert "label: 4 states of 2 trajectories, " in shown
    assert "  4 states: not frozen yet\n" in shown
    assert " minutes with " in shown
    assert "each context is computed on its own, because the backbone is not a language model" in shown
    before = ingested("plan", "--json").json
    assert before["freeze"] == {"trajectories": 2, "why": {"never frozen": 2}}
    ingested("freeze")
    after = ingested("plan", "--json").json
    assert after["freeze"] == {"trajectories": 0, "why": {}}
    assert after["label"]["tokens_naive"] == before["label"]["tokens_naive"]


def test_nothing_to_label_points_at_what_is_not_frozen(ingested: Drsr) -> None:
    early = ingested("label")
    assert early.out == "nothing to label: every frozen state is measured\n"
    assert early.err == "drsr: 2 trajectories are not frozen yet\n  hint: drsr freeze, then again\n"
    assert ingested("label", "--json").json == {"states": 0, "to_freeze": 2}
    ingested("freeze")
    assert ingested("label").err == ""
    assert ingested("label", "--json").json == {"states": 0}


@pytest.mark.parametrize("workers", ["0", "-2"])
def test_workers_are_counted_from_one(ingested: Drsr, workers: str) -> None:
    refused = ingested("plan", "--workers", workers)
    assert (refused.code, refused.out) == (2, "")
    assert f"--workers must be at least 1, not {workers}" in refused.err


def test_what_labelling_would_refuse_is_refused(ingested: Drsr, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested("freeze")
    ingested("label")
    monkeypatch.setenv("DRSR_DTYPE", "bfloat16")
    refused = ingested("plan", "--no-price")
    assert refused.code == 2
    assert refused.err == ingested("label").err
    assert "name a new labeler" in refused.err
    other = ingested("plan", "--no-price", "--labeler", "other")
    assert "  4 states: measured by another labeler\n" in other.out


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three simulated GPUs in a machine of many cores."""
    monkeypatch.setenv("DRSR_DEVICE", "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a simulated {device}")
    monkeypatch.setattr("os.cpu_count", lambda: 64)


@pytest.mark.usefixtures("three_gpus")
def test_a_plan_for_gpus_counts_gpus(ingested: Drsr) -> None:
    shown = ingested("plan", "--json").json
    assert shown["workers"] == 3
    assert shown["price"]["parallel"] == 3
    assert len(shown["price"]["rates"]) == 3
    crowded = ingested("plan", "--workers", "64").out
    assert " minutes with 64 workers, 3 of them at a time\n" in crowded
    assert " GPU-hours\n" in crowded
    pool = ingested("plan", "--devices", "8", "--json").json
    assert (pool["workers"], pool["price"]["parallel"]) == (8, 8)


@pytest.mark.usefixtures("three_gpus")
def test_money_is_for_every_gpu(ingested: Drsr) -> None:
    price = ingested("plan", "--price-per-hour", "1e6", "--json").json["price"]
    assert price["money"] == pytest.approx(1e6 * price["device_hours"])
    assert price["device_hours"] == pytest.approx(price["parallel"] * price["label_minutes"] / 60)
    assert ", " in ingested("plan", "--price-per-hour", "2.5").out.partition("GPU-hours")[2].splitlines()[0]


def test_the_cores_of_a_machine_are_paid_for_together(ingested: Drsr) -> None:
    price = ingested("plan", "--price-per-hour", "1e6", "--workers", "1", "--json").json["price"]
    assert price["money"] == pytest.approx(1e6 * price["label_minutes"] / 60)
    assert "core-hours, " in ingested("plan", "--price-per-hour", "2").out


@pytest.mark.parametrize("money", ["0", "-1", "nan", "inf"])
def test_a_price_is_above_nothing(ingested: Drsr, money: str) -> None:
    refused = ingested("plan", "--price-per-hour", money)
    assert (refused.code, refused.out) == (2, "")
    assert "--price-per-hour must be a number above 0" in refused.err
    assert "one of them" in ingested("plan", "--price-per-hour", "2", "--no-price").err


def test_which_past_runs_a_plan_goes_by_is_said(ingested: Drsr, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no earlier run of this labeler on such a device is recorded" in ingested("plan").out
    ingested("freeze")
    ingested("label", "--limit", "1")
    monkeypatch.setattr("drsr.offline.cost.PAST_SECONDS", 0.0)
    price = ingested("plan", "--json").json["price"]
    assert (price["past_runs"], price["past_workers"]) == (1, 1)
    assert price["past_ratio"] != 1.0
    assert "this labeler's earlier runs on such a device (1 with 1 at work) took " in ingested("plan").out
