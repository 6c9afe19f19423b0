"""The messages that a span records, in each of the spellings in use, as OpenAI chat messages.

- OpenInference: `llm.input_messages.N.message.*`, `llm.output_messages.N.message.*`, flattened or nested
- GenAI: `gen_ai.input.messages`, `gen_ai.output.messages` (JSON with `parts`), `gen_ai.system_instructions`
- GenAI before 1.37: span events `gen_ai.user.message`, ..., `gen_ai.choice`
- OpenLLMetry: `gen_ai.prompt.N.*`, `gen_ai.completion.N.*`
"""

from __future__ import annotations

from typing import Any

import orjson

from drsr.offline.ingest.formats.model_calls import Exchange
from drsr.offline.ingest.formats.reader import dig, identity
from drsr.offline.ingest.trajectories import Json

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_DEEPEST = 16
"""Parts of a dotted key that are taken apart; no convention has more."""


def nested(flat: Json) -> Json:
    """Attributes with dotted keys as a tree. What is nested already is kept."""
    tree: Json = {}
    for key, value in flat.items():
        node = tree
        *path, last = key.split(".", _DEEPEST)
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                break
        else:
            value = nested(value) if isinstance(value, dict) else value
            if isinstance(value, dict) and isinstance(node.get(last), dict):
                node[last].update(value)
            else:
                node.setdefault(last, value)
    return tree


def exchange(attributes: Json, events: list[Json]) -> Exchange:
    """Return the messages of a span; nothing sent where it records none."""
    sent, received = _open_inference(attributes)
    if not sent:
        sent, received = _gen_ai(attributes)
    if not sent:
        sent, received = _from_events(events)
    if not sent:
        sent, received = _numbered(attributes)
    system = _parts_text(_json(dig(attributes, "gen_ai", "system_instructions")))
    if system and sent and sent[0].get("role") != "system":
        sent = [{"role": "system", "content": system}, *sent]
    conversation = identity(dig(attributes, "gen_ai", "conversation", "id")) or identity(
        dig(attributes, "session", "id")
    )
    return Exchange(sent, received, _tools(attributes), conversation)


def _open_inference(attributes: Json) -> tuple[list[Json], list[Json]]:
    llm = attributes.get("llm")
    return (
        [_flat_message(item) for item in _ordered(dig(llm, "input_messages"))],
        [_flat_message(item) for item in _ordered(dig(llm, "output_messages"))],
    )


def _flat_message(item: Any) -> Json:
    item = nested(item) if isinstance(item, dict) else {}
    message = item["message"] if isinstance(item.get("message"), dict) else item
    content = message.get("content")
    if content is None and message.get("contents"):
        content = [_flat_part(part) for part in _ordered(message["contents"])]
    made: Json = {"role": message.get("role"), "content": content}
    calls = [_flat_call(call) for call in _ordered(message.get("tool_calls"))]
    if isinstance(message.get("function_call_name"), str):
        arguments = message.get("function_call_arguments_json")
        calls.append({"id": None, "name": message["function_call_name"], "arguments": arguments})
    if calls:
        made["tool_calls"] = calls
    if made["role"] in ("tool", "function"):
        made.update(role="tool", tool_call_id=message.get("tool_call_id"))
    return made


def _flat_part(part: Any) -> Json:
    part = nested(part) if isinstance(part, dict) else {}
    inner = part["message_content"] if isinstance(part.get("message_content"), dict) else part
    url = dig(inner, "image", "image", "url")
    if isinstance(url, str):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": str(inner.get("type", "text")), "text": inner.get("text")}


def _flat_call(call: Any) -> Json:
    call = nested(call) if isinstance(call, dict) else {}
    inner = call["tool_call"] if isinstance(call.get("tool_call"), dict) else call
    function = inner["function"] if isinstance(inner.get("function"), dict) else inner
    arguments = function.get("arguments")
    return {"id": identity(inner.get("id")), "name": function.get("name"), "arguments": arguments}


