"""Agents that act in plain text: ReAct, fenced commands, tagged calls.

An assistant's text holds a thought and an action, and the next message of the user is the environment's observation. If
the form of both is unmistakable they are one exchange, which is deleted or kept as a whole. Nothing is rewritten: the
messages keep their wire form. Ingest reads recorded runs with the same parsers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from drsr.request.parts import Call, Message, Opaque, Reasoning, Result, Text
from drsr.request.request import Request

_SHELL_FENCE = re.compile(r"```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.S)
_FENCE = re.compile(r"```([^\n`]*)\n(.*?)\n?```", re.S)
_FUNCTION = re.compile(r"<function=([\w.-]+)>"), re.compile("</function>")
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>"), re.compile("</parameter>")
_TOOL_CALL = re.compile("<(tool_call)>"), re.compile("</tool_call>")
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


class TextCall(NamedTuple):
    """One action."""

    name: str
    arguments: Any


class TextAction(NamedTuple):
    """The words and actions in an assistant's text."""

    thought: str
    calls: tuple[TextCall, ...]


class _Element(NamedTuple):
    """The text between an opening tag and the next closing one."""

    name: str
    body: str
    start: int
    end: int


class _Form(NamedTuple):
    """One way of acting in text that cannot be mistaken for a human chat."""

    parse: Callable[[str], TextAction | None]
    observes: Callable[[str], Any]
    """Returns whether a text is an observation in this form."""


def fenced(text: str) -> TextAction | None:
    """Find exactly one fenced block marked as shell or, if no block is marked, exactly one block without a language.

    Agents also quote output and code, in blocks that are not commands.
    """
    found = list(_SHELL_FENCE.finditer(text))
    if not found:
        found = [match for match in _FENCE.finditer(text) if not match[1].strip()]
    if len(found) != 1:
        return None
    block = _Element("bash", found[0][found[0].re.groups], *found[0].span())
    return _action([block], text, lambda block: TextCall("bash", {"command": block.body}))


def tagged(text: str) -> TextAction | None:
    """`<function=name><parameter=key>value</parameter></function>`, once or more."""
    found = list(elements(_FUNCTION, text))
    return _action(found, text, lambda each: TextCall(each.name, _parameters(each.body))) if found else None


def hermes(text: str) -> TextAction | None:
    """`<tool_call>{"name": ..., "arguments": ...}</tool_call>`, once or more."""
    found = list(elements(_TOOL_CALL, text))
    bodies = {each: _json_object(each.body) or {} for each in found}
    if not found or not all(isinstance(body.get("name"), str) for body in bodies.values()):
        return None
    return _action(found, text, lambda each: TextCall(bodies[each]["name"], _arguments(bodies[each].get("arguments"))))


def code_act(text: str) -> TextAction | None:
    """`<execute_bash>command</execute_bash>`."""
    found = list(elements(_EXECUTE, text))
    if len(found) != 1:
        return None
    return _action(found, text, lambda each: TextCall(f"execute_{each.name}", {"command": each.body.strip()}))


def react(text: str) -> TextAction | None:
    """`Action: tool` with `Action Input: ...`, `Action: tool[...]`, or `Action:` and a JSON object."""
    match = _REACT.search(text)
    if match is None or not match["action"].strip():
        return None
    action, thought = match["action"].strip(), text[: match.start()].rstrip()
    if match["input"] is not None:
        return TextAction(thought, (TextCall(action, _arguments(match["input"].strip())),))
    body = _json_object(action)
    if body and isinstance(body.get("name"), str):
        return TextAction(thought, (TextCall(body["name"], _arguments(body.get("arguments"))),))
    if bracketed := _BRACKETS.fullmatch(action):
        inside = bracketed[2] if bracketed[2] is not None else bracketed[3]
        return TextAction(thought, (TextCall(bracketed[1], {"input": inside}),))
    return TextAction(thought, (TextCall("act", {"command": action}),))


def cline(text: str) -> TextAction | None:
    """Cline's and Roo Code's `<read_file><path>...</path></read_file>`, at most one tool per message."""
    start = _CLINE.search(text)
    end = -1 if start is None else text.rfind(f"</{start[1]}>", start.end())
    if start is None or end < 0:
        return None
    call = TextCall(start[1], _cline_parameters(text[start.end() : end]))
    return TextAction(text[: start.start()].strip(), (call,))


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


