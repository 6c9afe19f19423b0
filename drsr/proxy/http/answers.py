"""An answer as the assistant's message that the next request will repeat: read as it passes through, without delaying
it.

reader = AnswerReader("openai", headers) reader.add(chunk) # as it comes: JSON, or a stream of events reader.message() #
the message, or None if it was not understood to its end
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from drsr.adapters.recall_wires import chat_turn
from drsr.request.request import Protocol

LARGEST = 4 * 1024 * 1024
"""Bytes of an answer that are held; of a longer one nothing is read."""


class AnswerReader:
    """Collects one answer."""

    def __init__(self, protocol: Protocol, headers: Iterable[tuple[bytes, bytes]]) -> None:
        said = {name.lower(): value.lower() for name, value in headers}
        self._protocol = protocol
        self._is_stream = b"text/event-stream" in said.get(b"content-type", b"")
        self._encoding = said.get(b"content-encoding", b"identity")
        self._held = bytearray()
        self._too_long = False

    def add(self, chunk: bytes) -> None:
        """Keep a piece of the body, as it was sent."""
        self._too_long = self._too_long or len(self._held) + len(chunk) > LARGEST
        if not self._too_long:
            self._held += chunk

    def message(self) -> dict[str, Any] | None:
        """Return the assistant's message in the protocol's own form."""
        try:
            body = self._decoded()
            if body is None:
                return None
            if self._is_stream:
                return _from_events(self._protocol, list(_events(body)))
            return _from_json(self._protocol, json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, zlib.error):
            return None  # whatever it is, it is not an answer that the next request could repeat

    def _decoded(self) -> bytes | None:
        return None if self._too_long else unpacked(bytes(self._held), self._encoding)


def unpacked(held: bytes, encoding: bytes) -> bytes | None:
    """Return an answer's decompressed body; None if its compression is unknown, or if it is too long. May raise
    zlib.error."""
    if encoding in (b"identity", b""):
        return held
    if encoding not in (b"gzip", b"deflate"):
        return None
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    found = unpacker.decompress(held, LARGEST)
    return found if unpacker.eof else None


def _from_json(protocol: Protocol, answer: dict[str, Any]) -> dict[str, Any] | None:
    if protocol == "anthropic":
        return {"role": "assistant", "content": answer["content"]} if answer["content"] else None
    return chat_turn(answer)


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data and data != b"[DONE]":
            yield json.loads(data)


def _from_events(protocol: Protocol, events: list[dict[str, Any]]) -> dict[str, Any] | None:
    return _anthropic(events) if protocol == "anthropic" else _openai(events)


def _openai(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    texts: dict[str, str] = {}
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        for choice in event.get("choices", ())[:1]:
            delta = choice.get("delta") or {}
            for name in ("content", "refusal", "reasoning_content"):
                if delta.get(name):
                    texts[name] = texts.get(name, "") + delta[name]
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(part["index"], {"id": "", "type": "function", "function": {}})
                call["id"] = part.get("id") or call["id"]
                for name, value in (part.get("function") or {}).items():
                    call["function"][name] = call["function"].get(name, "") + (value or "")
    if not texts and not calls:
        return None
    message: dict[str, Any] = {"role": "assistant", "content": texts.pop("content", None), **texts}
    return message | ({"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {})


def _anthropic(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    block[name] = block.get(name, "") + delta[name]
    for index, written in inputs.items():
        blocks[index]["input"] = json.loads(written or "{}")
    return {"role": "assistant", "content": [blocks[index] for index in sorted(blocks)]} if blocks else None
