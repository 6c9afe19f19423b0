"""ShareGPT: `conversations` with `from` and `value`, as many training sets have it, with `system` and `tools`.

A `function_call` turn holds one call or a list of them as JSON; with what the assistant says directly before it, it is
one message. An `observation` answers the open calls: all of them where it holds a list of as many, else the first.
Assistants that act in plain text, and tools that answer in it, are turned into tool exchanges (`text_actions`).
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats import text_actions
from drsr.offline.ingest.formats.chat_form import Chat, read_call
from drsr.offline.ingest.formats.logged_calls import spelled_out
from drsr.offline.ingest.formats.openai_chat import conversation, first_identity
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, identity, malformed, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable

_ROLES = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user", "prompter"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bard", "bing", "model"), "assistant"),
    **dict.fromkeys(("function_call", "function-call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "function_response", "function", "tool_response"), "tool"),
}
_TURNS = ("conversations", "conversation", "trajectory")
"""Columns in which training sets keep a run's turns; those with `role` and `content` are chat messages."""
_ID_KEYS = ("trajectory_id", "traj_id", "run_id", "conversation_id", "session_id", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    turns = _turns(value)
    return isinstance(turns, list) and bool(turns) and all(_is_turn(turn) for turn in turns[:3])


def _turns(value: Json) -> Any:
    return next((value[key] for key in _TURNS if isinstance(value.get(key), list)), None)


def _is_turn(turn: Any) -> bool:
    if not isinstance(turn, dict):
        return False
    speaker = turn.get("from", turn.get("role"))
    return isinstance(speaker, str) and speaker in _ROLES and ("value" in turn or "content" in turn)


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    turns = [_turn(turn) for turn in as_list(_turns(value), "conversations")]
    system = value.get("system")
    if isinstance(system, str) and system and (not turns or turns[0]["role"] != "system"):
        turns.insert(0, {"role": "system", "content": system})
    request: Json = {"messages": _messages(turns)}
    tools = spelled_out(value.get("tools"))
    if isinstance(tools, list) and tools:
        request["tools"] = [_declared(tool) for tool in tools]
    return Run(
        record.place,
        "openai",
        request,
        local_id=first_identity(value, _ID_KEYS),
        task=first_identity(value, _TASK_KEYS),
        domain=identity(value.get("domain")),
        reward=score(value.get("reward", value.get("score", value.get("resolved")))),
    )


def _turn(turn: Any) -> Json:
    fields = as_dict(turn, "a turn")
    speaker = fields.get("from", fields.get("role"))
    role = _ROLES.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        known = ", ".join(sorted(_ROLES))
        raise Unreadable("malformed", f"a turn is from {speaker!r:.60}; known are {known}")
    made: Json = {"role": role, "content": fields.get("value", fields.get("content"))}
    if isinstance(fields.get("tool_calls"), list) and fields["tool_calls"]:
        made["tool_calls"] = fields["tool_calls"]
    if role == "tool" and identity(fields.get("tool_call_id")):
        made["tool_call_id"] = fields["tool_call_id"]
    return made


def _messages(turns: list[Json]) -> list[Json]:
    roles = {turn["role"] for turn in turns}
    if "call" not in roles:
        style = text_actions.style_of(turns)
        if style is None and "tool" in roles and not any(turn.get("tool_calls") for turn in turns):
            raise Unreadable("dangling_result", "a tool answers, but no turn before it holds a call that is known")
        return conversation(turns)
    chat = Chat()
    said: Any = None  # what the assistant says before its calls, which stand in a turn of their own
    waiting = 0
    for turn in turns:
        role, content = turn["role"], turn["content"]
        if role == "call":
            calls = _calls(content)
            chat.answer(said, calls)
            said, waiting = None, len(calls)
            continue
        if said is not None:
            chat.answer(said)
            said = None
        if role == "assistant":
            said = content
        elif role == "tool":
            for result in _results(content, waiting):
                chat.result(None, result)
                waiting -= 1
        else:
            chat.say(role, content)
    if said is not None:
        chat.answer(said)
    return chat.messages()


def _calls(content: Any) -> list[Json]:
    value = spelled_out(content)
    if not isinstance(value, dict | list):
        raise malformed("a function_call turn", "a call as JSON", value)
    return [read_call(call) for call in (value if isinstance(value, list) else [value])]


def _results(content: Any, waiting: int) -> list[Any]:
    """Return what answers each open call: the elements of a list that has as many, else the whole."""
    value = spelled_out(content)
    if waiting > 1 and isinstance(value, list) and len(value) == waiting:
        return [result if isinstance(result, str | dict | list | None) else str(result) for result in value]
    return [content]


def _declared(tool: Any) -> Json:
    """A definition as a request has it: many training sets keep only the function's own fields."""
    fields = as_dict(tool, "a tool")
    return fields if isinstance(dig(fields, "function"), dict) else {"type": "function", "function": fields}


READERS = (Reader("sharegpt", 1, "ShareGPT (`conversations` with `from` and `value`)", _recognises, each(_read)),)
