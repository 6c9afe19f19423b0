"""Gemini's contents as a conversation: `role` user or model, `parts` with text, functionCall and functionResponse.

Calls seldom have ids: a response then answers the oldest open call of its name. A model's turn may stand in several
contents behind one another (text, then calls); they are one message. Thoughts are reasoning. Both spellings of a
field's name are in use (`functionCall`, `function_call`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.reader import as_dict, as_list, dig, identity
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import Unreadable

ROLES = ("user", "model", "function", "tool")


def field(value: Any, name: str) -> Any:
    """Return a field in either spelling; `name` is the one with capitals."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    found = dig(value, name)
    return dig(value, snake) if found is None else found


def is_content(value: Any) -> bool:
    """Return whether a value is a content: a role, and parts that are recognised by their key, not by a type."""
    if not isinstance(value, dict) or not isinstance(value.get("parts"), list) or "content" in value:
        return False
    if value.get("role", "user") not in ROLES:
        return False
    parts = [part for part in value["parts"] if isinstance(part, dict)]
    return bool(parts) and not any("type" in part or "kind" in part or "part_kind" in part for part in parts)


def read_contents(chat: Chat, contents: list[Any]) -> None:
    """Every content, in order."""
    _Contents(chat).read(contents)


def read_declarations(tools: Any) -> list[Json]:
    """Gemini's tool declarations in OpenAI's form."""
    made = []
    for tool in tools if isinstance(tools, list) else ():
        declared = field(tool, "functionDeclarations")
        for function in declared if isinstance(declared, list) else ():
            if isinstance(function, dict):
                parameters = function.get("parameters") or field(function, "parametersJsonSchema") or {}
                told = {"name": function.get("name"), "description": function.get("description")}
                made.append({"type": "function", "function": {**told, "parameters": parameters}})
    return made


class _Contents:
    """The model's turn at hand, and the open calls by name."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._said: list[Json] = []
        self._thoughts: list[str] = []
        self._calls: list[Json] = []
        self._open: dict[str, list[str]] = {}
        self._made = 0

    def read(self, contents: list[Any]) -> None:
        for index, content in enumerate(contents):
            fields = as_dict(content, f"content {index}")
            parts = [as_dict(part, "a part") for part in as_list(fields.get("parts") or [], "parts")]
            if fields.get("role", "user") == "model":
                self._model(parts)
            else:
                self._flush()
                self._user(parts)
        self._flush()

    def _model(self, parts: Iterable[Json]) -> None:
        for part in parts:
            call = field(part, "functionCall")
            if call is not None:
                self._call(as_dict(call, "functionCall"))
            elif part.get("thought") is True:
                self._thoughts += [part["text"]] if isinstance(part.get("text"), str) else []
            elif (said := _said(part)) is not None:
                self._said.append(said)

    def _call(self, call: Json) -> None:
        name = identity(call.get("name")) or ""
        self._made += 1
        call_id = identity(call.get("id")) or f"call_{self._made:04d}"
        self._calls.append(tool_call(name, call.get("args"), call_id))
        self._open.setdefault(name, []).append(call_id)

    def _user(self, parts: Iterable[Json]) -> None:
        said = []
        for part in parts:
            response = field(part, "functionResponse")
            if response is not None:
                self._result(as_dict(response, "functionResponse"))
            elif (other := _said(part)) is not None:
                said.append(other)
        self._chat.say("user", said or None)

    def _result(self, response: Json) -> None:
        name, call_id = identity(response.get("name")) or "", identity(response.get("id"))
        waiting = self._open.get(name, [])
        if call_id is None:
            if not waiting:
                raise Unreadable("dangling_result", f"a response of {name!r}, which no content before it calls")
            call_id = waiting[0]
        if call_id in waiting:
            waiting.remove(call_id)
        self._chat.result(call_id, told(response.get("response")), name=name or None)

    def _flush(self) -> None:
        self._chat.answer(self._said or None, self._calls, reasoning="\n\n".join(self._thoughts) or None)
        self._said, self._thoughts, self._calls = [], [], []


def told(response: Any) -> Any:
    """Return a result as text: the one field that wraps a plain string is taken off, anything else is JSON."""
    if isinstance(response, dict) and len(response) == 1:
        (value,) = response.values()
        return value if isinstance(value, str) else response
    return response if isinstance(response, str | dict | list | None) else str(response)


def _said(part: Json) -> Json | None:
    """A part in the wire form's spelling; None for an empty part."""
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]} if part["text"] else None
    data, code = field(part, "inlineData"), field(part, "executableCode")
    if isinstance(data, dict):
        url = f"data:{field(data, 'mimeType')};base64,{data.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(code, dict) and isinstance(code.get("code"), str):
        return {"type": "text", "text": code["code"]}
    if isinstance(output := dig(field(part, "codeExecutionResult"), "output"), str):
        return {"type": "text", "text": output}
    file = dig(field(part, "fileData"), "fileUri") or dig(field(part, "fileData"), "file_uri")
    return {"type": "file", "file": {"file_id": file}} if isinstance(file, str) else None
