"""Inspect logs, as JSON and as archives."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

import pytest
import zstandard

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_json, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import INSPECT


def test_calls_attachments_errors_and_reasoning() -> None:
    trajectory = one(read_value(INSPECT))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant"]
    assert messages[0]["content"] == "a long task"
    assert messages[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert messages[1]["reasoning_content"] == "hm"
    assert messages[2]["content"] == "Error: no"
    assert (trajectory.external_id, trajectory.task, trajectory.reward) == ("sample-uuid", "bikes/5", 1.0)


@pytest.mark.parametrize(("value", "reward"), [("I", 0.0), ("P", 0.5), (0.25, 0.25), (True, 1.0), ("odd", None)])
def test_verdicts(value: Any, reward: float | None) -> None:
    sample = {**INSPECT["samples"][0], "scores": {"s": {"value": value}}}
    assert one(read_value({**INSPECT, "samples": [sample]})).reward == reward


def test_numbers_that_json_does_not_have() -> None:
    data = as_json(INSPECT).replace(b'"value": "C"', b'"value": NaN')
    trajectory = one(read_bytes(data))
    assert trajectory.reward is None
    assert trajectory.request == one(read_value(INSPECT)).request


def archive(members: dict[str, Any]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, value in members.items():
            target.writestr(name, as_json(value))
    return packed.getvalue()


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_the_eval_archive(header: str) -> None:
    head = {key: value for key, value in INSPECT.items() if key != "samples"}
    sample = INSPECT["samples"][0]
    members = {
        "_journal/summaries/1.json": [{"id": 5, "epoch": 1}],
        "samples/5_epoch_1.json": sample,
        "samples/5_epoch_2.json": {**sample, "epoch": 2, "uuid": "other"},
        "summaries.json": [{"id": 5, "epoch": 1}],
        header: head,
    }
    items = read_bytes(archive(members), "log.eval")
    assert [item.external_id for item in items] == ["sample-uuid", "other"]  # type: ignore[union-attr]
    assert all(isinstance(item, Trajectory) and item.task == "bikes/5" for item in items)


def test_a_log_without_samples() -> None:
    head = {key: value for key, value in INSPECT.items() if key != "samples"}
    assert only_problem(read_value(head)).reason == "no_assistant_message"


def test_a_sample_that_cannot_be_read_is_named() -> None:
    bad = {**INSPECT["samples"][0], "id": "bad", "messages": [{"role": "tool", "tool_call_id": "n", "content": "x"}]}
    problem, trajectory = read_value({**INSPECT, "samples": [bad, *INSPECT["samples"]]})
    assert isinstance(trajectory, Trajectory)
    assert not isinstance(problem, Trajectory)
    assert (problem.reason, "sample bad" in problem.location) == ("dangling_result", True)


def zstd_archive(members: dict[str, Any]) -> bytes:
    """A zip archive with zstd inside, as recent versions of Inspect write their logs."""
    body, directory = b"", b""
    for name, value in members.items():
        data, path = as_json(value), name.encode()
        packed = zstandard.ZstdCompressor().compress(data)
        sizes = struct.pack("<III", zlib.crc32(data), len(packed), len(data))
        start = struct.pack("<HHHHH", 63, 0, 93, 0, 0x21) + sizes + struct.pack("<HH", len(path), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + start + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + path
        body += b"PK\x03\x04" + start + path + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


EVAL: dict[str, Any] = {
    "_journal/start.json": {"version": 2, "eval": INSPECT["eval"], "plan": {}},
    "samples/5_epoch_1.json": INSPECT["samples"][0],
    "samples/bikes/chain 7_epoch_1.json": {**INSPECT["samples"][0], "id": "bikes/chain 7", "uuid": "other"},
    "_journal/summaries/1.json": [{"id": 5, "epoch": 1, "input": "Fix it", "target": ""}],
    "summaries.json": [{"id": 5, "epoch": 1, "input": "Fix it", "target": ""}],
    "reductions.json": [{"scorer": "includes", "samples": []}],
    "header.json": {key: value for key, value in INSPECT.items() if key != "samples"},
}


@pytest.mark.parametrize("packed", [archive, zstd_archive])
def test_an_eval_file_as_inspect_writes_it(packed: Any) -> None:
    items = read_bytes(packed(EVAL), "2026-01-01T00-00-00_bikes_x.eval")
    found = [(item.external_id, item.task, item.reward) for item in items if isinstance(item, Trajectory)]
    assert found == [("sample-uuid", "bikes/5", 1.0), ("other", "bikes/bikes/chain 7", 1.0)]
    assert len(items) == 2
    assert items[0].request == one(read_value(INSPECT)).request  # type: ignore[union-attr]


def test_a_damaged_member_of_an_eval_file() -> None:
    data = bytearray(zstd_archive(EVAL))
    at = data.index(b"samples/5_epoch_1.json") + len("samples/5_epoch_1.json") + 40
    data[at] ^= 0xFF
    reasons = [item.reason for item in read_bytes(bytes(data)) if not isinstance(item, Trajectory)]
    assert reasons == ["corrupt_archive"]
