"""Inspect logs, as JSON and as archives."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

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
