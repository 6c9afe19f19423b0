"""Agents that act in plain text (ReAct, fenced commands, tagged calls), turned into tool exchanges.

A style is used for a conversation only where the environment's replies show that it really was one: a chat about shell
commands, with a person who answers, stays a chat. The thought stays the assistant's content, the action becomes the
call, the reply behind it the result, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from drsr.offline.ingest.formats.chat_form import Chat, text_of, tool_call
from drsr.offline.ingest.trajectories import Json
from drsr.request import text_actions

_TOOL_RESPONSE = re.compile("<(tool_response)>"), re.compile("</tool_response>")


class Action(NamedTuple):
    """The words and actions in an assistant's text."""

    thought: str
    calls: tuple[Json, ...]


class Style(NamedTuple):
    """One way of writing actions as text."""

    name: str
    parse: Callable[[str], Action | None]
    begins_reply: Callable[[str], Any]
    """Says of a text whether the environment's replies begin like this."""

    def answers(self, message: Json) -> bool:
        """Return whether a message is a reply to an action, as it looks."""
        return self.begins_reply(text_of(message.get("content")).lstrip()) is not None


def fenced(text: str) -> Action | None:
    """Exactly one fenced command."""
    return _told(text_actions.fenced)(text)


def _told(parse: Callable[[str], text_actions.TextAction | None]) -> Callable[[str], Action | None]:
    """The same parser with calls in wire form."""

    def told(text: str) -> Action | None:
        found = parse(text)
        return found and Action(found.thought, tuple(tool_call(*call) for call in found.calls))

    return told


STYLES = (
    Style("tagged", _told(text_actions.tagged), re.compile("").match),  # the tags alone are beyond doubt
    Style("cline", _told(text_actions.cline), re.compile(r"\[\w[^\n]*\] Result:").match),
    Style("hermes", _told(text_actions.hermes), re.compile("<tool_response>").match),
    Style("code_act", _told(text_actions.code_act), re.compile("OBSERVATION:", re.I).match),
    Style(
        "react",
        _told(text_actions.react),
        re.compile(r"(?:Observation(?: \d+)?:|Obs(?: \d+)?:|API output:)", re.I).match,
    ),
    Style("fenced", fenced, re.compile(r"(?:<returncode>|<output>|Observation:|\[?exit code)", re.I).match),
)


def style_of(messages: Sequence[Json]) -> Style | None:
    """Return the style in which the assistant of a conversation acts, or None. One action with its reply is the
    evidence."""
    for style in STYLES:
        for message, reply in zip(messages, messages[1:], strict=False):
            if message.get("role") == "assistant" and reply.get("role") in ("user", "tool"):
                text = text_of(message.get("content"))
                if style.parse(text) and style.answers(reply):
                    return style
    return None


def add_turns(chat: Chat, messages: Sequence[Json], style: Style) -> None:
    """Every message of a conversation in this style, actions as tool exchanges."""
    waiting: list[Any] = []  # calls of the message before that its reply answers
    for index, message in enumerate(messages):
        role, content, demo = message.get("role"), message.get("content"), message.get("is_demo") is True
        text = text_of(content)
        if role == "assistant":
            action = style.parse(text)
            reply = messages[index + 1] if index + 1 < len(messages) else None
            if action and (reply is None or style.answers(reply)):
                chat.answer(action.thought or None, action.calls, demo=demo)
                waiting = list(action.calls)
            else:
                chat.answer(content, demo=demo)
        elif waiting and role in ("user", "tool"):
            for reply_text in _replies(text, len(waiting)):
                chat.result(None, reply_text, demo=demo)
            waiting = []
        else:
            chat.say("user" if role == "tool" else str(role), content, demo=demo)


def _replies(text: str, calls: int) -> list[str]:
    """One reply per call where the text holds as many tagged responses, else the whole text for the first call."""
    tagged = [reply.body.strip() for reply in text_actions.elements(_TOOL_RESPONSE, text)]
    return tagged if calls > 1 and len(tagged) == calls else [text]
