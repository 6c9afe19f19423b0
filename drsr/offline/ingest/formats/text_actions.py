"""Agents that act in plain text (ReAct, fenced commands, tagged calls), turned into tool exchanges.

A style is used for a conversation only where the environment's replies show that it really was one: a chat about shell
commands, with a person who answers, stays a chat. The thought stays the assistant's content, the action becomes the
call, the reply behind it the result, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from drsr.offline.ingest.formats.chat_form import Chat, text_of, tool_call
from drsr.offline.ingest.trajectories import Json

_SHELL_FENCE = re.compile(r"```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.S)
_FENCE = re.compile(r"```([^\n`]*)\n(.*?)\n?```", re.S)
_FUNCTION = re.compile(r"<function=([\w.-]+)>"), re.compile("</function>")
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>"), re.compile("</parameter>")
_TOOL_CALL = re.compile("<(tool_call)>"), re.compile("</tool_call>")
_TOOL_RESPONSE = re.compile("<(tool_response)>"), re.compile("</tool_response>")
_EXECUTE = re.compile("<execute_(bash|ipython|browse)>"), re.compile("</execute_(?:bash|ipython|browse)>")
_REACT = re.compile(
    r"^Action(?: \d+)?:[ \t]*\n?(?P<action>.*?)(?:^Action Input(?: \d+)?:[ \t]*\n?(?P<input>.*))?\Z", re.M | re.S
)
_CLINE_TOOLS = (
    *("execute_command", "read_file", "write_to_file", "replace_in_file", "search_files", "list_files", "apply_diff"),
    *("list_code_definition_names", "browser_action", "use_mcp_tool", "access_mcp_resource", "insert_content"),
    *("ask_followup_question", "attempt_completion", "new_task", "plan_mode_respond", "load_mcp_documentation"),
    *("search_and_replace", "switch_mode", "update_todo_list", "fetch_instructions", "codebase_search", "web_fetch"),
)
_CLINE = re.compile(f"<({'|'.join(_CLINE_TOOLS)})>")
_TAG = re.compile(r"<(\w+)>")
_BRACKETS = re.compile(r"(\w+)(?:\[(.*)\]|\((.*)\))", re.S)


class Action(NamedTuple):
    """The words and actions in an assistant's text."""

    thought: str
    calls: tuple[Json, ...]


class _Element(NamedTuple):
    """Return the text between an opening tag and the next closing one."""

    name: str
    body: str
    start: int
    end: int


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
    """Exactly one fenced shell block, or where none says that it is one, exactly one that says nothing.

    Agents quote output and code beside the command, in blocks that are not commands.
    """
    found = list(_SHELL_FENCE.finditer(text))
    if not found:
        found = [match for match in _FENCE.finditer(text) if not match[1].strip()]
    if len(found) != 1:
        return None
    block = _Element("bash", found[0][found[0].re.groups], *found[0].span())
    return _action([block], text, lambda block: tool_call("bash", {"command": block.body}))


def _tagged(text: str) -> Action | None:
    """`<function=name><parameter=key>value</parameter></function>`, once or more."""
    found = list(_elements(_FUNCTION, text))
    return _action(found, text, lambda each: tool_call(each.name, _parameters(each.body))) if found else None


def _hermes(text: str) -> Action | None:
    """`<tool_call>{"name": ..., "arguments": ...}</tool_call>`, once or more."""
    found = list(_elements(_TOOL_CALL, text))
    bodies = {each: _json_object(each.body) or {} for each in found}
    if not found or not all(isinstance(body.get("name"), str) for body in bodies.values()):
        return None
    return _action(found, text, lambda each: tool_call(bodies[each]["name"], _arguments(bodies[each].get("arguments"))))


def _code_act(text: str) -> Action | None:
    """`<execute_bash>command</execute_bash>`."""
    found = list(_elements(_EXECUTE, text))
    if len(found) != 1:
        return None
    return _action(found, text, lambda each: tool_call(f"execute_{each.name}", {"command": each.body.strip()}))


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


def _cline(text: str) -> Action | None:
    """Cline's and Roo Code's `<read_file><path>...</path></read_file>`, at most one tool per message."""
    start = _CLINE.search(text)
    end = -1 if start is None else text.rfind(f"</{start[1]}>", start.end())
    if start is None or end < 0:
        return None
    call = tool_call(start[1], _cline_parameters(text[start.end() : end]))
    return Action(text[: start.start()].strip(), (call,))


def _cline_parameters(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    start = _TAG.search(body)
    while start is not None:
        end = body.find(f"</{start[1]}>", start.end())
        if end < 0:
            return found
        found[start[1]] = body[start.end() : end].strip("\n")
        start = _TAG.search(body, end)
    return found


STYLES = (
    Style("tagged", _tagged, re.compile("").match),  # the tags alone are beyond doubt
    Style("cline", _cline, re.compile(r"\[\w[^\n]*\] Result:").match),
    Style("hermes", _hermes, re.compile("<tool_response>").match),
    Style("code_act", _code_act, re.compile("OBSERVATION:", re.I).match),
    Style("react", _react, re.compile(r"(?:Observation(?: \d+)?:|Obs(?: \d+)?:|API output:)", re.I).match),
    Style("fenced", fenced, re.compile(r"(?:<returncode>|<output>|Observation:|\[?exit code)", re.I).match),
)


def style_of(messages: Sequence[Json]) -> Style | None:
    """The style in which the assistant of a conversation acts, or None. One action with its reply is the evidence."""
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
    tagged = [reply.body.strip() for reply in _elements(_TOOL_RESPONSE, text)]
    return tagged if calls > 1 and len(tagged) == calls else [text]


def _elements(tags: tuple[re.Pattern[str], re.Pattern[str]], text: str) -> Iterator[_Element]:
    """Everything between an opening tag and the next closing one, in time linear in the text.

    One pattern for both tags would search from each opening tag to the end where no closing one follows.
    """
    opening, closing = tags
    start = opening.search(text)
    while start is not None:
        end = closing.search(text, start.end())
        if end is None:
            return
        yield _Element(start[1], text[start.end() : end.start()], start.start(), end.end())
        start = opening.search(text, end.end())


def _action(found: list[_Element], text: str, call: Callable[[_Element], Json]) -> Action:
    thought = (text[: found[0].start].rstrip() + text[found[-1].end :].rstrip()).strip()
    return Action(thought, tuple(call(each) for each in found))


def _parameters(body: str) -> dict[str, str]:
    return {each.name: each.body.strip("\n") for each in _elements(_PARAMETER, body)}


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
