"""What is taken as it stands is what building it message by message would give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import wire_form
from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.openai_chat import add_message
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import Unreadable
from tests.offline.ingest.formats.files import text_call
from tests.offline.ingest.formats.miniatures import CHAT

IDS = st.sampled_from(["a", "b", "c"])
CALLS = st.lists(IDS.map(lambda call_id: text_call("look", {}, call_id)), min_size=1, max_size=2)
IN_FORM = st.one_of(
    st.builds(lambda role: {"role": role, "content": "text"}, st.sampled_from(wire_form.SPEAKERS)),
    st.builds(lambda content, calls: {"role": "assistant", "content": content, "tool_calls": calls}, st.none(), CALLS),
    st.builds(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "seen"}, IDS),
    st.builds(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "", "name": "look"}, IDS),
)


def taken(messages: list[Json]) -> list[Json] | str:
    """What a chat hands out that took these messages, or why it refused them."""
    chat = Chat()
    try:
        for message in messages:
            add_message(chat, message)
    except Unreadable as problem:
        return problem.reason
    return chat.messages()


def built(messages: list[Json]) -> list[Json] | str:
    """The obvious way: every message is built anew, none is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_form, "kind_of", lambda message: None)
        patch.setattr(wire_form, "is_call", lambda call: False)
        return taken(messages)


@given(st.lists(IN_FORM, max_size=8))
def test_a_conversation_in_wire_form_is_what_building_it_gives(messages: list[Json]) -> None:
    assert wire_form.is_conversation(messages) == (messages == built(messages))


@given(st.lists(IN_FORM, max_size=8))
def test_messages_that_are_kept_are_what_building_them_gives(messages: list[Json]) -> None:
    assert taken(messages) == built(messages)


def test_the_sample_conversation_is_in_wire_form() -> None:
    assert wire_form.is_conversation(CHAT)
    assert built(CHAT) == CHAT


def call(**changes: Any) -> Json:
    return {**text_call("look", {}, "a"), **changes}


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user"},
        {"role": "user", "content": ""},
        {"role": "user", "content": None},
        {"role": "user", "content": ["text"]},
        {"role": "nobody", "content": "text"},
        {"role": ["user"], "content": "text"},
        {"role": "user", "content": "text", "is_demo": True},
        {"role": "tool", "content": "text"},
        {"role": "tool", "content": "text", "tool_call_id": 1},
        {"role": "tool", "content": None, "tool_call_id": "a"},
        {"role": "tool", "content": "text", "tool_call_id": "a", "name": None},
        {"role": "tool", "content": "text", "tool_call_id": "a", "is_demo": True},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": None},
        {"role": "assistant", "tool_calls": [call()]},
        {"role": "user", "content": None, "tool_calls": [call()]},
        {"role": "assistant", "content": "text", "tool_calls": [call()], "reasoning_content": "so"},
        {"role": "assistant", "content": None, "tool_calls": [call(), None]},
        *[
            {"role": "assistant", "content": None, "tool_calls": [call(**changes)]}
            for changes in (
                {"id": ""},
                {"id": None},
                {"type": "custom"},
                {"index": 0},
                {"function": None},
                {"function": {"name": "", "arguments": "{}"}},
                {"function": {"name": "look", "arguments": {}}},
                {"function": {"name": "look", "arguments": "{}", "strict": True}},
            )
        ],
    ],
)
def test_whatever_else_there_is_makes_it_no_wire_form(message: Json) -> None:
    assert wire_form.kind_of(message) is None
    assert not wire_form.is_conversation([message])
