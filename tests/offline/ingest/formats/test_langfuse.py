"""Langfuse exports: whole traces, observation lines, pages of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import CHAT, LANGFUSE, LANGFUSE_OBSERVATIONS, TOOL, generation

Json = dict[str, Any]
TRACE = {key: value for key, value in LANGFUSE.items() if key != "observations"}


@pytest.mark.parametrize(
    "value",
    [
        LANGFUSE,
        {"trace": TRACE, "observations": LANGFUSE_OBSERVATIONS},
        {"data": LANGFUSE_OBSERVATIONS, "meta": {"page": 1}},
        {"data": [LANGFUSE], "meta": {"page": 1}},
    ],
)
def test_the_longest_generation_and_its_output(value: Json) -> None:
    trajectory = one(read_value(value))
    assert trajectory.request["messages"] == CHAT
    assert trajectory.request["tools"] == [TOOL]
    assert trajectory.external_id == "tr-1"
    assert trajectory.task == ("tr-1" if "data" in value and value["data"][0] is not LANGFUSE else "talk-1")


def test_observations_line_by_line_with_json_in_strings() -> None:
    lines = [
        {key: json.dumps(value) if key in ("input", "output") else value for key, value in observation.items()}
        for observation in LANGFUSE_OBSERVATIONS
    ]
    assert one(read_bytes(as_lines(lines))).request["messages"] == CHAT


def test_the_names_of_the_blob_storage_export() -> None:
    lines = [
        {
            **{key: value for key, value in observation.items() if key not in ("traceId", "startTime")},
            "trace_id": observation["traceId"],
            "start_time": observation["startTime"],
        }
        for observation in LANGFUSE_OBSERVATIONS
    ]
    assert one(read_bytes(as_lines(lines))).request["messages"] == CHAT


def test_traces_are_runs_of_their_own() -> None:
    other = [generation(1, "tr-2", [{"role": "user", "content": "Count."}], "Three.")]
    items = read_bytes(as_lines([*LANGFUSE_OBSERVATIONS, *other]))
    assert [item.external_id for item in items if isinstance(item, Trajectory)] == ["tr-1", "tr-2"]
    assert shape(items[1]) == ["user", "assistant"]  # type: ignore[arg-type]


@pytest.mark.parametrize("observations", [[], ["tr-1-1"], LANGFUSE_OBSERVATIONS[:1]])
def test_a_trace_without_generations_says_what_to_export(observations: list[Any]) -> None:
    problem = only_problem(read_value({**LANGFUSE, "observations": observations}))
    assert problem.reason == "no_assistant_message"
    assert "export the observations" in problem.detail