def _gen_ai(attributes: Json) -> tuple[list[Json], list[Json]]:
    sent = _json(dig(attributes, "gen_ai", "input", "messages"))
    received = _json(dig(attributes, "gen_ai", "output", "messages"))
    return (
        [message for item in _ordered(sent) for message in _parted(item)],
        [message for item in _ordered(received)[:1] for message in _parted(item)],
    )


def _parted(item: Any) -> list[Json]:
    """Return a message made of parts as chat messages: results become separate messages, before its other parts."""
    if not isinstance(item, dict):
        return []
    if not isinstance(item.get("parts"), list):
        return [item]
    role = item.get("role")
    results: list[Json] = []
    said: list[Json] = []
    calls: list[Json] = []
    thoughts: list[str] = []
    for part in item["parts"]:
        kind, content = dig(part, "type"), dig(part, "content")
        if kind == "tool_call":
            calls.append({"id": part.get("id"), "name": part.get("name"), "arguments": part.get("arguments")})
        elif kind == "tool_call_response":
            response = part.get("response", part.get("result"))
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": _told(response)})
        elif kind == "reasoning":
            thoughts += [content] if isinstance(content, str) else []
        elif kind == "text":
            said.append({"type": "text", "text": content})
        elif isinstance(part, dict):
            said.append(part)
    message: Json = {"role": role, "content": said or None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = "\n\n".join(thoughts)
    return [*results, *([message] if said or calls or thoughts else [])]


def _told(response: Any) -> Any:
    return response if isinstance(response, str | dict | list | None) else str(response)


def _from_events(events: list[Json]) -> tuple[list[Json], list[Json]]:
    sent: list[Json] = []
    received: list[Json] = []
    for event in events:
        name, told = event.get("name"), _event_body(event)
        if isinstance(name, str) and name in _EVENT_ROLES:
            sent.append(_event_message(told, _EVENT_ROLES[name]))
        elif name == "gen_ai.choice" and not received:
            message = _json(told.get("message"))
            received.append(_event_message(message if isinstance(message, dict) else told, "assistant"))
        elif isinstance(dig(event, "gen_ai", "input", "messages"), str | list):
            return _gen_ai(event)
    return sent, received


def _event_body(event: Json) -> Json:
    content = _json(dig(event, "gen_ai", "event", "content"))
    return content if isinstance(content, dict) else event


def _event_message(told: Json, role: str) -> Json:
    message: Json = {"role": role, "content": told.get("content")}
    if role == "tool":
        message["tool_call_id"] = told.get("id")
    calls = _json(told.get("tool_calls"))
    if isinstance(calls, list) and calls:
        message["tool_calls"] = calls
    return message


def _numbered(attributes: Json) -> tuple[list[Json], list[Json]]:
    sent = [_flat_message(item) for item in _ordered(dig(attributes, "gen_ai", "prompt"))]
    received = [_flat_message(item) for item in _ordered(dig(attributes, "gen_ai", "completion"))[:1]]
    return sent, [{**message, "role": message.get("role") or "assistant"} for message in received]


def _tools(attributes: Json) -> list[Json]:
    """Tool definitions, where the span records them in OpenAI's form."""
    found = [_json(dig(nested(item), "tool", "json_schema")) for item in _dicts(dig(attributes, "llm", "tools"))]
    found += _ordered(_json(dig(attributes, "gen_ai", "tool", "definitions")))
    return [tool for tool in found if isinstance(dig(tool, "function"), dict)]


def _dicts(value: Any) -> list[Json]:
    return [item for item in _ordered(value) if isinstance(item, dict)]


def _ordered(value: Any) -> list[Any]:
    """A list, or a tree with numbers for keys as the list it flattens."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return []
    return [value[key] for key in sorted((key for key in value if key.isdecimal()), key=int)]


def _json(value: Any) -> Any:
    """The value that a string spells, where it is one; attributes cannot hold structure everywhere."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def _parts_text(parts: Any) -> str:
    texts = (dig(part, "content") for part in parts) if isinstance(parts, list) else ()
    return "\n".join(text for text in texts if isinstance(text, str))
