"""Identity of runs, archives, and that nothing raises whatever a file holds."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import DrsrError
from drsr.offline.ingest.formats import READERS, read
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.source_files import Refusal, SourceFile
from tests.offline.ingest.formats.files import (
    as_json,
    as_lines,
    history,
    memory_file,
    only_problem,
    opened,
    read_bytes,
    read_value,
)
from tests.offline.ingest.formats.miniatures import CHAT, MINIATURES

RUN = {"messages": CHAT}


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return packed.getvalue()


def test_members_of_an_archive() -> None:
    data = zipped({"b/two.jsonl": as_lines([RUN, RUN]), "a.json": as_json(RUN), "notes.txt": b"hello"})
    items = read_bytes(data, "runs.zip")
    names = [item.external_id for item in items if isinstance(item, Trajectory)]
    assert names == ["runs.zip!a.json#0", "runs.zip!b/two.jsonl#0", "runs.zip!b/two.jsonl#1"]
    (problem,) = (item for item in items if isinstance(item, Quarantined))
    assert (problem.location, problem.reason) == ("mem/source/runs.zip!notes.txt", "not_data")


def test_an_event_folder_in_an_archive() -> None:
    events = MINIATURES["openhands_sdk"].records
    data = zipped({f"conv/events/event-{n:05d}.json": as_json(event) for n, event in enumerate(events)})
    (item,) = read_bytes(data, "runs.zip")
    assert isinstance(item, Trajectory)
    assert item.external_id == "runs.zip!conv/events"


@pytest.mark.parametrize("reader", ["openai_list", "tau_bench", "codex"])
def test_ids_of_one_source_do_not_clash_across_files(reader: str) -> None:
    data = MINIATURES[reader].data
    names = [
        item.external_id
        for name in ("a/run.json", "b/run.json")
        for item in read(memory_file(data, name))
        if isinstance(item, Trajectory)
    ]
    unique = reader != "codex"  # a session's own id is the same wherever the file lies, and so is the session
    assert (len(set(names)) == len(names)) is unique


def test_strange_ids_become_storable() -> None:
    (item,) = read_value({"messages": CHAT, "id": "a\x00b\nc", "task_id": "t" * 1000})
    assert isinstance(item, Trajectory)
    assert item.external_id == "runs.json#a%00b%0ac"
    assert len(item.task or "") == 400
    (other,) = read_value({"messages": CHAT, "task_id": "t" * 1001})
    assert isinstance(other, Trajectory)
    assert other.task != item.task


def test_a_refused_file_is_not_opened() -> None:
    def explode() -> Any:
        raise AssertionError("opened")

    file = SourceFile("x", "x", "s", None, None, explode, Refusal("broken_link", "why"))
    assert list(read(file)) == [Quarantined("x", "broken_link", "why")]


def test_a_reader_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = only_problem(list(read(memory_file(as_json(RUN)), reader=_broken())))
    assert problem.reason == "reader_failed"
    assert "KeyError" in problem.detail


def _broken() -> Any:
    from drsr.offline.ingest.formats.reader import Reader

    def fail(records: Any, file: Any) -> Any:
        raise KeyError("oops")
        yield

    return Reader("broken", 1, "x", lambda value: True, fail)


# --- whatever a file holds ---------------------------------------------------------------------------------------

WORDS = sorted(
    {
        *("role", "content", "messages", "tool_calls", "id", "type", "text", "name", "arguments", "function", "traj"),
        *("history", "action", "observation", "source", "timestamp", "args", "kind", "payload", "message", "uuid"),
        *("parentUuid", "sessionId", "simulations", "nodes", "agent", "node_id", "eval", "samples", "attributes"),
        *("trace_id", "events", "session", "cwd", "parentId", "system", "input", "output", "tool_use_id", "call_id"),
        *("user", "assistant", "tool", "tool_use", "tool_result", "ActionEvent", "ObservationEvent", "response_item"),
        *("function_call", "function_call_output", "llm.input_messages.0.message.role", "gen_ai.input.messages"),
        *("conversations", "from", "value", "contents", "parts", "functionCall", "functionResponse", "toolInvocations"),
        *("observations", "traceId", "startTime", "GENERATION", "run_type", "llm", "inputs", "outputs", "response"),
        *(
            "request",
            "choices",
            "object",
            "call_type",
            "TextMessage",
            "ToolCallRequestEvent",
            "tool_responses",
            "model",
        ),
        *("resourceSpans", "task_id", "epoch", "target", "toolCall", "toolResult", "exit", "compaction", "is_demo"),
    }
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=30,
)


def check(data: bytes) -> None:
    """Every item is a trajectory that the core reads, or a complaint; and no reader needed its net."""
    for item in read_bytes(data):
        if isinstance(item, Trajectory):
            history(item)
            item.to_json()
        else:
            assert item.reason != "reader_failed", item


@given(DOCUMENTS)
def test_any_document(value: Any) -> None:
    check(as_json(value))


@given(st.lists(DOCUMENTS, max_size=5))
def test_any_lines(values: list[Any]) -> None:
    check(as_lines(values))


@given(DOCUMENTS)
def test_recognition_never_fails_and_is_never_claimed_twice(value: Any) -> None:
    assert sum(reader.recognises(value) for reader in READERS) <= 1


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check(data)


@given(st.sampled_from(sorted(MINIATURES)), st.data())
def test_cut_files(name: str, draw: st.DataObject) -> None:
    data = MINIATURES[name].data
    check(data[: draw.draw(st.integers(0, len(data)))])


@given(st.sampled_from(sorted(MINIATURES)), st.data())
def test_flipped_bytes(name: str, draw: st.DataObject) -> None:
    data = bytearray(MINIATURES[name].data)
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    check(bytes(data))


@pytest.mark.parametrize("seed", range(4))
def test_documents_with_anything_in_any_place(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(1500):
        records = json.loads(json.dumps(MINIATURES[draw.choice(sorted(MINIATURES))].records))
        for _ in range(draw.randrange(1, 5)):
            _disturb(records, draw)
        check(as_lines(records) if draw.random() < 0.5 else as_json(records))


PIECES: list[Any] = []


def _collect(value: Any) -> None:
    PIECES.append(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _collect(inner)


for _miniature in MINIATURES.values():
    _collect(_miniature.records)


def _disturb(value: Any, draw: random.Random) -> None:
    """Walks down a random path and changes something there: takes it away, doubles it, or puts something else."""
    while True:
        keys = list(range(len(value))) if isinstance(value, list) else list(value)
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.75:
            value = value[key]
            continue
        choice = draw.random()
        if choice < 0.2:
            del value[key]
        elif choice < 0.6:
            value[key] = draw.choice([None, True, 0, -3, 2.5, "", draw.choice(WORDS), [], {}, [[]], [None], [{}]])
        elif choice < 0.85 or isinstance(value, dict):
            value[key] = json.loads(json.dumps(draw.choice(PIECES)))
        else:
            value.insert(key, json.loads(json.dumps(draw.choice(value))))
        return


def test_streams_are_closed() -> None:
    stream = opened(as_json(RUN))
    file = SourceFile("x", "x", "s", None, None, lambda: stream)
    assert len(list(read(file))) == 1
    assert stream.closed


def test_a_disk_that_fails_while_being_read_is_no_problem_of_content() -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "Input/output error")

    file = SourceFile("x", "x", "s", None, None, lambda: io.BufferedReader(Failing()))
    with pytest.raises(DrsrError, match="Input/output error"):
        list(read(file))
