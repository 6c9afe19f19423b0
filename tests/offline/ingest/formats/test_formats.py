"""Which reader takes which document: exactly one, by content alone."""

from __future__ import annotations

import pytest

from drsr.errors import InputError
from drsr.offline.ingest.formats import READERS, read, reader_named
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import history, memory_file, only_problem, read_bytes, read_value
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
