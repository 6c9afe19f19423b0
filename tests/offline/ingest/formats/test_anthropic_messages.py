"""Anthropic's form is kept; only order is mended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.offline.ingest.formats.files import history, one, only_problem, read_value, shape
from tests.offline.ingest.formats.miniatures import ANTHROPIC


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}}


def answer(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_the_form_is_kept() -> None:
    trajectory = one(read_value(ANTHROPIC))
    assert trajectory.protocol == "anthropic"
    assert trajectory.request == ANTHROPIC
    assert [len(step.blocks) for step in history(trajectory).steps] == [3, 1]


def test_system_messages_in_the_list_move_to_the_system_field() -> None:
    messages = [{"role": "system", "content": "Be brief."}, *ANTHROPIC["messages"]]
    request = one(read_value({"messages": messages, "system": "Be kind."})).request
    assert request["system"] == [text("Be kind."), text("Be brief.")]
    assert request["messages"][0]["role"] == "user"


def test_what_a_user_says_between_call_and_result_comes_after() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [use("1"), use("2")]},
        {"role": "user", "content": [answer("1")]},
        {"role": "user", "content": "wait"},
        {"role": "user", "content": [text("and"), answer("2")]},
        {"role": "assistant", "content": "done"},
    ]
    trajectory = one(read_value(messages))
    assert shape(trajectory) == ["user", "assistant+2", "user=2", "user", "user", "assistant"]


def test_repeated_ids_pair_with_the_nearest_call() -> None:
    turn = [{"role": "assistant", "content": [use("same")]}, {"role": "user", "content": [answer("same")]}]
    trajectory = one(read_value([{"role": "user", "content": "go"}, *turn, *turn]))
    assert all(step.complete for step in history(trajectory).steps)


def test_texts_in_a_result_become_blocks() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [use("1")]},
        {"role": "user", "content": [answer("1", ["plain"])]},
    ]
    assert one(read_value(messages)).request["messages"][2]["content"][0]["content"] == [text("plain")]


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([answer("nobody")], "dangling_result"),
        ([{"type": "tool_use", "id": "1", "name": "x", "input": {}}], "malformed"),
        ([{"type": "text", "text": 5}, use("1")], "malformed"),
        ([5, use("1")], "malformed"),
        ([{"type": "tool_result", "tool_use_id": 5, "content": ""}], "malformed"),
        ([{"type": "tool_result", "tool_use_id": "1", "content": 5}], "malformed"),
    ],
)
def test_what_is_wrong_is_said(blocks: list[Any], reason: str) -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "user", "content": blocks},
        {"role": "assistant", "content": "x"},
    ]
    assert only_problem(read_value({"system": "s", "messages": messages})).reason == reason


def test_input_nested_too_deep_to_be_stored() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    block = {"type": "tool_use", "id": "1", "name": "x", "input": {"x": deep}}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [block]}]
    assert only_problem(read_value(messages)).reason == "too_deep"


@pytest.mark.parametrize("broken", [{"name": ""}, {"name": None}, {"input": "text"}, {"id": 3}])
def test_a_tool_use_must_be_whole(broken: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}, **broken}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [block]}]
    assert only_problem(read_value({"messages": messages})).reason == "malformed"


def test_tools_must_be_a_list() -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    assert only_problem(read_value({"system": "s", "messages": messages, "tools": {}})).reason == "malformed"
