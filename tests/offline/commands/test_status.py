"""`drsr status` in text and JSON, with and without the language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.backbone import catalogue
from drsr.errors import BackboneNotFetched
from tests.offline.chat_files import chat, task_in_split, write_json, write_text
from tests.offline.commands.conftest import Drsr


@pytest.fixture
def filled(drsr: Drsr, tmp_path: Path) -> Drsr:
    write_json(tmp_path / "runs" / "a.json", chat(1, steps=8))
    write_text(tmp_path / "runs" / "b.json", "")
    drsr("ingest", "runs")
    return drsr


def test_counts_and_labels(filled: Drsr) -> None:
    before = filled("status")
    assert before.code == 0
    assert "waiting to be frozen: 1 trajectories" in before.out
    states = filled("freeze", "--json").json["states"]
    assert states > 0
    assert f"labels: 0 states labelled, 0 excluded, {states} waiting" in filled("status").out
    assert filled("label").code == 0
    shown = filled("status", "--json").json
    (labels,) = shown["labels"]
    assert (labels["labeler"], labels["labelled"], labels["excluded"], labels["waiting"]) == ("default", states, 0, 0)
    assert f"0 waiting; {labels['sets']} sets measured, 0 excluded" in filled("status").out
    assert [run["stage"] for run in shown["runs"]] == ["label", "freeze", "ingest"]
    (row,) = shown["sources"]
    assert (row["files"], row["trajectories"], row["quarantined"], row["frozen"], row["to_freeze"]) == (2, 1, 1, 1, 0)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_reasons_and_other_labelers_are_shown(filled: Drsr, tmp_path: Path) -> None:
    body = chat(2, steps=9)
    body["messages"][-1]["content"] = "too long " * 20_000
    write_json(tmp_path / "runs" / "long.json", body)
    filled("ingest", "runs")
    filled("freeze")
    filled("label", "--labeler", "other")
    shown = filled("status").out
    assert "labels: 0 states labelled, 0 excluded, 6 waiting; 0 sets measured, 0 excluded\nlabels by other: 5 " in shown
    assert "\n  1 states excluded: target_too_long\n" in shown


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_withdrawn_runs_are_counted(filled: Drsr) -> None:
    assert "withdrawn" not in filled("status").out
    ((split, _),) = filled("status", "--json").json["splits"].items()
    filled("withdraw", "runs/a.json#run-1", "--reason", "a copy")
    assert f"withdrawn runs: 1 {split} (drsr withdraw --list)" in filled("status").out
    assert filled("status", "--json").json["withdrawn"] == {split: 1}
    filled("withdraw", "--undo", "runs/a.json#run-1")
    assert "withdrawn" not in filled("status").out


def test_what_could_not_be_read_is_listed(filled: Drsr, tmp_path: Path) -> None:
    (item,) = filled("status", "--quarantined", "--json").json["quarantined_items"]
    assert (item["where"], item["reason"]) == (f"{tmp_path}/runs/b.json", "empty")
    assert f"{tmp_path}/runs/b.json" in filled("status", "--quarantined").out
    assert f"{tmp_path}/runs/b.json" not in filled("status").out


@pytest.mark.parametrize("more", [(), ("--quarantined",)])
def test_counts_are_shown_without_the_language_model(
    filled: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    def not_fetched(name: str) -> None:
        raise BackboneNotFetched(f"{name} is not on this machine")

    monkeypatch.setattr(catalogue, "load_tokenizer", not_fetched)
    status = filled("status", *more)
    assert (status.code, status.err) == (0, "")
    assert "unknown until the backbone is here: drsr backbone fetch scripted" in status.out
    assert "runs" in status.out
    assert (f"{tmp_path}/runs/b.json" in status.out) == bool(more)
    (row,) = filled("status", "--json").json["sources"]
    assert (row["trajectories"], row["frozen"], row["states"], row["to_freeze"]) == (1, None, None, None)


def test_near_duplicates_across_splits_are_a_failed_check(filled: Drsr, tmp_path: Path) -> None:
    clean = filled("status", "--near-duplicates")
    assert (clean.code, clean.err) == (0, "")
    assert clean.out.startswith("no two trajectories of different splits are alike")
    for name, split in (("x", "train"), ("y", "test")):
        write_json(tmp_path / "runs" / f"{name}.json", chat(99, steps=6) | {"task": task_in_split(split)})
    filled("ingest", "runs")
    found = filled("status", "--near-duplicates")
    assert (found.code, found.err) == (1, "")
    assert "runs/x.json#run-99" in found.out
    told = filled("status", "--near-duplicates", "--json")
    assert told.code == 1
    (pair,) = told.json["near_duplicates"]
    assert (pair["first_split"], pair["second_split"], pair["jaccard"]) == ("train", "test", 1.0)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_runs_whose_file_is_gone_are_named(filled: Drsr, tmp_path: Path) -> None:
    here = filled("status", "--gone")
    assert (here.code, here.out) == (0, "the files of all runs that were read here still exist\n")
    (tmp_path / "runs" / "a.json").unlink()
    gone = filled("status", "--gone")
    assert gone.code == 1
    assert "runs/a.json#run-1" in gone.out
    assert filled("status", "--gone", "--json").json["gone"][0]["location"] == f"{tmp_path}/runs/a.json"
