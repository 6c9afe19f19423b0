"""OpenHands V0 runs and bare events."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from tests.offline.ingest.formats.files import as_lines, history, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import OPENHANDS_V0, OPENHANDS_V0_EVENTS


def test_the_models_own_messages_with_all_calls_of_one_response() -> None:
    trajectory = one(read_value(OPENHANDS_V0))
    assert shape(trajectory) == ["system", "user", "assistant+2", "tool", "tool", "user", "assistant+1"]
    assert trajectory.request["tools"] == [{"a": 1}]
    assert trajectory.request["messages"][5] == {"role": "user", "content": "That tool does not exist."}
    assert trajectory.external_id == "runs.json#bikes__wheel-15"
    assert trajectory.task == "bikes__wheel-15"
    assert [step.complete for step in history(trajectory).steps] == [True, False]


def test_events_without_metadata_are_paired_by_cause() -> None:
    trajectory = one(read_value(OPENHANDS_V0_EVENTS))
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant"]
    call = trajectory.request["messages"][1]["tool_calls"][0]
    assert call["function"]["name"] == "run"
    assert json.loads(call["function"]["arguments"]) == {"command": "ls"}
    assert trajectory.request["messages"][1]["content"] == "Look."


def test_the_oldest_form_with_pairs_and_an_instruction() -> None:
    events = OPENHANDS_V0_EVENTS[1:]
    value = {"instance_id": "x", "instruction": "Fix it", "history": [[events[0], events[1]], [events[2]]]}
    assert shape(one(read_value(value))) == ["user", "assistant+1", "tool", "assistant"]


def test_each_line_is_a_run() -> None:
    other = {**OPENHANDS_V0, "instance_id": "other", "report": {"resolved": True}}
    items = [item for item in read_bytes(as_lines([OPENHANDS_V0, other])) if isinstance(item, Trajectory)]
    assert [item.task for item in items] == ["bikes__wheel-15", "other"]
    assert [item.reward for item in items] == [None, 1.0]


def test_a_condensation_starts_a_new_stretch() -> None:
    events: list[dict[str, Any]] = copy.deepcopy(OPENHANDS_V0_EVENTS[:3])
    forget = {"forgotten_event_ids": [1], "summary": "It was listed.", "summary_offset": 1}
    events.append({"id": 9, "timestamp": "t9", "source": "agent", "action": "condensation", "args": forget})
    events.append(OPENHANDS_V0_EVENTS[3] | {"id": 10})
    items = [item for item in read_value(events) if isinstance(item, Trajectory)]
    assert [shape(item) for item in items] == [["user", "assistant+1", "tool"], ["user", "user", "user", "assistant"]]
    assert [item.external_id for item in items] == ["runs.json", "runs.json#session/2"]


def test_the_files_of_its_own_store_are_read_by_number(tmp_path: Path) -> None:
    events = [copy.deepcopy(OPENHANDS_V0_EVENTS[0]) | {"id": 0}]
    for number in range(1, 13, 2):
        call, result = copy.deepcopy(OPENHANDS_V0_EVENTS[1:3])
        events.append(call | {"id": number})
        events.append(result | {"id": number + 1, "cause": number, "content": f"result {number}"})
    folder = tmp_path / "sessions" / "one" / "events"
    folder.mkdir(parents=True)
    for event in events:
        (folder / f"{event['id']}.json").write_text(json.dumps(event))
    (file,) = gather(open_location(str(tmp_path)))
    trajectory = one(list(read(file)))
    assert shape(trajectory) == ["user", *["assistant+1", "tool"] * 6]
    results = [message["content"] for message in trajectory.request["messages"] if message["role"] == "tool"]
    assert results == [f"result {number}" for number in range(1, 13, 2)]


def test_only_the_latest_summary_is_seen() -> None:
    def forget(number: int, *ids: int, **more: Any) -> dict[str, Any]:
        args = {"forgotten_event_ids": [*ids], **more}
        return {"id": number, "timestamp": f"t{number}", "source": "agent", "action": "condensation", "args": args}

    def done(number: int) -> dict[str, Any]:
        return {**copy.deepcopy(OPENHANDS_V0_EVENTS[3]), "id": number, "timestamp": f"t{number}"}

    begun = copy.deepcopy(OPENHANDS_V0_EVENTS[:3])
    first = forget(90, *(event["id"] for event in begun[1:]), summary="Listed.", summary_offset=1)
    second = forget(92, 91, summary="Listed twice.", summary_offset=1)
    items = read_value([*begun, first, done(91), second, done(93), forget(94, 93), done(95)])
    runs = [item for item in items if isinstance(item, Trajectory)]
    said = [[message["content"] for message in run.request["messages"]] for run in runs]
    answer = said[1][-1]
    assert [messages[-2:] for messages in said[1:]] == [["Listed.", answer], *[["Listed twice.", answer]] * 2]
    assert "Listed." not in said[2] + said[3]
