"""Usage, as the three APIs say it: whole, streamed, compressed, in pieces of any size."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from drsr.proxy.http.usage import LARGEST, Usage, UsageReader

CHAT = {
    "choices": [],
    "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}},
}
RESPONSES = {
    "output": [],
    "usage": {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 64}},
}
MESSAGES = {
    "content": [],
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 26, "output_tokens": 7},
}
STREAMS = [
    ([{"choices": [{}], "usage": None}, CHAT], Usage(36, 64, 0, 7)),
    ([{"type": "response.created", "response": {"usage": None}}, {"response": RESPONSES}], Usage(36, 64, 0, 7)),
    (
        [
            {"type": "message_start", "message": {**MESSAGES, "usage": {**MESSAGES["usage"], "output_tokens": 1}}},  # type: ignore[dict-item]
            {"type": "message_delta", "usage": {"output_tokens": 7, "input_tokens": None}},
        ],
        Usage(10, 64, 26, 7),
    ),
]


def read(body: bytes, step: int, **headers: str) -> Usage | None:
    reader = UsageReader([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()])
    for start in range(0, len(body), step):
        reader.add(body[start : start + step])
    return reader.usage()


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (CHAT, Usage(36, 64, 0, 7)),
        (RESPONSES, Usage(36, 64, 0, 7)),
        (MESSAGES, Usage(10, 64, 26, 7)),
        ({"id": 1}, None),
    ],
)
def test_of_a_whole_answer(answer: Any, usage: Usage | None, step: int) -> None:
    body = json.dumps(answer).encode()
    assert read(body, step, content_type="application/json") == usage
    assert read(gzip.compress(body), step, content_encoding="gzip") == usage
    assert read(body, step, content_encoding="br") is None


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("events", "usage"), STREAMS)
def test_of_a_stream(events: list[Any], usage: Usage, step: int, end: str) -> None:
    text = "".join(f"event: x{end}data: {json.dumps(event)}{end}{end}" for event in events) + f"data: [DONE]{end}{end}"
    assert read(text.encode(), step, content_type="text/event-stream; charset=utf-8") == usage
    assert read(gzip.compress(text.encode()), step, content_type="text/event-stream", content_encoding="gzip") == usage


@pytest.mark.parametrize(
    "body",
    [
        b'{"usage": ',
        b'{"usage": 3}',
        b'["usage"]',
        b'{"usage": {"prompt_tokens": -1}}',
        b'{"usage": {"prompt_tokens": "9"}}',
    ],
)
def test_nonsense_counts_nothing(body: bytes) -> None:
    assert read(body, 10_000) in (None, Usage(0, 0, 0, 0))


def test_an_answer_without_end_is_not_held() -> None:
    reader = UsageReader([(b"content-type", b"text/event-stream")])
    for _ in range(10):
        reader.add(b"x" * (LARGEST // 4))
    assert reader._held == b""
    assert read(gzip.compress(b"x" * (2 * LARGEST)), 10_000, content_encoding="gzip") is None


def test_deepseek_calls_cached_tokens_hits() -> None:
    said = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}
    reader = UsageReader([(b"content-type", b"application/json")])
    reader.add(json.dumps({"usage": said}).encode())
    assert reader.usage() == Usage(36, 64, 0, 7)
