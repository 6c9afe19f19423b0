"""Vercel AI SDK: messages of its user interface, as a list, one by one, or in an object with `messages`.

Version 4 has `toolInvocations` beside `content`, and from 4.2 on the same in `parts` (`tool-invocation`); version 5 has
`parts` only (`tool-NAME`, `dynamic-tool`). One message of the assistant holds all steps of its turn: `step-start`, a
change of an invocation's `step`, or words behind a call begin the next step, and each step is one answer of the model.
Without parts, the words of a version 4 message were said after its calls, as the SDK itself sends them.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.chat_lookalikes import are_ui_messages, is_ui_message
from drsr.offline.ingest.formats.openai_chat import first_identity
from drsr.offline.ingest.formats.reader import (
    Format,
    Pieces,
    Run,
    as_dict,
    as_list,
    dig,
    identity,
    score,
    whole_or_in_pieces,
)
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_ID_KEYS = ("trajectory_id", "run_id", "chatId", "chat_id", "conversation_id", "session_id", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")
_RESULTS = {"result": "result", "output-available": "output", "output-error": "errorText", "error": "errorText"}
"""By the state of a call, the field with what came back."""


def _recognises(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else value
    if isinstance(value, dict) and is_ui_message(value):
        return False
    return isinstance(messages, list) and are_ui_messages(messages)


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {"messages": value}
    chat = Chat()
    if isinstance(fields.get("system"), str):
        chat.say("system", fields["system"])
    for message in as_list(fields.get("messages"), "messages"):
        _add(chat, as_dict(message, "a message"))
    return Run(
        place=record.place,
        protocol="openai",
        request={"messages": chat.messages()},
        local_id=first_identity(fields, _ID_KEYS),
        task=first_identity(fields, _TASK_KEYS),
        domain=identity(fields.get("domain")),
        reward=score(fields.get("reward")),
    )


def _add(chat: Chat, message: Json) -> None:
    role, parts = message.get("role"), message.get("parts")
    if role == "data":  # for the interface only, never sent to a model
        return
    if role != "assistant":
        chat.say(str(role), _said(parts) if isinstance(parts, list) and parts else message.get("content"))
    elif isinstance(parts, list) and parts:
        _add_steps(chat, [as_dict(part, "a part") for part in parts])
    else:
        _add_invocations(chat, message)


def _add_steps(chat: Chat, parts: list[Json]) -> None:
    step = _Step(chat)
    for part in parts:
        step.add(part)
    step.end()


class _Step:
    """One answer of the model under construction."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._said: list[Json] = []
        self._thoughts: list[str] = []
        self._invocations: list[Json] = []

    def add(self, part: Json) -> None:
        kind = str(part.get("type"))
        invocation = _invocation(part, kind)
        if invocation is not None:
            if self._invocations and self._invocations[-1].get("step", 0) != invocation.get("step", 0):
                self.end()
            self._invocations.append(invocation)
        elif kind == "step-start":
            self.end()
        elif kind in ("text", "reasoning", "file"):
            if self._invocations:
                self.end()
            if kind == "reasoning":
                thought = part.get("text", part.get("reasoning"))
                self._thoughts += [thought] if isinstance(thought, str) and thought else []
            else:
                self._said += _said([part]) or []

    def end(self) -> None:
        """The answer from the parts so far, if there are any, with the results of its calls."""
        calls = [
            tool_call(call.get("toolName", ""), call.get("args"), identity(call.get("toolCallId")))
            for call in self._invocations
        ]
        self._chat.answer(self._said or None, calls, reasoning="\n\n".join(self._thoughts) or None)
        for call in self._invocations:
            key = _RESULTS.get(str(call.get("state")))
            if key is not None:
                self._chat.result(identity(call.get("toolCallId")), _told(call.get(key)))
        self._said, self._thoughts, self._invocations = [], [], []


def _add_invocations(chat: Chat, message: Json) -> None:
    listed = as_list(message.get("toolInvocations") or [], "toolInvocations")
    invocations = [as_dict(invocation, "an invocation") for invocation in listed]
    step = _Step(chat)
    for invocation in sorted(invocations, key=_number):
        step.add({"type": "tool-invocation", "toolInvocation": invocation})
    step.end()
    chat.answer(message.get("content") or None)


def _number(invocation: Json) -> int:
    step = invocation.get("step")
    return step if isinstance(step, int) else 0


def _invocation(part: Json, kind: str) -> Json | None:
    """A call with its result in version 4's spelling; None for any other part."""
    if kind == "tool-invocation":
        return as_dict(part.get("toolInvocation"), "toolInvocation")
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return None
    name = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
    called = part.get("input", part.get("rawInput"))
    return {**part, "toolName": name, "args": called if isinstance(called, str | dict | list) else None, "step": 0}


def _said(parts: list[Any]) -> list[Json] | None:
    """Return what parts say to the model, in the wire form's spelling."""
    said: list[Json] = []
    for part in parts:
        if dig(part, "type") == "text":
            said += [{"type": "text", "text": part.get("text")}] if part.get("text") else []
        elif dig(part, "type") == "file":
            url = part.get("url") or f"data:{part.get('mimeType')};base64,{part.get('data')}"
            said.append({"type": "image_url", "image_url": {"url": url}})
    return said or None


def _told(result: Any) -> Any:
    """A result as text; structured ones are JSON, as the SDK sends them."""
    if isinstance(result, dict) and result.get("type") == "text" and isinstance(result.get("value"), str):
        return result["value"]
    return result if isinstance(result, str | dict | list | None) else str(result)


READERS = whole_or_in_pieces(
    Format(
        "vercel_ui",
        "Vercel AI SDK chats (`messages` with `parts` or `toolInvocations`)",
        _recognises,
        _read,
        resembles_chat=True,
    ),
    Pieces("messages", "Vercel AI SDK messages one by one (`role`, `parts`)", is_ui_message),
)
