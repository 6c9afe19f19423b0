"""Read what a logged model call sent and received, whichever API it was and however the log spells it.

Logs keep a call's input and output as the client had them: bodies of requests and responses of the chat, Responses,
Anthropic and Gemini APIs, bare lists of messages, LangChain's messages and generations, or JSON inside a string.
"""

from __future__ import annotations

from typing import Any

import orjson

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.gemini_form import read_contents, read_declarations
from drsr.offline.ingest.formats.langchain_messages import chat_message
from drsr.offline.ingest.formats.model_calls import Exchange
from drsr.offline.ingest.formats.reader import dig
from drsr.offline.ingest.formats.responses_items import ITEM_TYPES, Items
from drsr.offline.ingest.trajectories import Json


def exchange(sent: Any, received: Any, *, tools: Any = None, conversation: str | None = None) -> Exchange | None:
    """Return one model call; None if it sent nothing readable."""
    sent, received = spelled_out(sent), spelled_out(received)
    messages = messages_of(sent, "user")
    if not messages:
        return None
    declared = next((found for found in (tools, dig(sent, "tools")) if isinstance(found, list)), [])
    return Exchange(messages, messages_of(received, "assistant")[:1], _declarations(declared), conversation)


def spelled_out(value: Any) -> Any:
    """Return the object or list that a string spells, where it does."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def messages_of(value: Any, speaker: str) -> list[Json]:
    """Return the chat messages of a body, a list or a text. `speaker` is whose text it is where nothing says so."""
    if isinstance(value, str):
        return [{"role": speaker, "content": value}] if value.strip() else []
    if isinstance(value, list):
        return _listed(value, speaker)
    return _body(value, speaker) if isinstance(value, dict) else []


def _listed(values: list[Any], speaker: str) -> list[Json]:
    if values and isinstance(values[0], list):  # LangChain's batches; a call of an agent is a batch of one
        return _listed(values[0], speaker)
    if any(_is_item(value) for value in values):
        return _items(values)
    if any(isinstance(dig(value, "parts"), list) for value in values):
        return _contents(values)
    return [message for value in values for message in messages_of(value, speaker)]


def _body(body: Json, speaker: str) -> list[Json]:
    for key in ("messages", "choices", "generations", "candidates", "prompts"):
        if isinstance(body.get(key), list):
            found = _listed(body[key] if key in ("messages", "prompts") else body[key][:1], speaker)
            return [*_system(body.get("system")), *found]
    if isinstance(body.get("contents"), list):
        return [*_system(body.get("systemInstruction") or body.get("system_instruction")), *_contents(body["contents"])]
    if body.get("object") == "response" or ("input" in body and "role" not in body):
        items = body.get("output") if body.get("object") == "response" else body.get("input")
        listed = items if isinstance(items, list) else messages_of(items, speaker)
        return [*_system(body.get("instructions") if speaker == "user" else None), *_items(listed)]
    if _is_item(body):
        return _items([body])
    return _message(body, speaker)


def _message(value: Json, speaker: str) -> list[Json]:
    """One message, or the object that a response wraps it in."""
    if isinstance(value.get("role"), str):
        return _contents([value]) if isinstance(value.get("parts"), list) else [value]
    made = chat_message(value)
    if made is not None:
        return [made]
    for key in ("message", "content"):
        inner = value.get(key)
        if isinstance(inner, dict):
            return _message(inner, speaker)
    if isinstance(value.get("content"), str | list) or isinstance(value.get("tool_calls"), list):
        return [{**value, "role": speaker}]
    return [{"role": speaker, "content": value["text"]}] if isinstance(value.get("text"), str) else []


def _is_item(value: Any) -> bool:
    """Return whether this is an item of the Responses form that no chat has."""
    kind = dig(value, "type")
    if isinstance(kind, str) and kind in ITEM_TYPES:
        return "role" not in value and kind not in ("reasoning", "function_call") or "call_id" in value or "id" in value
    parts = dig(value, "content")
    return isinstance(parts, list) and any(dig(part, "type") in ("input_text", "output_text") for part in parts)


def _items(items: list[Any]) -> list[Json]:
    chat = Chat()
    feed = Items(chat)
    for item in items:
        if isinstance(item, dict):
            feed.add(item)
    feed.flush()
    return chat.messages()


def _contents(contents: list[Any]) -> list[Json]:
    chat = Chat()
    read_contents(chat, contents)
    return chat.messages()


def _system(value: Any) -> list[Json]:
    if isinstance(value, dict) and isinstance(value.get("parts"), list):
        value = [{"type": "text", "text": dig(part, "text")} for part in value["parts"] if dig(part, "text")]
    return [{"role": "system", "content": value}] if isinstance(value, str | list) and value else []


def _declarations(tools: list[Any]) -> list[Json]:
    """Tool definitions as a request has them; Gemini's become OpenAI's."""
    declared = read_declarations(tools)
    return declared or [tool for tool in tools if isinstance(tool, dict)]
