"""Formats that a TOML file describes. The guide's test reads the one of docs/guides/formats.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.errors import SettingsError
from drsr.offline.ingest.feeds.limits import load_mappings
from drsr.offline.ingest.formats import read
from drsr.offline.ingest.formats.mapping import load_mapping
from tests.offline.chat_files import write_text
from tests.offline.ingest.formats.files import as_json, as_lines, decisions, memory_file, one, only_problem, shape

WHOLE = """
messages = ["data", "a.b"]
task = "meta.issue"
id = "meta.run"
reward = "meta.passed"
domain = "meta.kind"
system = "prompt"
tools = "declared"
[message]
role = "who"
content = "body.text"
tool_calls = "acts"
tool_call_id = "for"
reasoning = "thought"
name = "alias"
[roles]
person = "user"
agent = "assistant"
"""
CALL = {"id": "c", "name": "look", "arguments": {"at": 3}}
RECORD: dict[str, Any] = {
    "meta": {"issue": 17, "run": "r-1", "passed": True, "kind": "code"},
    "prompt": "Be brief.",
    "declared": [{"type": "function", "function": {"name": "look"}}],
    "data": {
        "a.b": [
            {"who": "person", "body": {"text": "Look."}, "alias": "ada"},
            {"who": "agent", "thought": "where?", "acts": [CALL]},
            {"who": "tool", "for": "c", "body": {"text": "a door"}},
            {"who": "agent", "body": {"text": "A door."}},
        ]
    },
}


def test_every_field_is_found(tmp_path: Path) -> None:
    reader = load_mapping(write_text(tmp_path / "desk.toml", WHOLE))
    run = one(list(read(memory_file(as_json(RECORD)), reader=reader)))
    assert (run.task, run.domain, run.reward, run.external_id) == ("17", "code", 1.0, "runs.json#r-1")
    assert shape(run) == ["system", "user", "assistant+1", "tool", "assistant"]
    assert decisions(run) == [2, 4]
    system, user, called, result, _ = run.request["messages"]
    assert (system["content"], user["name"], called["reasoning_content"]) == ("Be brief.", "ada", "where?")
    assert called["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":3}'}
    assert (result["tool_call_id"], result["content"]) == ("c", "a door")
    assert run.request["tools"] == RECORD["declared"]


def test_lines_and_arrays_are_runs_each_and_what_does_not_fit_is_refused_by_itself(tmp_path: Path) -> None:
    reader = load_mapping(write_text(tmp_path / "desk.toml", WHOLE))
    nobody = {**RECORD, "data": {"a.b": [{"who": "ghost", "body": {"text": "Boo."}}]}}
    for data in (as_lines([RECORD, {"other": 1}, nobody, RECORD]), as_json([RECORD, {"other": 1}, nobody, RECORD])):
        first, missing, ghost, last = read(memory_file(data), reader=reader)
        one([first]), one([last])
        assert "messages at data.a.b, where this record has none; its keys are other" in only_problem([missing]).detail
        assert "role at who is 'ghost'" in only_problem([ghost]).detail
        assert "[roles]" in only_problem([ghost]).detail


def test_what_is_left_out_has_the_name_that_openai_gives_it(tmp_path: Path) -> None:
    reader = load_mapping(write_text(tmp_path / "desk.toml", 'messages = "turns"'))
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}]
    run = one(list(read(memory_file(as_json({"turns": turns, "task": "ignored"})), reader=reader)))
    assert (run.request, run.task) == ({"messages": turns}, None)


def test_the_version_follows_from_what_the_file_says(tmp_path: Path) -> None:
    first = load_mapping(write_text(tmp_path / "a.toml", WHOLE)).tag
    assert load_mapping(write_text(tmp_path / "b.toml", f"# the same\n{WHOLE}")).tag == first
    assert load_mapping(write_text(tmp_path / "b.toml", WHOLE.replace("meta.run", "meta.id"))).tag != first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not say where the messages are"),
        ("messages = 3", "messages = 3 says no place"),
        ('messages = "a..b"', "says no place"),
        ('messages = "a"\ntasks = "b"', "tasks is not a field of a mapping"),
        ('messages = "a"\n[message]\nspeaker = "b"', "message.speaker is not a field"),
        ('messages = "a"\n[roles]\nbot = "robot"', "roles.bot = 'robot' is not a role"),
        ('messages = "a"\n[roles]\nbot = ["user"]', "is not a role"),
        ('messages = "a"\nroles = "b"', "roles must be a table"),
        ("messages = ", "cannot be read"),
    ],
)
def test_a_wrong_mapping_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = write_text(tmp_path / "desk.toml", text)
    assert main(["ingest", "nowhere", "--mapping", str(path)]) == 2  # not even whether the place is there
    refused = capsys.readouterr()
    assert refused.out == ""
    assert said in refused.err
    assert str(path) in refused.err


def test_sources_with_a_mapping_of_their_own(tmp_path: Path) -> None:
    write_text(tmp_path / "desk.toml", WHOLE)
    limits = '[agents]\nruns = 1\n[desk]\nmapping = "desk.toml"\n'
    mapping_of = load_mappings(write_text(tmp_path / "feeds.toml", limits))
    found = mapping_of("desk")
    assert found is not None
    assert found.name == "mapping"
    assert mapping_of("agents") is None
    assert mapping_of("other") is None
    default = limits.replace("desk]", "default]")
    mapping_of = load_mappings(write_text(tmp_path / "feeds.toml", default))
    assert [mapping_of(source) is None for source in ("agents", "other")] == [False, False]
    mapping_of = load_mappings(write_text(tmp_path / "feeds.toml", default.replace("runs = 1", 'mapping = ""')))
    assert [mapping_of(source) is None for source in ("agents", "other")] == [True, False]
    with pytest.raises(SettingsError, match="absent"):
        load_mappings(write_text(tmp_path / "feeds.toml", '[desk]\nmapping = "absent.toml"'))
