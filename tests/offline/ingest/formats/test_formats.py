"""Which reader takes which document: exactly one, by content alone."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.errors import InputError
from drsr.offline.ingest.formats import READERS, read, reader_named
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from tests.offline.ingest.formats.files import (
    as_json,
    as_lines,
    history,
    memory_file,
    only_problem,
    read_bytes,
    read_value,
)
from tests.offline.ingest.formats.miniatures import CHAT, MINIATURES


@pytest.mark.parametrize("name", MINIATURES)
def test_every_record_is_recognised_by_exactly_one_reader(name: str) -> None:
    miniature = MINIATURES[name]
    for record in miniature.records:
        assert [reader.name for reader in READERS if reader.recognises(record)] == [miniature.reader]


@pytest.mark.parametrize("name", MINIATURES)
def test_every_format_is_read_whole(name: str) -> None:
    miniature = MINIATURES[name]
    items = read_bytes(miniature.data)
    assert len(items) == miniature.runs
    for item in items:
        assert isinstance(item, Trajectory), item
        assert item.reader == reader_named(miniature.reader).tag
        assert history(item).steps


@pytest.mark.parametrize("name", MINIATURES)
def test_the_file_name_does_not_matter(name: str) -> None:
    named = [read_bytes(MINIATURES[name].data, file_name) for file_name in ("a.json", "a.traj", "a.eval", "a")]
    requests = [[item.request for item in items if isinstance(item, Trajectory)] for items in named]
    assert all(request == requests[0] and request for request in requests)


@pytest.mark.parametrize("name", MINIATURES)
def test_a_reader_can_be_demanded(name: str) -> None:
    miniature = MINIATURES[name]
    demanded = list(read(memory_file(miniature.data), reader=reader_named(miniature.reader)))
    assert demanded == read_bytes(miniature.data)
    other = "moatless" if miniature.reader != "moatless" else "tau_bench"
    refused = list(read(memory_file(miniature.data), reader=reader_named(other)))
    assert refused
    assert {item.reason for item in refused if not isinstance(item, Trajectory)} == {"unknown_format"}
    assert not any(isinstance(item, Trajectory) for item in refused)


def test_every_reader_has_a_miniature() -> None:
    assert {miniature.reader for miniature in MINIATURES.values()} == {reader.name for reader in READERS}


def test_reader_names_are_unique() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(InputError, match="tau_bench"):
        reader_named("tau")


def test_an_unknown_document_is_told_its_keys_and_the_known_formats() -> None:
    problem = only_problem(read_value({"steps": [], "model": "m"}))
    assert problem.reason == "unknown_format"
    assert "steps, model" in problem.detail
    assert "tau_bench" in problem.detail
    assert "openai_chat" in problem.detail


def test_a_run_of_agentdojo_is_no_chat() -> None:
    marks = {"suite_name": "banking", "user_task_id": "user_task_1", "injection_task_id": None, "pipeline_name": "m"}
    value = {"messages": CHAT, **marks}
    assert [reader.name for reader in READERS if reader.recognises(value)] == ["agentdojo"]


def test_a_chat_with_bookkeeping_of_other_tools_is_a_chat() -> None:
    beside = {"trace_id": "t", "attributes": {"a": 1}, "eval": {"id": 1}, "status": "ok", "info": {}, "epoch": 3}
    value = {"messages": CHAT, **beside}
    assert [reader.name for reader in READERS if reader.recognises(value)] == ["openai_chat"]


@pytest.mark.parametrize(
    "value",
    [
        {"simulations": [], "planet": "Mars"},
        {"simulations": [{"seed": 1, "temperature": 20.5}]},
        {"task_id": 3, "traj": []},
        {"history": [{"action": "sell", "observation": "price fell"}]},
        {"eval": {"accuracy": 0.9}, "status": "done"},
        {"record_type": "state", "population": 3},
    ],
)
def test_a_word_in_common_with_a_format_is_not_enough(value: Any) -> None:
    assert [reader.name for reader in READERS if reader.recognises(value)] == []
    assert only_problem(read_value(value)).reason == "unknown_format"


def test_a_failed_run_of_tau_bench_is_said_to_be_one() -> None:
    value = [{"task_id": 3, "reward": 0.0, "info": {"error": "timeout"}, "traj": [], "trial": 0}]
    assert only_problem(read_value(value)).reason == "no_assistant_message"


def test_a_record_that_two_readers_know_is_read_by_neither() -> None:
    both = {**MINIATURES["tau_bench"].records[0], **MINIATURES["intercode"].records[0]}
    both = {"0": both.pop("0"), **both}
    problem = only_problem(read_value(both))
    assert problem.reason == "two_formats"
    assert problem.detail.startswith("it could be tau_bench and intercode; say which with --format")
    lines = read_bytes(as_lines([both, {"messages": CHAT}, both]))
    assert [item.reason if isinstance(item, Quarantined) else item.reader for item in lines] == [
        "two_formats",
        "openai_chat/2",
        "two_formats",
    ]
    demanded = list(read(memory_file(as_json(both)), reader=reader_named("tau_bench")))
    assert [item.reader for item in demanded if isinstance(item, Trajectory)] == ["tau_bench/1"]


@pytest.mark.parametrize("name", ["gemini", "sharegpt", "langfuse_trace", "langsmith"])
def test_a_chat_that_is_something_else_too_is_read_as_neither(name: str) -> None:
    other = MINIATURES[name]
    problem = only_problem(read_value({**other.records[0], "messages": CHAT}))
    assert problem.reason == "two_formats"
    assert "openai_chat" in problem.detail or "anthropic_messages" in problem.detail
    assert other.reader in problem.detail


CHATS = [{"messages": CHAT, "id": str(number)} for number in range(70)]


@pytest.mark.parametrize(
    ("first", "second"),
    [("openai_lines", "tau_bench"), ("tau_bench", "sharegpt"), ("claude_code", "pi"), ("langsmith", "openai_lines")],
)
def test_a_file_of_two_formats_record_by_record_is_quarantined_with_both_names(first: str, second: str) -> None:
    one, other = MINIATURES[first], MINIATURES[second]
    for data in (as_lines([*one.records, *other.records]), as_json([*one.records, *other.records])):
        problem = only_problem(read_bytes(data))
        assert (problem.location, problem.reason) == ("mem/source/runs.json", "two_formats")
        assert problem.detail.startswith(
            f"records of {one.reader} and of {other.reader}; keep each format in separate files"
        )
    demanded = list(read(memory_file(as_lines([*one.records, *other.records])), reader=reader_named(one.reader)))
    assert any(isinstance(item, Trajectory) and item.reader.startswith(f"{one.reader}/") for item in demanded)


def test_a_late_record_of_another_format_is_refused_by_itself() -> None:
    items = read_bytes(as_lines([*CHATS, MINIATURES["tau_bench"].records[0], CHATS[0]]))
    assert [type(item) for item in items] == [Trajectory] * 70 + [Quarantined, Trajectory]
    problem = items[70]
    assert isinstance(problem, Quarantined)
    assert (problem.location, problem.reason) == ("mem/source/runs.json:71", "two_formats")
    assert problem.detail.startswith("a record of tau_bench in a file of openai_chat;")
    session = MINIATURES["claude_code"].records
    long_session = [*session, *([{"type": "progress", "sessionId": "s"}] * 70), *MINIATURES["tau_bench"].records]
    (run, *strays) = read_bytes(as_lines(long_session))
    assert isinstance(run, Trajectory)
    assert [stray.reason for stray in strays if isinstance(stray, Quarantined)] == ["two_formats"] * 2


def test_a_chat_without_marks_may_stand_among_runs_that_have_them() -> None:
    for name in ("anthropic", "vercel_object"):
        marked = MINIATURES[name]
        items = read_bytes(as_lines([*marked.records, CHATS[0], *marked.records]))
        tags = [item.reader for item in items if isinstance(item, Trajectory)]
        assert tags == [reader_named(marked.reader).tag, "openai_chat/2", reader_named(marked.reader).tag]
