"""OpenAI chat: pairing, spellings, identity, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import (
    as_lines,
    history,
    one,
    only_problem,
    read_bytes,
    read_value,
    shape,
    text_call,
)
from tests.offline.ingest.formats.miniatures import CHAT


def assistant(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(content: Any = "go on") -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_messages_in_wire_form_are_kept_as_they_are() -> None:
    assert one(read_value(CHAT)).request == {"messages": CHAT}


def test_what_stands_beside_the_messages() -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    value = {"messages": CHAT, "tools": tools, "id": "r9", "task_id": 4, "domain": "bikes", "resolved": True}
    trajectory = one(read_value(value))
    assert trajectory.request["tools"] == tools
    assert trajectory.external_id == "runs.json#r9"
    assert (trajectory.task, trajectory.domain, trajectory.reward) == ("4", "bikes", 1.0)


def test_ids_by_line_do_not_change_when_lines_are_added() -> None:
    few = read_bytes(as_lines([{"messages": CHAT}]))
    more = read_bytes(as_lines([{"messages": CHAT}] * 2))
    assert [item.external_id for item in more] == [few[0].external_id, "runs.json#1"]  # type: ignore[union-attr]


def test_repeated_ids_are_told_apart() -> None:
    items = read_bytes(as_lines([{"messages": CHAT, "id": 1}] * 3))
    assert [item.external_id for item in items] == ["runs.json#1", "runs.json#1~2", "runs.json#1~3"]  # type: ignore[union-attr]


def test_call_ids_that_repeat_along_a_run_stay_and_pair_with_the_nearest_call() -> None:
    messages = [
        user(),
        *[assistant(text_call("look", {"n": n}, "same")) if n % 2 == 0 else result("same", str(n)) for n in range(4)],
    ]
    trajectory = one(read_value(messages))
    assert [message.get("content") for message in trajectory.request["messages"][2::2]] == ["1", "3"]
    assert all(step.complete for step in history(trajectory).steps)


def test_a_user_message_between_call_and_result_comes_after_the_results() -> None:
    messages = [
        user(),
        assistant(text_call("a", {}, "1"), text_call("b", {}, "2")),
        result("1"),
        user("wait"),
        result("2"),
    ]
    assert shape(one(read_value(messages))) == ["user", "assistant+2", "tool", "tool", "user"]


def test_a_call_without_a_result_stays_without() -> None:
    messages = [
        user(),
        assistant(text_call("a", {}, "1"), text_call("b", {}, "2")),
        result("2"),
        user(),
        assistant(content="x"),
    ]
    trajectory = one(read_value(messages))
    assert [step.complete for step in history(trajectory).steps] == [False, True]


def test_a_result_without_a_call_is_not_given_one() -> None:
    problem = only_problem(read_value([user(), {"role": "assistant", "content": "hm"}, result("nobody")]))
    assert problem.reason == "dangling_result"
    assert "nobody" in problem.detail


def test_flat_calls_and_calls_with_a_named_function_become_wire_form() -> None:
    flat = {"id": "1", "name": "look", "arguments": {"part": "chain"}}
    named = {"id": "2", "function": "look", "arguments": {"part": "wheel"}, "type": "function"}
    trajectory = one(read_value([user(), assistant(flat, named), result("1"), result("2")]))
    calls = trajectory.request["messages"][1]["tool_calls"]
    assert [call["function"] for call in calls] == [
        {"name": "look", "arguments": '{"part":"chain"}'},
        {"name": "look", "arguments": '{"part":"wheel"}'},
    ]


def test_the_legacy_function_call_gets_an_id() -> None:
    messages = [
        user(),
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "rusty"},
    ]
    made = one(read_value(messages)).request["messages"]
    assert made[1]["tool_calls"][0]["id"] == made[2]["tool_call_id"] == "call_0001"


def test_reasoning_and_bookkeeping() -> None:
    message = {"role": "assistant", "content": "x", "reasoning": "why", "refusal": None, "extra": {"cost": 1}}
    made = one(read_value([user(), message])).request["messages"][1]
    assert made == {"role": "assistant", "content": "x", "reasoning_content": "why"}


def test_demonstrations_keep_their_mark() -> None:
    demo = [{**message, "is_demo": True} for message in (user("demo"), {"role": "assistant", "content": "shown"})]
    trajectory = one(read_value([*demo, user("task"), {"role": "assistant", "content": "done"}]))
    assert history(trajectory).prefix_length == 3


@pytest.mark.parametrize("content", [{"ok": True}, [{"row": 1}], {"type": "success", "n": 2}])
def test_a_structured_result_becomes_json_text(content: Any) -> None:
    made = one(read_value([user(), assistant(text_call("a", {}, "1")), result("1", content)])).request["messages"]
    assert isinstance(made[2]["content"], str)
    assert made[2]["content"].startswith(("{", "["))


def test_images_stay_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}
    content = [{"type": "text", "text": "see"}, picture]
    made = one(read_value([user(content), {"role": "assistant", "content": "seen"}])).request["messages"]
    assert made[0]["content"] == content


@pytest.mark.parametrize(
    ("messages", "word"),
    [
        ([user(), user(), user(), 5], "message 3"),
        ([user(), {"role": "assistant", "content": 5}], "content"),
        ([user(), assistant(content="x") | {"tool_calls": "look"}], "tool_calls"),
        ([user(), assistant({"id": "1", "name": 5, "arguments": {}})], "name"),
        ([user(), assistant({"id": "1", "name": "x", "arguments": 5})], "arguments"),
        ([user(), {"role": "assistant", "content": "x"}, user(), {"role": "judge", "content": "x"}], "role"),
    ],
)
def test_malformed_messages_are_named(messages: list[Any], word: str) -> None:
    problem = only_problem(read_value({"messages": messages}))
    assert problem.reason == "malformed"
    assert word in problem.detail


def test_a_chat_in_which_the_assistant_is_silent() -> None:
    assert only_problem(read_value([user(), {"role": "assistant", "content": ""}])).reason == "no_assistant_message"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"messages": [{"role": "user", "content": "x"}, assistant(text_call("", {}, "c"))]}, "has no name"),
        (
            {"messages": [{"role": "user", "content": "x"}, assistant({"id": "c", "name": None})]},
            "a tool call's name should be a string",
        ),
        ({"messages": CHAT, "tools": {"look": 1}}, "tools should be a list and is an object"),
        ({"messages": CHAT, "tools": ""}, "tools should be a list and is a string"),
        ({"messages": [*CHAT, {"role": "narrator", "content": "x"}]}, "'narrator'"),
    ],
)
def test_what_is_malformed_is_named(value: dict[str, Any], words: str) -> None:
    problem = only_problem(read_value(value))
    assert (problem.reason, words in problem.detail) == ("malformed", True), problem


def test_many_open_calls_and_repeated_ids_take_linear_time() -> None:
    """Quadratic, this would take a minute."""
    count = 10_000
    calls = [text_call("look", {}, f"c{number}") for number in range(count)]
    results = [{"role": "tool", "tool_call_id": f"c{number}", "content": "x"} for number in reversed(range(count))]
    separate = [{"role": "assistant", "content": None, "tool_calls": [call]} for call in calls]
    together = [{"role": "assistant", "content": None, "tool_calls": calls}]
    started = time.process_time()
    for made in (together, separate):
        (item,) = read_value({"messages": [user(), *made, *results]})
        assert isinstance(item, Trajectory)
        assert len(item.request["messages"]) == 1 + len(made) + count
    assert time.process_time() - started < 20


def test_runs_of_one_id_are_numbered_in_linear_time() -> None:
    started = time.process_time()
    items = read_bytes(as_lines([{"id": "same", "messages": CHAT}] * 10_000))
    assert len({item.external_id for item in items if isinstance(item, Trajectory)}) == 10_000
    assert time.process_time() - started < 20
