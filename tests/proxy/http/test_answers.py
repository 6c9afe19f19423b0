"""Answers as messages: JSON and streams of both protocols, however they are cut, and what is not understood."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from drsr.proxy.http.answers import LARGEST, AnswerReader
from drsr.request.request import Protocol

STREAM = [(b"Content-Type", b"text/event-stream; charset=utf-8")]
PLAIN = [(b"content-type", b"application/json")]
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}


def message(protocol: Protocol, headers: list[tuple[bytes, bytes]], body: bytes, cut: int = 7) -> Any:
    reader = AnswerReader(protocol, headers)
    for start in range(0, len(body), cut):
        reader.add(body[start : start + cut])
    return reader.message()


def events(*values: Any) -> bytes:
    return b"".join(b"event: x\r\ndata: " + json.dumps(value).encode() + b"\r\n\r\n" for value in values)


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def test_json() -> None:
    said = {"role": "assistant", "content": "hm", "tool_calls": [CALL]}
    answer = {"choices": [{"message": {**said, "refusal": None, "annotations": []}}], "usage": {}}
    assert message("openai", PLAIN, json.dumps(answer).encode()) == said
    blocks = [{"type": "text", "text": "hm"}, USE]
    body = json.dumps({"type": "message", "content": blocks}).encode()
    assert message("anthropic", PLAIN, body) == {"role": "assistant", "content": blocks}
    packed = [*PLAIN, (b"content-encoding", b"gzip")]
    assert message("anthropic", packed, gzip.compress(body)) == {"role": "assistant", "content": blocks}


def test_a_stream_of_openai() -> None:
    first, second = '{"path"', ': "a"}'
    body = events(
        chunk(role="assistant", content=""),
        chunk(content="h"),
        chunk(content="m"),
        chunk(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": ""}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": first}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": second}}]),
        {"choices": [], "usage": {"prompt_tokens": 5}},
    )
    found = message("openai", STREAM, body + b"data: [DONE]\n\n")
    assert found == {"role": "assistant", "content": "hm", "tool_calls": [CALL]}


def test_a_stream_of_anthropic() -> None:
    body = events(
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "so"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {**USE, "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path": '}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"a"}'}},
        {"type": "message_stop"},
    )
    thinking = {"type": "thinking", "thinking": "so", "signature": "sig"}
    assert message("anthropic", STREAM, body) == {"role": "assistant", "content": [thinking, USE]}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"error": {}}', b'{"choices": []}', b"\xff", b"[" * 9999]
)
@pytest.mark.parametrize("headers", [PLAIN, STREAM, [(b"content-encoding", b"gzip")], [(b"content-encoding", b"br")]])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_what_is_no_answer_is_no_message(body: bytes, headers: list[tuple[bytes, bytes]], protocol: Protocol) -> None:
    assert message(protocol, headers, body) is None


def test_a_very_long_answer_is_not_held() -> None:
    reader = AnswerReader("openai", PLAIN)
    for _ in range(9):
        reader.add(b" " * (LARGEST // 4))
    assert reader.message() is None
    assert len(reader._held) <= LARGEST
