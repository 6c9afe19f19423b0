"""Sentences, tables and links of a refresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drsr.flows.one_machine import text
from drsr.flows.summaries import left_out, links, policy_rows, said, stage_rows
from drsr.offline.train.metrics import HALF, Metric

INGEST = {"files": 3, "unchanged_files": 1, "added": 2, "superseded": 1, "quarantined": {"broken": 2, "empty": 1}}
PUBLISH = {
    "published": True,
    "is_new": True,
    "version": "2026.11.16",
    "abstains_always": False,
    "wheel": "/index/drsr-policy/policy.whl",
    "index": "/index",
}


@pytest.mark.parametrize(
    ("stage", "result", "expected"),
    [
        ("ingest", INGEST, "2 runs added, 1 superseded, 3 quarantined: drsr status --quarantined"),
        ("ingest", INGEST | {"unchanged_files": 3}, "nothing new in 3 files"),
        ("ingest", INGEST | {"added": 1, "quarantined": {}}, "1 run added, 1 superseded"),
        ("freeze", {"frozen": 1_000, "states": 2_500}, "1,000 trajectories frozen, 2,500 decision states"),
        ("freeze", {"frozen": 1, "states": 1}, "1 trajectory frozen, 1 decision state"),
        (
            "freeze",
            {"frozen": 9, "states": 20, "damaged": ("runs/a: is missing",)},
            "9 trajectories frozen, 20 decision states, 1 wait with damaged bytes: drsr freeze",
        ),
        (
            "freeze",
            {"frozen": 4, "states": 0, "without_states": {"too_few_candidates": 3, "no_view": 1}},
            "4 trajectories frozen, 0 decision states, 4 without any: no_view, too_few_candidates",
        ),
        ("label", {"states": 7}, "7 states labelled"),
        (
            "label",
            {"states": 7, "shards": 2, "lost_workers": 1},
            "7 states labelled in 2 shards, lost on the way: 1 worker",
        ),
        ("featurize", {"states": 7, "excluded": {"empty_span": 2}}, "7 states featurized, 2 excluded: empty_span"),
        ("publish", PUBLISH, "published drsr-policy 2026.11.16"),
        ("publish", PUBLISH | {"is_new": False}, "drsr-policy 2026.11.16 had been published before"),
        ("publish", {"published": False, "reason": "worse"}, "the released policy stays: worse"),
    ],
)
def test_what_a_stage_says(stage: str, result: dict[str, Any], expected: str) -> None:
    assert said(stage, result) == expected


def test_what_was_left_out_is_named() -> None:
    item = {"where": "runs/cut-off.json", "reason": "not_json", "detail": "is not JSON"}
    assert left_out(INGEST | {"left_out": [item]}) == ["", "Left out:", "", "- `runs/cut-off.json`: is not JSON"]
    assert left_out(INGEST | {"left_out": []}) == left_out({}) == []


def test_a_row_per_stage() -> None:
    rows = stage_rows({"label": {"states": 7}, "publish": PUBLISH}, {"label": 1.26})
    assert [(row["stage"], row["seconds"]) for row in rows] == [("label", 1.3), ("publish", 0.0)]


def test_the_numbers_of_the_policy() -> None:
    results: dict[str, Any] = {
        "calibrate": {"max_cardinality": 3, "risk_threshold": 0.1},
        "evaluate": {"metrics": [Metric("unsafe rate", "selected sets", HALF, 0.05, 0.0, 0.1, 20, 7).to_json()]},
    }
    assert policy_rows(results) == [
        {"split": "validation", "number": "max_cardinality", "value": 3},
        {"split": "validation", "number": "risk_threshold", "value": 0.1},
        {"split": "test", "number": "unsafe rate, selected sets", "value": 0.05},
    ]
    assert policy_rows({"ingest": INGEST}) == []


def test_links_are_only_to_what_is_there(tmp_path: Path) -> None:
    assert links({"publish": {"published": False, "reason": ""}}, None) == {}
    assert "data-docs" not in links({}, tmp_path)
    for name in ("index.html", "dashboard.html"):
        (tmp_path / name).touch()
    found = links({"publish": PUBLISH}, tmp_path)
    assert found["dashboard"][0] == (tmp_path / "dashboard.html").as_uri()
    assert found["wheel"] == ("file:///index/drsr-policy/policy.whl", "drsr-policy 2026.11.16")
    assert found["data-docs"][0] == (tmp_path / "index.html").as_uri()


def test_the_summary_for_a_terminal() -> None:
    outcome = {
        "headline": "published drsr-policy 2026.11.16",
        "stages": {"ingest": {"said": "2 runs added", "seconds": 1.0}},
        "outcome": PUBLISH,
        "recorded": True,
        "journal": "7 abc",
    }
    assert text(outcome).splitlines() == [
        "ingest:     2 runs added",
        "",
        "published drsr-policy 2026.11.16, recorded in dvc.lock",
        "  /index/drsr-policy/policy.whl",
        "  pip install --no-deps --index-url file:///index drsr-policy",
        "  journal 7 abc",
    ]
