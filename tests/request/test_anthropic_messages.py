"""Anthropic messages: what parts they have, and what is said about bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.errors import RequestError
from drsr.request.parts import Call, Opaque, Reasoning, Result, Text
from drsr.request.request import read_request
from tests.messages import USER


def parts_of(message: dict[str, Any]) -> tuple[Any, ...]:
    return read_request([message], protocol="anthropic").messages[0].parts


ANTHROPIC_PARTS: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"role": "user", "content": "x"}, (Text("x", ("content",)),)),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}]},
        (Reasoning("t", ("content", 0)), Text("x", ("content", 1))),
    ),
    (
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "AA=="}]},
        (Opaque("redacted_thinking", ("content", 0)),),
    ),
    (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1}}]},
        (Call("a", "f", {"b": 1}, ("content", 0)),),
    ),
    (
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, {"type": "image", "source": {}}]},
        (Result("a", "", False, ("content", 0)), Opaque("image", ("content", 1))),
    ),
    (
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
                },
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "image", "source": {}}]},
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "thinking", "thinking": "t"}]},
            ],
        },
        (
            Result("a", "xy", False, ("content", 0)),
            Result("b", "", True, ("content", 1)),
            Result("c", "", True, ("content", 2)),
        ),
    ),
]


@pytest.mark.parametrize(("wire", "parts"), ANTHROPIC_PARTS)
def test_anthropic_parts(wire: dict[str, Any], parts: tuple[Any, ...]) -> None:
    assert parts_of(wire) == parts


def test_the_system_field_of_an_anthropic_request_becomes_a_message() -> None:
    body = {"system": [{"type": "text", "text": "obey"}], "messages": [{"role": "user", "content": "x"}]}
    request = read_request(body)
    assert request.protocol == "anthropic"
    assert request.system is not None
    assert request.system.parts == (Text("obey", ("content", 0)),)


def bad_result(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **fields}]}


def bad_block(**block: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [block]}


BAD_ANTHROPIC: list[tuple[Any, str]] = [
    ({"role": "system", "content": "x"}, "unknown role 'system'.*\n.*`system` field"),
    ({"role": "tool", "content": "x"}, "unknown role 'tool'"),
    ({"content": "x"}, "unknown role None"),
    ({"role": "r" * 10**6, "content": "x"}, "unknown role 'rrr.{0,99}\n"),
    ({"role": "user"}, "content is a NoneType"),
    ({"role": "assistant", "content": None}, "content is a NoneType"),
    ({"role": "assistant", "content": 3}, "content is a int"),
    ({"role": "assistant", "content": ["x"]}, "content block 0 has no type"),
    (bad_block(text="x"), "content block 0 has no type"),
    (bad_block(type="text"), r"content block 0 \(text\) has no text string"),
    (bad_block(type="thinking", thinking=None), r"content block 0 \(thinking\) has no thinking string"),
    (bad_block(type="tool_use", name="f", input={}), "has no id and name strings"),
    (bad_block(type="tool_use", id="a", name=3, input={}), "has no id and name strings"),
    (bad_block(type="tool_use", id="a", name="f"), "has no input"),
    (bad_block(type="tool_result", tool_use_id="a"), "in a assistant message"),
    (bad_result(tool_use_id=None), "has no tool_use_id string"),
    (bad_result(content=7), "content is a int"),
    (bad_result(content=["x"]), "content block 0 has no type"),
    (bad_result(content=[{"type": "text"}]), r"content block 0 \(text\) has no text string"),
    (bad_result(content=[{"type": "tool_result", "tool_use_id": "a"}]), "in a tool message"),
    ({"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}, "in a user message"),
]


@pytest.mark.parametrize(("message", "complaint"), BAD_ANTHROPIC)
def test_bad_anthropic_messages_are_named_with_file_and_index(message: Any, complaint: str) -> None:
    with pytest.raises(RequestError, match=rf"(?s)^f\.json: message 1: .*{complaint}"):
        read_request({"messages": [USER, message]}, protocol="anthropic", where="f.json")


def test_a_bad_system_field_is_named_with_its_file() -> None:
    with pytest.raises(RequestError, match=r"^f\.json: field 'system': content is a int"):
        read_request({"messages": [USER], "system": 3}, where="f.json")
    with pytest.raises(RequestError, match=r"^field 'system': content block 0 \(tool_use\) in a system message"):
        read_request({"messages": [USER], "system": [{"type": "tool_use"}]})
