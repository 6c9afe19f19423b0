"""`drsr plan` in text and JSON: what it counts before and after freezing, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

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
