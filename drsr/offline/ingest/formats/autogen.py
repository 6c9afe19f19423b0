"""AutoGen: messages and events of 0.4 (`type`: TextMessage, ToolCallRequestEvent, ...), chat histories of 0.2 (AG2).

0.4: the agent is the source that calls tools, or else answers the user. A thought belongs to the call behind it. A
summary of tool results is what an agent tells others; its own model never sees it, so it is left out. What several
agents say to one another is no single agent's history: it is refused, and each agent's own state can be saved instead.

0.2: roles are relative to the agent whose history it is; the initiator of a chat sees itself as `assistant`. The agent
is again the speaker who calls tools, or else answers the one who begins, and roles are turned accordingly.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.chat_lookalikes import are_autogen_messages, is_autogen_message
from drsr.offline.ingest.formats.openai_chat import first_identity
from drsr.offline.ingest.formats.reader import Format, Pieces, Run, as_dict, as_list, dig, identity, whole_or_in_pieces
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable

_ID_KEYS = ("trajectory_id", "run_id", "conversation_id", "session_id", "chat_id", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")
_USERS = ("user", "user_proxy", "userproxy", "human")
_SAID = ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "StructuredMessage")
_CALLING = ("ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent", "ToolCallSummaryMessage")


def _recognises(value: Any) -> bool:
    messages = value if isinstance(value, list) else _messages(value)
    return isinstance(messages, list) and are_autogen_messages(messages)


def _messages(value: Any) -> Any:
    """The messages of a TaskResult, an agent's saved state, or a ChatResult."""
    found = (dig(value, "messages"), dig(value, "llm_context", "messages"), dig(value, "chat_history"))
    return next((messages for messages in found if isinstance(messages, list)), None)


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {}
    listed = as_list(value if isinstance(value, list) else _messages(value), "messages")
    messages = [as_dict(message, "a message") for message in listed]
    chat = Chat()
    if is_autogen_message(messages[0]):
        _add_events(chat, messages)
    else:
        _add_history(chat, messages)
    return Run(
        place=record.place,
        protocol="openai",
        request={"messages": chat.messages()},
        local_id=first_identity(fields, _ID_KEYS),
        task=first_identity(fields, _TASK_KEYS),
    )


# --- 0.4 ---------------------------------------------------------------------------------------------------------


def _add_events(chat: Chat, events: list[Json]) -> None:
    agents = {str(event.get("source")) for event in events if _is_agents(event)}
    if len(agents) > 1:
        names = ", ".join(sorted(agents)[:8])
        detail = f"{len(agents)} agents speak ({names:.200}), each with its own history; "
        raise Unreadable("several_agents", detail + "export each agent's save_state() (`llm_context`) instead")
    thought: Any = None
    for event in events:
        kind, content = event.get("type"), event.get("content")
        if kind == "ThoughtEvent":
            thought = content
        elif kind in ("ToolCallRequestEvent", "AssistantMessage"):
            calls = content if isinstance(content, list) else []
            told = event.get("thought") if kind == "AssistantMessage" else thought
            chat.answer(told if isinstance(content, list) else content, calls)
            thought = None
        elif kind in ("ToolCallExecutionEvent", "FunctionExecutionResultMessage"):
            for result in as_list(content, "the content of an execution"):
                chat.result(dig(result, "call_id"), dig(result, "content"))
        elif kind == "SystemMessage":
            chat.say("system", content)
        elif kind == "UserMessage":
            chat.say("user", _parts(content))
        elif kind in _SAID:
            _say(chat, event, agents)
        elif kind == "MemoryQueryEvent":
            chat.say("system", [{"type": "text", "text": dig(item, "content")} for item in as_list(content, "content")])


def _is_agents(event: Json) -> bool:
    """Return whether an event shows its source to be an agent that asks a model."""
    if event.get("type") in _CALLING or event.get("type") == "AssistantMessage":
        return True
    is_said = event.get("type") in _SAID
    return is_said and str(event.get("source")).lower() not in _USERS


def _say(chat: Chat, event: Json, agents: set[str]) -> None:
    content = event.get("content")
    said = content if isinstance(content, str | list | None) else [content]
    if str(event.get("source")) in agents:
        chat.answer(_parts(said))
    else:
        chat.say("user", _parts(said))


def _parts(content: Any) -> Any:
    """Content with AutoGen's images in the wire form's spelling, and structured content as JSON text."""
    if not isinstance(content, list):
        return content
    parts: list[Any] = []
    for part in content:
        if isinstance(data := dig(part, "data"), str):
            parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
        else:
            parts.append(part if isinstance(part, str) else str(part))
    return parts


# --- 0.2 ---------------------------------------------------------------------------------------------------------


def _add_history(chat: Chat, messages: list[Json]) -> None:
    agent = _agent(messages)
    for message in messages:
        content = message.get("content")
        if message.get("role") == "system":
            chat.say("system", content)
        elif isinstance(message.get("tool_responses"), list):
            for response in message["tool_responses"]:
                chat.result(identity(dig(response, "tool_call_id")), dig(response, "content"))
        elif message.get("role") in ("tool", "function"):
            chat.result(identity(message.get("tool_call_id")), content)
        elif message.get("tool_calls") or message.get("function_call") or message.get("name") == agent:
            calls = as_list(message.get("tool_calls") or [], "tool_calls")
            called = message.get("function_call")
            chat.answer(content, [*calls, as_dict(called, "function_call")] if called else calls)
        else:
            chat.say("user", content)


def _agent(messages: list[Json]) -> str:
    """The name of the speaker that asks a model: it calls tools, or answers the one who begins."""
    speakers = [identity(message.get("name")) for message in messages if message.get("role") in ("user", "assistant")]
    named = list(dict.fromkeys(name for name in speakers if name))
    if len(named) > 2:
        detail = f"{len(named)} agents speak ({', '.join(named[:8])}), each with its own history; "
        raise Unreadable("several_agents", f"{detail}export agent.chat_messages of one agent with its own roles")
    callers = [identity(message.get("name")) for message in messages if message.get("tool_calls")]
    found = next(filter(None, callers), None) or (named[1] if len(named) > 1 else None)
    if found is None:
        assistants = [identity(message.get("name")) for message in messages if message.get("role") == "assistant"]
        found = next(filter(None, assistants), None)
    if found is None:
        raise Unreadable("malformed", "a chat history of AutoGen whose speakers have no names; export it with `name`")
    return found


READERS = whole_or_in_pieces(
    Format(
        "autogen",
        "AutoGen runs (messages and events of 0.4, chat histories of 0.2 and AG2)",
        _recognises,
        _read,
        resembles_chat=True,
    ),
    Pieces(
        "messages",
        "AutoGen 0.4 messages one by one (`source`, `type`: TextMessage, ToolCallRequestEvent, ...)",
        is_autogen_message,
    ),
)
