"""Agents that act in plain text, and chats that only look like it."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest

from drsr.offline.ingest.formats.text_actions import STYLES, _replies, fenced, style_of
from tests.offline.ingest.formats.files import one, read_value, shape


def conversation(action: str, reply: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": action},
        {"role": "user", "content": reply},
        {"role": "assistant", "content": "Finished."},
    ]


@pytest.mark.parametrize(
    ("action", "reply", "thought", "name", "arguments"),
    [
        ("Thought: find\nAction: search[wheel]", "Observation: round", "Thought: find", "search", {"input": "wheel"}),
        (
            "Thought: x\nAction: search\nAction Input: wheel",
            "Observation: a",
            "Thought: x",
            "search",
            {"input": "wheel"},
        ),
        ('T\nAction: search\nAction Input: {"q": "w"}', "Observation: a", "T", "search", {"q": "w"}),
        ('T\nAction:\n{"name": "get", "arguments": {"id": 3}}', "API output: 4", "T", "get", {"id": 3}),
        ("T\nAction: go to desk 1", "Observation: a desk", "T", "act", {"command": "go to desk 1"}),
        ("THOUGHT: look\n\n```bash\nls\n```", "<returncode>0</returncode>", "THOUGHT: look", "bash", {"command": "ls"}),
        (
            "I run it.\n<function=execute_bash>\n<parameter=command>\nls -a\n</parameter>\n</function>",
            "EXECUTION RESULT of [execute_bash]:\nwheel.py",
            "I run it.",
            "execute_bash",
            {"command": "ls -a"},
        ),
        ("ok <execute_bash>ls</execute_bash>", "OBSERVATION: a", "ok", "execute_bash", {"command": "ls"}),
        (
            'ok\n<tool_call>\n{"name": "get", "arguments": {"id": 3}}\n</tool_call>',
            "<tool_response>\n4\n</tool_response>",
            "ok",
            "get",
            {"id": 3},
        ),
        (
            "I look.\n\n<write_to_file>\n<path>a.html</path>\n<content>\n<b>x</b>\n</content>\n</write_to_file>",
            "[write_to_file for 'a.html'] Result:\nThe file was saved.",
            "I look.",
            "write_to_file",
            {"path": "a.html", "content": "<b>x</b>"},
        ),
    ],
)
def test_text_actions_become_tool_exchanges(
    action: str, reply: str, thought: str, name: str, arguments: dict[str, Any]
) -> None:
    trajectory = one(read_value(conversation(action, reply)))
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant"]
    message, answer = trajectory.request["messages"][1:3]
    call = message["tool_calls"][0]
    assert message["content"] == thought
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (name, arguments)
    assert call["id"] == answer["tool_call_id"] == "call_0001"
    assert answer["content"] == reply


@pytest.mark.parametrize(
    ("action", "reply"),
    [
        ("Try this:\n```bash\nls\n```", "Thanks, it works now."),
        ("Action: call the office tomorrow.", "I will."),
        ("Use it like <read_file><path>a</path></read_file>.", "Thanks."),
        ("Two ways:\n```bash\nls\n```\nor\n```bash\ndir\n```", "<output>both</output>"),
    ],
)
def test_a_chat_with_a_person_stays_a_chat(action: str, reply: str) -> None:
    trajectory = one(read_value(conversation(action, reply)))
    assert shape(trajectory) == ["user", "assistant", "user", "assistant"]


def test_several_calls_of_one_message_each_get_their_reply() -> None:
    action = "".join(f'<tool_call>{{"name": "get", "arguments": {{"id": {n}}}}}</tool_call>' for n in (1, 2))
    reply = "<tool_response>one</tool_response><tool_response>two</tool_response>"
    trajectory = one(read_value(conversation(action, reply)))
    assert shape(trajectory) == ["user", "assistant+2", "tool", "tool", "assistant"]
    assert [message["content"] for message in trajectory.request["messages"][2:4]] == ["one", "two"]


def test_an_action_at_the_end_stays_unanswered() -> None:
    messages = [
        *conversation("```bash\nls\n```", "<output>a</output>"),
        {"role": "assistant", "content": "```bash\nexit\n```"},
    ]
    assert shape(one(read_value(messages)))[-1] == "assistant+1"


def test_exactly_one_fenced_command_is_an_action() -> None:
    assert fenced("no command") is None
    assert fenced("```bash\nls\n```\n```bash\npwd\n```") is None
    assert fenced("```python\nprint()\n```") is None
    action = fenced("before\n```bash\nls\n```\nafter")
    assert action is not None
    assert action.thought == "before\nafter"


UNITS = [
    "<function=a>",
    "<tool_call>{",
    "<execute_bash>",
    "Action: x\n",
    "```bash\n",
    "<parameter=p>",
    "<tool_response>",
]
UNITS += [
    " ",
    "\t\n",
    "Action 1",
    "a[",
    "a(",
    "Action Input:\n",
    "```",
    "``` ",
    "<function=",
    "</execute_",
    "Observation 1",
    "<read_file>",
    "<a>",
    "[a] ",
    "a",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("lead", ["", "<tool_response>", "Action: a", "<function=a>", "["])
@pytest.mark.parametrize("end", ["", "</execute_zip>", "</function></tool_call></read_file>"])
def test_hostile_text_takes_no_more_than_linear_time(unit: str, lead: str, end: str) -> None:
    text = lead + unit * (200_000 // len(unit)) + end
    gc.disable()  # a collection that goes through all that other tests loaded takes longer than this
    try:
        started = time.process_time()
        for style in STYLES:
            style.parse(text)
            style.answers({"content": text})
        _replies(text, 2)
        assert time.process_time() - started < 1
    finally:
        gc.enable()


def test_replies_lose_the_blanks_around_them() -> None:
    reply = "<tool_response>\n one\n</tool_response> <tool_response> </tool_response>"
    assert _replies(reply, 2) == ["one", ""]
    assert _replies(reply, 1) == [reply]


def test_no_style_without_evidence() -> None:
    assert style_of([]) is None
    assert style_of([{"role": "assistant", "content": "Action: x"}]) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("It fails:\n\n```\nTypeError\n```\n\nso I look.\n\n```bash\nls\n```", "ls"),
        ("```python\nx = 1\n```\nThen:\n```bash\nls\n```\nand expect\n```\nfiles\n```", "ls"),
        ("```python\nx = 1\n```\nThen:\n```\nls\n```", "ls"),
        ("```bash\nls\n```\n```bash\npwd\n```", None),
        ("```\nls\n```\n```\npwd\n```", None),
        ("```python\nx = 1\n```", None),
    ],
)
def test_quoted_output_and_code_beside_the_command_are_no_commands(text: str, command: str | None) -> None:
    action = fenced(text)
    found = None if action is None else json.loads(action.calls[0]["function"]["arguments"])["command"]
    assert found == command