def _prompts(text: str) -> bool:
    """SWE-agent's shell ends every observation with its prompt."""
    return text.rstrip().endswith("bash-$")


_FORMS = (
    _Form(tagged, re.compile(r"EXECUTION RESULT of \[|OBSERVATION:|<tool_response>").match),
    _Form(cline, re.compile(r"\[\w[^\n]*\] Result:").match),
    _Form(hermes, re.compile("<tool_response>").match),
    _Form(code_act, re.compile("OBSERVATION:", re.I).match),
    _Form(react, re.compile(r"Observation(?: \d+)?:|Obs(?: \d+)?:|API output:", re.I).match),
    _Form(fenced, re.compile(r"<returncode>|<output>|Observation:|\[?exit code", re.I).match),
    _Form(fenced, _prompts),
)


def with_text_actions(request: Request) -> Request:
    """Return the request with actions and observations expressed as calls and results, or unchanged if it makes tool
    calls or does not act in such a form. Only for decisions: recorded runs are converted when they are ingested."""
    messages = request.messages
    if any(message.calls or message.results for message in messages):
        return request
    texts = [_text(message) for message in messages]
    for form in _FORMS:
        told = list(messages)
        for index, (text, reply) in enumerate(pairwise(texts)):
            if messages[index].role != "assistant" or messages[index + 1].role != "user" or not text or not reply:
                continue
            action = form.parse(text) if form.observes(reply.lstrip()) else None
            if action is not None:
                told[index : index + 2] = _exchange(messages[index], messages[index + 1], action, reply, index)
        if told != list(messages):
            return request.with_messages(told)
    return request


def _text(message: Message) -> str | None:
    """Return all text of a message; None if it is an example or an assistant message that holds more than text and
    reasoning."""
    others = [part for part in message.parts if not isinstance(part, Text)]
    if message.demonstration or (message.role == "assistant" and not all(isinstance(o, Reasoning) for o in others)):
        return None
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _exchange(message: Message, reply: Message, action: TextAction, observed: str, index: int) -> list[Message]:
    """Return the two messages as one exchange. Several actions that one message answers are one call."""
    first = action.calls[0]
    arguments = first.arguments if len(action.calls) == 1 else {"calls": [call._asdict() for call in action.calls]}
    place = ("content",)
    parts = [part for part in message.parts if isinstance(part, Reasoning)]
    thought = [Text(action.thought, place)] if action.thought else []
    call = Call(f"text:{index}", first.name, {} if arguments is None else arguments, place)
    opaque = any(isinstance(part, Opaque) for part in reply.parts)
    return [
        replace(message, parts=(*parts, *thought, call), text_action=True),
        replace(reply, role="tool", parts=(Result(call.id, observed, opaque, place),)),
    ]


def elements(tags: tuple[re.Pattern[str], re.Pattern[str]], text: str) -> Iterator[_Element]:
    """Yield everything between an opening tag and the next closing one, in time linear in the text.

    One pattern for both tags would search from each opening tag to the end if no closing one follows.
    """
    opening, closing = tags
    start = opening.search(text)
    while start is not None:
        end = closing.search(text, start.end())
        if end is None:
            return
        yield _Element(start[1], text[start.end() : end.start()], start.start(), end.end())
        start = opening.search(text, end.end())


def _action(found: list[_Element], text: str, call: Callable[[_Element], TextCall]) -> TextAction:
    thought = (text[: found[0].start].rstrip() + text[found[-1].end :].rstrip()).strip()
    return TextAction(thought, tuple(call(each) for each in found))


def _parameters(body: str) -> dict[str, str]:
    return {each.name: each.body.strip("\n") for each in elements(_PARAMETER, body)}


def _arguments(value: Any) -> Any:
    """Return arguments as an object; anything else is put under `input`."""
    if isinstance(value, str):
        value = _json_object(value) or {"input": value}
    return value if isinstance(value, dict) or value is None else {"input": value}


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_int=_whole)
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _whole(digits: str) -> int | float:
    """Beyond 64 bits a float: so runs that were recorded long ago have been read."""
    value = int(digits) if len(digits) < 25 else 1 << 64
    return value if -(1 << 63) <= value < 1 << 64 else float(digits)
