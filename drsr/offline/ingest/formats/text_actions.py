"""Agents that act in plain text (ReAct, fenced commands, tagged calls), turned into tool exchanges.

A style is used for a conversation only where the environment's replies show that it really was one: a chat about shell
commands, with a person who answers, stays a chat. The thought stays the assistant's content, the action becomes the
call, the reply behind it the result, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from drsr.offline.ingest.formats.chat_form import Chat, text_of, tool_call
from drsr.offline.ingest.trajectories import Json

_FENCE = re.compile(r"```(?:bash|sh|shell|mswea_bash_command)?[ \t]*\n(.*?)\n?```", re.S)
_TAGGED = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.S)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.S)
_HERMES = re.compile(r"<tool_call>(.*?)</tool_call>", re.S)
_CODE_ACT = re.compile(r"<execute_(bash|ipython|browse)>(.*?)</execute_(?:bash|ipython|browse)>", re.S)
_REACT = re.compile(
    r"^Action(?: \d+)?:[ \t]*\n?(?P<action>.*?)(?:^Action Input(?: \d+)?:[ \t]*\n?(?P<input>.*))?\Z", re.M | re.S
)
_BRACKETS = re.compile(r"(\w+)(?:\[(.*)\]|\((.*)\))", re.S)


class Action(NamedTuple):
    """What an assistant's text says and does."""

    thought: str
    calls: tuple[Json, ...]


class Style(NamedTuple):
    """One way of writing actions as text."""

    name: str
    parse: Callable[[str], Action | None]
    reply: re.Pattern[str]
    """What the environment's replies look like."""


def fenced(text: str) -> Action | None:
    """Exactly one fenced shell block."""
    found = list(_FENCE.finditer(text))
    return _action(found, text, lambda match: tool_call("bash", {"command": match[1]})) if len(found) == 1 else None


def _tagged(text: str) -> Action | None:
    """`<function=name><parameter=key>value</parameter></function>`, once or more."""
    found = _closed(_TAGGED, text, "</function>")
    return _action(found, text, lambda match: tool_call(match[1], _parameters(match[2]))) if found else None


def _hermes(text: str) -> Action | None:
    """`<tool_call>{"name": ..., "arguments": ...}</tool_call>`, once or more."""
    found = _closed(_HERMES, text, "</tool_call>")
    bodies = {match: _json_object(match[1]) or {} for match in found}
    if not found or not all(isinstance(body.get("name"), str) for body in bodies.values()):
        return None
    return _action(
        found, text, lambda match: tool_call(bodies[match]["name"], _arguments(bodies[match].get("arguments")))
    )


def _code_act(text: str) -> Action | None:
    """`<execute_bash>command</execute_bash>`."""
    found = _closed(_CODE_ACT, text, "</execute_")
    if len(found) != 1:
        return None
    return _action(found, text, lambda match: tool_call(f"execute_{match[1]}", {"command": match[2].strip()}))


def _react(text: str) -> Action | None:
    """`Action: tool` with `Action Input: ...`, `Action: tool[...]`, or `Action:` and a JSON object."""
    match = _REACT.search(text)
    if match is None or not match["action"].strip():
        return None
    action, thought = match["action"].strip(), text[: match.start()].rstrip()
    if match["input"] is not None:
        return Action(thought, (tool_call(action, _arguments(match["input"].strip())),))
    body = _json_object(action)
    if body and isinstance(body.get("name"), str):
        return Action(thought, (tool_call(body["name"], _arguments(body.get("arguments"))),))
    if bracketed := _BRACKETS.fullmatch(action):
        inside = bracketed[2] if bracketed[2] is not None else bracketed[3]
        return Action(thought, (tool_call(bracketed[1], {"input": inside}),))
    return Action(thought, (tool_call("act", {"command": action}),))


STYLES = (
    Style("tagged", _tagged, re.compile("")),  # the tags alone are beyond doubt
    Style("hermes", _hermes, re.compile(r"\s*<tool_response>")),
    Style("code_act", _code_act, re.compile(r"\s*OBSERVATION:", re.I)),
    Style("react", _react, re.compile(r"\s*(?:Observation(?: \d+)?:|Obs(?: \d+)?:|API output:)", re.I)),
    Style("fenced", fenced, re.compile(r"\s*(?:<returncode>|<output>|Observation:|\[?exit code)", re.I)),
)


def style_of(messages: Sequence[Json]) -> Style | None:
    """The style in which the assistant of a conversation acts, or None. One action with its reply is the evidence."""
    for style in STYLES:
        for message, reply in zip(messages, messages[1:], strict=False):
            if message.get("role") == "assistant" and reply.get("role") in ("user", "tool"):
                text = text_of(message.get("content"))
                if style.parse(text) and style.reply.match(text_of(reply.get("content"))):
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
            if action and (reply is None or style.reply.match(text_of(reply.get("content")))):
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
    tagged = re.findall(r"<tool_response>\s*(.*?)\s*</tool_response>", text, re.S)
    return tagged if calls > 1 and len(tagged) == calls else [text]


def _closed(pattern: re.Pattern[str], text: str, closing: str) -> list[re.Match[str]]:
    """All matches up to the last closing tag: beyond it each opening tag would be searched to the end in vain."""
    end = text.rfind(closing)
    return [] if end < 0 else list(pattern.finditer(text, 0, end + len(closing) + len("ipython>")))


def _action(found: list[re.Match[str]], text: str, call: Callable[[re.Match[str]], Json]) -> Action:
    thought = (text[: found[0].start()].rstrip() + text[found[-1].end() :].rstrip()).strip()
    return Action(thought, tuple(call(match) for match in found))


def _parameters(body: str) -> dict[str, str]:
    return {match[1]: match[2].strip("\n") for match in _PARAMETER.finditer(body)}


def _arguments(value: Any) -> Any:
    """Arguments as an object; what is none is put under `input`."""
    if isinstance(value, str):
        value = _json_object(value) or {"input": value}
    return value if isinstance(value, dict) or value is None else {"input": value}


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
