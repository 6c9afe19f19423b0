"""OpenClaw sessions: side branches, what was only delivered, and the real ones against their raw files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.ingest.formats import read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from tests.offline.ingest.formats.files import as_lines, one, read_bytes, shape
from tests.trajectory_files import trajectories_folder

Json = dict[str, Any]
HEADER = {"type": "session", "version": 3, "id": "claw-1", "timestamp": "t", "cwd": "/w"}


def entry(name: str, parent: str | None, role: str, text: str, **more: Any) -> Json:
    message = {"role": role, "content": [{"type": "text", "text": text}], **more}
    return {"type": "message", "id": name, "parentId": parent, "timestamp": "t", "message": message}


def answer(name: str, parent: str, text: str, prompt: int) -> Json:
    usage = {"input": 2, "cacheRead": prompt - 2, "cacheWrite": 0}
    return entry(name, parent, "assistant", text, api="anthropic-messages", responseId=f"msg_{name}", usage=usage)


def mirror(name: str, parent: str, text: str) -> Json:
    return entry(name, parent, "assistant", text, api="cli", provider="anthropic")


def leaf(name: str, behind: str, target: str) -> Json:
    return {
        "type": "leaf",
        "id": name,
        "parentId": behind,
        "timestamp": "t",
        "targetId": target,
        "appendParentId": behind,
        "appendMode": "side",
    }


MAIN = [HEADER, entry("a", None, "user", "Send two scouts."), answer("b", "a", "Sent.", 100)]
SIDE = [answer("c", "b", "One is back.", 120), mirror("d", "c", "One is back.")]
QUESTION = entry("e", "d", "user", "Well?")


def said(values: list[Json]) -> list[str]:
    return [message["content"] for message in one(read_bytes(as_lines(values))).request["messages"]]


def test_a_side_branch_is_left_where_its_leaf_says() -> None:
    values = [*MAIN, *SIDE, leaf("l", "d", "b"), QUESTION, answer("f", "e", "None is back.", 105)]
    assert said(values) == ["Send two scouts.", "Sent.", "Well?", "None is back."]


def test_a_session_that_ends_with_a_side_branch_is_the_main_one() -> None:
    assert said([*MAIN, *SIDE, leaf("l", "d", "b")]) == ["Send two scouts.", "Sent."]


def test_without_a_leaf_a_shorter_request_shows_the_side_branch() -> None:
    assert said([*MAIN, *SIDE, QUESTION, answer("f", "e", "None is back.", 105)]) == [
        *("Send two scouts.", "Sent.", "Well?", "None is back."),
    ]


def test_without_a_leaf_a_longer_request_holds_all_but_the_mirror() -> None:
    assert said([*MAIN, *SIDE, QUESTION, answer("f", "e", "One is back.", 140)]) == [
        *("Send two scouts.", "Sent.", "One is back.", "Well?", "One is back."),
    ]


def test_what_the_gateway_put_in_is_no_answer() -> None:
    listing = entry("c", "b", "assistant", "active: none", provider="openclaw", model="gateway-injected")
    values = [*MAIN, listing, {**QUESTION, "parentId": "c"}, answer("f", "e", "No.", 130)]
    assert said(values) == ["Send two scouts.", "Sent.", "Well?", "No."]


def _raw(path: Path) -> tuple[list[tuple[str, str, str]], dict[str, str], bool]:
    """Every call of a session file, the text of every result by its call, and whether it has side branches."""
    messages = [json.loads(line) for line in path.read_text().splitlines()]
    inner = [entry["message"] for entry in messages if entry["type"] == "message"]
    calls = [
        (part["id"], part["name"], json.dumps(part["arguments"], sort_keys=True))
        for message in inner
        if message["role"] == "assistant"
        for part in message["content"]
        if part["type"] == "toolCall"
    ]
    results = {
        message["toolCallId"]: "\n".join(part["text"] for part in message["content"])
        for message in inner
        if message["role"] == "toolResult"
    }
    return calls, results, any(message.get("api") == "cli" for message in inner)


def test_every_call_and_result_of_the_real_sessions() -> None:
    folder = trajectories_folder()
    files = sorted((folder / "openclaw-sessions").rglob("*.jsonl")) if folder else []
    if not files:
        pytest.skip("no OpenClaw sessions at hand")
    for path in files:
        runs = [item for file in open_location(str(path)) for item in read(file) if isinstance(item, Trajectory)]
        messages = [message for run in runs for message in run.request["messages"]]
        made = [
            (
                call["id"],
                call["function"]["name"],
                json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True),
            )
            for message in messages
            for call in message.get("tool_calls", [])
        ]
        calls, results, has_branches = _raw(path)
        assert made == (calls if not has_branches else [call for call in calls if call in made]), path.name
        assert len(made) >= (len(calls) if not has_branches else len(calls) // 2), path.name
        told = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
        assert told == {call[0]: results[call[0]] for call in made}, path.name
    assert shape(runs[0])[0] == "user"
