"""`drsr ingest` as people run it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.bench.report.made_by import read_recorded
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.format_names import FORMATS
from drsr.offline.ingest.formats import READERS
from tests.offline.chat_files import chat, session, write_json, write_text
from tests.offline.commands.conftest import Drsr


def test_a_folder_is_read_once(drsr: Drsr, tmp_path: Path) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    write_text(tmp_path / "runs" / "b.json", "")
    first = drsr("ingest", "runs")
    assert (first.code, first.err) == (0, "")
    assert "2 files, 0 of them unchanged: 1 run added" in first.out
    assert "quarantined: 1 empty" in first.out
    assert drsr("ingest", "runs").out == "nothing new: all 2 files are as they were\n"
    again = drsr("ingest", ".", "--json")
    assert (again.code, again.json["files"]) == (0, 2)  # neither the catalog nor the artifacts


def test_the_samples_are_read_only_where_nothing_else_is(drsr: Drsr, tmp_path: Path) -> None:
    """A scheduled run that lost its location must not train on them."""
    assert drsr("ingest", "--show", "0").code == drsr("ingest").code == 0
    write_json(tmp_path / "runs" / "a.json", chat(1))
    assert drsr("ingest", "runs", "--source", "agents").code == 0
    for command in (("ingest",), ("run", "--until", "ingest")):
        refused = drsr(*command)
        assert refused.code == 2
        assert "the catalog holds other runs (agents)" in refused.err


def test_the_only_file_cannot_be_read(drsr: Drsr, tmp_path: Path) -> None:
    write_text(tmp_path / "runs" / "a.json", '{"messages": [')
    for _ in range(2):  # the second time as well: it is not "nothing new"
        found = drsr("ingest", "runs/a.json")
        assert (found.code, found.err) == (1, "")
        assert "quarantined: 1" in found.out
    write_json(tmp_path / "runs" / "b.json", chat(1))
    write_text(tmp_path / "runs" / ".c.json", "")
    found = drsr("ingest", "runs")
    assert found.code == 0
    assert "skipped: 1 hidden" in found.out


def test_a_database_that_does_not_answer_is_to_be_tried_again(drsr: Drsr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", "postgresql://nobody@127.0.0.1:1/none")
    found = drsr("status")
    assert found.code == 3
    assert "the database does not answer" in found.err
    assert "try again in a moment" in found.err


def test_days_that_have_files_of_the_same_name(drsr: Drsr, tmp_path: Path) -> None:
    """As a backfill reads them. A report says it again so."""
    days = ("2026-11-15", "2026-11-16")
    for number, day in enumerate(days):
        write_json(tmp_path / day / "a.json", chat(number))
        assert drsr("ingest", day, "--source", "agents", "--day", day, "--json").json["added"] == 1
    with open_catalog(os.environ["DRSR_CATALOG_URL"]) as catalog:
        found = read_recorded(catalog).ingested
    assert found == [(day, "--source", "agents", "--day", day) for day in days]
    with pytest.raises(SystemExit, match="2"):
        drsr("ingest", "2026-11-15", "--source", "agents", "--day", "Sunday")


def test_without_a_place_the_sample_is_read(drsr: Drsr) -> None:
    assert drsr("ingest", "--json").json["added"] > 0
    assert [row["source"] for row in drsr("status", "--json").json["sources"]] == ["sandbox"]


def test_a_person_sees_what_was_understood(drsr: Drsr, tmp_path: Path) -> None:
    call = {"name": "open_door", "arguments": '{"door": 3}'}
    messages = [
        {"role": "user", "content": "Open\x1b[31m the door"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "content": "open " * 200},
        {"role": "assistant", "content": "It is open."},
    ]
    write_json(tmp_path / "runs" / "a.json", {"messages": messages, "id": "a", "task": "doors/3"})
    write_json(tmp_path / "runs" / "b.json", {**chat(1), "id": "b"})
    brief = drsr("ingest", "runs").out.splitlines()
    assert brief[1].startswith('  read as openai_chat: task doors/3: open_door {"door": 3} -> open open')
    assert brief[1].endswith("…")
    assert brief[2:] == ["  1 run without a task: each is a separate group (docs/guides/name-your-tasks.md)"]
    (tmp_path / "more").mkdir()
    (tmp_path / "runs").rename(tmp_path / "more" / "runs")
    shown = drsr("ingest", "more", "--show", "1").out.splitlines()
    assert shown[1:4] == [
        "openai_chat: runs/a.json#a",
        "  task:       doors/3",
        "  request:    Open [31m the door",
    ]
    assert shown[6] == "  last:       assistant: It is open."
    (tmp_path / "more").rename(tmp_path / "most")
    told = drsr("ingest", "most", "--show", "2", "--json").json
    assert told["without_task"] == 1
    assert [(sample["run"], sample["task"]) for sample in told["understood"]] == [
        ("runs/a.json#a", "doors/3"),
        ("runs/b.json#b", None),
    ]
    assert len(drsr("ingest", "most/runs", "--source", "other", "--show", "0").out.splitlines()) == 2


def test_a_session_is_no_task(drsr: Drsr, tmp_path: Path) -> None:
    """The id of a session keeps its runs together. It says nothing of another session at the same task."""
    write_text(tmp_path / "runs" / "first.jsonl", session("3d1c", 1))
    write_text(tmp_path / "runs" / "second.jsonl", session("77aa", 2))
    write_json(tmp_path / "runs" / "third.json", {**chat(1), "task": "doors/3"})
    told = drsr("ingest", "runs").out
    assert "\n  2 runs without a task (2 with only a session's id): each is a separate group" in told
    table = tmp_path / "corpora" / "mine" / "tasks.csv"
    write_text(table, "source,read_as,task,group,split\nother,3d1c,desk/1,desk/1,\n")
    counts = drsr("ingest", "runs", "--source", "other", "--tasks", "mine", "--json").json
    assert (counts["without_task"], counts["only_session"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("",), "the place to read from is empty"),
        (("runs", "--source", ""), "the name of the source is empty"),
        (("nowhere",), "nothing is there"),
        (("runs", "--format", "telepathy"), "one of sandbox, tau_bench"),
        (("runs", "--day", "2026-11-17"), "the runs of a day need the name of their source"),
    ],
)
def test_bad_usage_is_refused(drsr: Drsr, tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    refused = drsr("ingest", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert complaint in refused.err


def test_help_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert [reader.name for reader in READERS] == list(FORMATS)
    with pytest.raises(SystemExit):
        main(["ingest", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert set(FORMATS) <= set(words)


def test_a_bucket_that_cannot_be_used_is_no_fault_of_ours(
    drsr: Drsr, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", "s3://someone:hunter2@Not_A_Bucket/below")
    write_json(tmp_path / "runs" / "a.json", chat(1))
    refused = drsr("ingest", "runs")
    assert refused.code == 2
    assert "hunter2" not in refused.err
