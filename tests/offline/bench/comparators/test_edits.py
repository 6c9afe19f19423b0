"""Edits of requests: other words in a part, and a section behind the task, in every wire shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from drsr.offline.bench.comparators.edits import cut, with_section, with_texts
from drsr.offline.bench.comparators.transcript import conversation
from drsr.request.history import read_history
from drsr.request.parts import PartRef, Result, Text
from drsr.request.request import Request, read_request
from tests.messages import SAYS, USER, answers, asks, returns, texts, uses
from tests.strategies import valid


@settings(max_examples=60)
@given(valid)
def test_other_words_reach_every_text_and_result_and_nothing_else(request: Request) -> None:
    before = json.dumps(request.to_wire())
    refs = {
        PartRef(index, number)
        for index, message in enumerate(request.messages)
        for number, part in enumerate(message.parts)
        if isinstance(part, Text | Result)
    }
    found = with_texts(request, dict.fromkeys(refs, "other words"))
    for index, message in enumerate(request.messages):
        assert len(found.messages[index].parts) == len(message.parts)
        for number, part in enumerate(message.parts):
            after = found.messages[index].parts[number]
            if (index, number) in refs:
                assert isinstance(after, Text | Result)
                assert after.text == "other words"
            else:
                assert after == part
    assert json.dumps(request.to_wire()) == before


def test_a_call_has_no_words_to_replace() -> None:
    with pytest.raises(ValueError, match="Call"):
        with_texts(read_request([USER, asks("a")]), {PartRef(1, 0): "x"})


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ("task", "task\n\n## Notes\n\nmore"),
        (texts("task"), texts("task", "## Notes\n\nmore")),
        ([], texts("## Notes\n\nmore")),
    ],
)
def test_a_section_stands_behind_the_task(content: Any, after: Any) -> None:
    request = read_request([{"role": "user", "content": content}, SAYS])
    assert with_section(request, 1, "Notes", "more").to_wire() == [{"role": "user", "content": after}, SAYS]


def test_a_section_is_no_part_of_a_demonstration() -> None:
    shown = {**USER, "is_demo": True}
    request = read_request([shown, USER, SAYS])
    assert with_section(request, 2, "Notes", "more").to_wire()[0] == shown
    alone = read_request([shown, {**SAYS, "is_demo": True}, SAYS])
    found = with_section(alone, read_history(alone).prefix_length, "Notes", "more").to_wire()
    assert found[2] == {"role": "user", "content": "## Notes\n\nmore"}


def test_where_the_user_has_said_nothing_a_section_is_a_message() -> None:
    request = read_request([{"role": "system", "content": "rules"}, SAYS])
    assert [message["role"] for message in with_section(request, 1, "Notes", "more").to_wire()] == [
        "system",
        "user",
        "assistant",
    ]


def test_cutting() -> None:
    request = read_request([USER, asks("a"), answers("a"), asks("b"), answers("b")])
    assert cut(read_history(request), 3).to_wire() == [USER, asks("b"), answers("b")]


def test_a_transcript_says_who_says_what() -> None:
    body = {"system": "rules", "messages": [USER, uses("a", state=texts("I look.")), returns("a", behind="go on")]}
    assert conversation(read_request(body)) == (
        "system: rules\n\nuser: task\n\nassistant: I look.\ncall f: {}\n\nresult: r\nuser: go on"
    )
