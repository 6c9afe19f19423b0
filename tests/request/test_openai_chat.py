"""OpenAI chat messages: what parts they have, and what is said about bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import RequestError
from drsr.request.json_values import CheckedCopy
from drsr.request.openai_chat import parsed_arguments
from drsr.request.parts import Call, Opaque, Reasoning, Result, Text
from drsr.request.request import read_request
from tests.messages import USER


def parts_of(message: dict[str, Any]) -> tuple[Any, ...]:
    return read_request([message], protocol="openai").messages[0].parts


def call(name: str = "f", arguments: str = "{}", call_id: str = "a") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


OPENAI_PARTS: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"role": "user", "content": ""}, (Text("", ("content",)),)),
    ({"role": "developer", "content": "x"}, (Text("x", ("content",)),)),
    (
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {}}]},
        (Text("x", ("content", 0)), Opaque("image_url", ("content", 1))),
    ),
    ({"role": "assistant", "content": None}, ()),
    ({"role": "assistant"}, ()),
    (
        {"role": "assistant", "reasoning": "r", "content": "x", "reasoning_content": "c"},
        (Reasoning("c", ("reasoning_content",)), Reasoning("r", ("reasoning",)), Text("x", ("content",))),
    ),
    (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "refusal": "never"},
        (Text("no", ("content", 0)), Text("never", ("refusal",))),
    ),
    (
        {"role": "assistant", "audio": {"id": "1"}, "reasoning_details": [{}], "content": None},
        (Opaque("audio", ("audio",)), Opaque("reasoning_details", ("reasoning_details",))),
    ),
    (
        {"role": "assistant", "tool_calls": [call("f", '{"b": 1}'), call("g", "ls", "b")]},
        (Call("a", "f", {"b": 1}, ("tool_calls", 0)), Call("b", "g", "ls", ("tool_calls", 1))),
    ),
    (
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "ls"}}]},
        (Call("a", "f", "ls", ("tool_calls", 0)),),
    ),
    (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        (Call("function:f", "f", {}, ("function_call",)),),
    ),
    ({"role": "function", "name": "f", "content": None}, (Result("function:f", "", False, ("content",)),)),
    ({"role": "tool", "tool_call_id": "a", "content": "x"}, (Result("a", "x", False, ("content",)),)),
    (
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}, {"type": "file"}]},
        (Result("a", "x", True, ("content",)),),
    ),
]


@pytest.mark.parametrize(("wire", "parts"), OPENAI_PARTS)
def test_openai_parts(wire: dict[str, Any], parts: tuple[Any, ...]) -> None:
    assert parts_of(wire) == parts


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "ls -la",
        "[1]",
        '"x"',
        "null",
        '{"a": ',
        '{"a": "\\ud800"}',
        '{"\\udc00": 1}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 100_000,
        '{"a": ' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_arguments_that_spell_no_object_that_can_be_written_again_stay_the_string(arguments: str) -> None:
    (part,) = parts_of({"role": "assistant", "tool_calls": [call("f", arguments)]})
    assert part.arguments == arguments


@given(
    st.dictionaries(
        st.sampled_from(("a", "\u00e9", "n" * 100_001)) | st.text(max_size=3),
        st.text(max_size=3) | st.just("x" * 100_001) | st.integers() | st.none() | st.lists(st.text(max_size=2)),
        max_size=18,
    )
)
def test_arguments_are_what_a_checked_copy_of_them_is(arguments: dict[str, Any]) -> None:
    """Short texts in ASCII are not copied once more."""
    assert parsed_arguments(json.dumps(arguments)) == CheckedCopy()(arguments, "arguments")


BAD_OPENAI: list[tuple[Any, str]] = [
    (None, "a NoneType, not an object"),
    ("text", "a str, not an object"),
    ([], "a list, not an object"),
    (object(), "a object, not an object.*\n.*model_dump"),
    ({}, "unknown role None"),
    ({"role": None, "content": "x"}, "unknown role None"),
    ({"role": "robot", "content": "x"}, "unknown role 'robot'"),
    ({"role": ["user"], "content": "x"}, r"unknown role \['user'\]"),
    ({"role": "User", "content": "x"}, "unknown role 'User'"),
    ({"role": "r" * 10**6, "content": "x"}, "unknown role 'rrr.{0,99}\n"),
    ({"role": "user"}, "no content"),
    ({"role": "user", "content": None}, "no content"),
    ({"role": "system", "content": 7}, "content is a int"),
    ({"role": "user", "content": {}}, "content is a dict"),
    ({"role": "user", "content": ["x"]}, "content part 0 has no type"),
    ({"role": "user", "content": [{"type": "text", "text": "x"}, {"text": "x"}]}, "content part 1 has no type"),
    ({"role": "user", "content": [{"type": 3}]}, "content part 0 has no type"),
    ({"role": "user", "content": [{"type": "text"}]}, "content part 0 is a text without a text string"),
    ({"role": "assistant", "content": [{"type": "refusal"}]}, "content part 0 is a refusal without a refusal"),
    ({"role": "assistant", "content": True}, "content is a bool"),
    ({"role": "assistant", "reasoning_content": []}, "reasoning_content is a list"),
    ({"role": "assistant", "reasoning": {}}, "reasoning is a dict"),
    ({"role": "assistant", "tool_calls": {}}, "tool_calls is a dict, not a list"),
    ({"role": "assistant", "tool_calls": ["x"]}, "tool call 0 is a str, not an object"),
    ({"role": "assistant", "tool_calls": [call(), {}]}, "tool call 1 has no id string"),
    ({"role": "assistant", "tool_calls": [{**call(), "id": 7}]}, "tool call 0 has no id string"),
    ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "tool call 0's function has no name string"),
    ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}, "no arguments string"),
    (
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
        "tool call 0's function has no arguments string",
    ),
    ({"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}, "tool call 0's custom has no name"),
    ({"role": "assistant", "function_call": "f"}, "function_call has no name string"),
    ({"role": "assistant", "function_call": {"name": "f"}}, "function_call has no arguments string"),
    ({"role": "tool", "content": "x"}, "a tool message without a tool_call_id"),
    ({"role": "tool", "tool_call_id": 1, "content": "x"}, "a tool message without a tool_call_id"),
    ({"role": "tool", "tool_call_id": "a"}, "no content"),
    ({"role": "function", "content": "x"}, "a function message without a name"),
]


@pytest.mark.parametrize(("message", "complaint"), BAD_OPENAI)
def test_bad_openai_messages_are_named_with_file_and_index(message: Any, complaint: str) -> None:
    with pytest.raises(RequestError, match=rf"(?s)^f\.json: message 2: .*{complaint}"):
        read_request({"messages": [USER, USER, message]}, protocol="openai", where="f.json")
