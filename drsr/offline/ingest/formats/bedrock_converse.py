"""Amazon Bedrock Converse: `messages` with content blocks known by their key (`text`, `toolUse`, `toolResult`).

The answer may stand beside the request as `output`. Invocation logs keep both in `input.inputBodyJson` and
`output.outputBodyJson`; each repeats the history so far (`model_calls`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.chat_lookalikes import are_converse_messages
from drsr.offline.ingest.formats.model_calls import Exchange, ModelCalls
from drsr.offline.ingest.formats.reader import Found, Reader, as_dict, as_list, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_TRACE_KEYS = ("sessionId", "session_id", "conversation_id", "trace_id", "id")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    messages = dig(_body(value), "messages")
    return isinstance(messages, list) and are_converse_messages(messages)


def _body(value: Json) -> Any:
    """The request's body, of a request or of a log's line."""
    return dig(value, "input", "inputBodyJson") if "inputBodyJson" in _dict(value.get("input")) else value


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    named, unnamed = ModelCalls(), ModelCalls(are_unique=False)
    for record in records:
        try:
            if not _recognises(record.value):
                raise Unreadable("unknown_format", "no Converse request among those of this file")
            found = _exchange(record.value)
        except Unreadable as problem:
            yield Quarantined(record.place, problem.reason, problem.detail)
            continue
        start = str(record.value.get("timestamp", ""))
        trace = next(filter(None, (_name(record.value, key) for key in _TRACE_KEYS)), None)
        if trace:
            named.add(found, trace, start=start, place=record.place)
        else:
            unnamed.add(found, str(record.number), start=start, place=record.place)
    yield from named.runs()
    yield from unnamed.runs()


def _exchange(value: Json) -> Exchange:
    body = _body(value)
    answer = dig(value, "output", "outputBodyJson", "output", "message") or dig(value, "output", "message")
    sent = [*_system(body.get("system")), *_messages(body["messages"])]
    tools = dig(body, "toolConfig", "tools")
    declared = [_declared(tool) for tool in tools if dig(tool, "toolSpec")] if isinstance(tools, list) else []
    return Exchange(sent, _messages([answer]) if isinstance(answer, dict) else [], declared, None)


def _messages(messages: list[Any]) -> list[Json]:
    chat = Chat()
    for message in messages:
        fields = as_dict(message, "a message")
        blocks = [as_dict(block, "a content block") for block in as_list(fields.get("content"), "content")]
        if fields.get("role") == "assistant":
            _answer(chat, blocks)
        else:
            for block in blocks:
                if isinstance(result := block.get("toolResult"), dict):
                    chat.result(identity(result.get("toolUseId")), _told(result.get("content")))
            said = [_part(block) for block in blocks if "toolResult" not in block and "cachePoint" not in block]
            chat.say(str(fields.get("role")), said or None)
    return chat.messages()


def _answer(chat: Chat, blocks: list[Json]) -> None:
    uses = [as_dict(block["toolUse"], "toolUse") for block in blocks if "toolUse" in block]
    thoughts = [dig(block, "reasoningContent", "reasoningText", "text") for block in blocks]
    chat.answer(
        [_part(block) for block in blocks if "text" in block] or None,
        [tool_call(use.get("name", ""), use.get("input"), identity(use.get("toolUseId"))) for use in uses],
        reasoning="\n\n".join(text for text in thoughts if isinstance(text, str)) or None,
    )


def _part(block: Json) -> Json:
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    return {"type": next(iter(block), "unknown"), **block}


def _told(content: Any) -> Any:
    """A result's blocks: texts, and JSON as it is."""
    blocks = [as_dict(block, "a block of a result") for block in as_list(content or [], "the content of a result")]
    if len(blocks) == 1 and isinstance(blocks[0].get("json"), dict | list):
        return blocks[0]["json"]
    return [_part(block) for block in blocks] or None


def _system(system: Any) -> list[Json]:
    texts = [dig(block, "text") for block in system] if isinstance(system, list) else []
    said = "\n".join(text for text in texts if isinstance(text, str))
    return [{"role": "system", "content": said}] if said else []


def _declared(tool: Json) -> Json:
    spec = tool["toolSpec"]
    told = {"name": dig(spec, "name"), "description": dig(spec, "description")}
    return {"type": "function", "function": {**told, "parameters": dig(spec, "inputSchema", "json") or {}}}


def _name(value: Json, key: str) -> str | None:
    metadata = value.get("requestMetadata")
    return identity(dig(metadata, key)) or (identity(value.get(key)) if key != "id" else None)


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


READERS = (
    Reader(
        "bedrock_converse",
        1,
        "Amazon Bedrock Converse requests and invocation logs (`toolUse`, `toolResult`)",
        _recognises,
        _read,
        grouping="stream",
        resembles_chat=True,
    ),
)
