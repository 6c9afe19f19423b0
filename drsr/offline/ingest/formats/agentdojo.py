"""AgentDojo: one run per file, chat messages with flat calls (`function` a name, `args` an object).

Call ids may be missing, null or empty (Gemini, local models): results are then paired by order. A result's `error` is
what the agent saw in place of its content. The system text may be null. Tool results may hold prompt injections: data.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, each, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile


def _recognises(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and {"suite_name", "user_task_id", "injection_task_id", "pipeline_name"} <= value.keys()
        and isinstance(value.get("messages"), list)
    )


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    chat = Chat()
    for message in as_list(value["messages"], "messages"):
        _add(chat, as_dict(message, "a message"))
    suite, task = identity(value["suite_name"]), identity(value["user_task_id"])
    return Run(
        record.place,
        "openai",
        {"messages": chat.messages()},
        task=f"agentdojo/{suite}/{task}" if suite and task else None,
        domain="office and data",
        reward=score(value.get("utility")),
    )


def _add(chat: Chat, message: Json) -> None:
    role, content = message.get("role"), _text(message.get("content"))
    if role == "assistant":
        calls = [_call(as_dict(call, "a tool call")) for call in as_list(message.get("tool_calls") or [], "tool_calls")]
        chat.answer(content, calls)
    elif role == "tool":
        call_id = identity(message.get("tool_call_id"))
        chat.result(call_id, message.get("error") or content or "")
    else:
        chat.say(str(role), content)


def _call(call: Json) -> Json:
    return tool_call(call.get("function", ""), call.get("args"), identity(call.get("id")))


def _text(content: Any) -> Any:
    """Content with its parts in wire form: AgentDojo writes a text part's text under `content`, sometimes as null."""
    if not isinstance(content, list):
        return content
    parts = [as_dict(part, "a content part") for part in content]
    texts = [part.get("content") for part in parts]
    return [{"type": "text", "text": text} for text in texts if text is not None] or None


READERS = (
    Reader("agentdojo", 1, "AgentDojo runs (`suite_name`, `user_task_id`, `messages`)", _recognises, each(_read)),
)
