"""The tokens that the upstream counted: read from an answer as it passes through, whole or streamed, without delaying
it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

LARGEST = 4 * 1024 * 1024
"""Bytes of an answer, or of one event of a stream, that are held; of a longer one nothing is read."""


class Usage(NamedTuple):
    """Tokens by what they cost."""

    input: int
    """Neither read from a cache nor written to one."""
    cached: int
    """Read from the provider's cache."""
    cache_creation: int
    """Tokens written to the cache."""
    output: int

    def plus(self, other: Usage) -> Usage:
        """Return the tokens of two answers."""
        return Usage(*(one + more for one, more in zip(self, other, strict=True)))


class UsageReader:
    """Looks for the usage in one answer. OpenAI's chat and responses and Anthropic's messages say it differently."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        said = {name.lower(): value.lower() for name, value in headers}
        self._is_stream = b"text/event-stream" in said.get(b"content-type", b"")
        encoding = said.get(b"content-encoding", b"identity")
        self._unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in (b"gzip", b"deflate") else None
        self._readable = self._unpacker is not None or encoding in (b"identity", b"")
        self._held = b""
        self._said: dict[str, Any] = {}

    def add(self, chunk: bytes) -> None:
        """Look at a piece of the body, as it was sent."""
        if not self._readable:
            return
        try:
            self._held += self._unpacked(chunk)
            if self._is_stream:
                *lines, self._held = self._held.split(b"\n")
                for line in lines:
                    self._read_event(line)
        except (ValueError, RecursionError, zlib.error):  # whatever it is, it is nothing that we can read
            self._readable = False
        if len(self._held) > LARGEST:
            self._readable, self._held = False, b""

    def usage(self) -> Usage | None:
        """Return the usage; all of the answer must have come."""
        if self._readable and not self._is_stream and b'"usage"' in self._held:
            try:
                self._note(json.loads(self._held))
            except (ValueError, RecursionError):
                return None
        return usage_of(self._said) if self._said else None

    def _unpacked(self, chunk: bytes) -> bytes:
        if self._unpacker is None:
            return chunk
        found = self._unpacker.decompress(chunk, LARGEST)
        if self._unpacker.unconsumed_tail:
            raise ValueError("more than is held")
        return found

    def _read_event(self, line: bytes) -> None:
        if line.startswith(b"data:") and b'"usage"' in line:
            self._note(json.loads(line.removeprefix(b"data:")))

    def _note(self, event: Any) -> None:
        """Note the usage, which in an event of a stream may be inside the message or response that the event is
        about."""
        about = [event.get(name) for name in ("message", "response")] if isinstance(event, dict) else []
        for holder in (event, *about):
            found = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(found, dict):
                self._said.update((name, value) for name, value in found.items() if value is not None)


def usage_of(said: dict[str, Any]) -> Usage:
    """Return the usage that an answer reports."""
    openai = "prompt_tokens" in said
    details = said.get("prompt_tokens_details" if openai else "input_tokens_details")
    sent = _count(said, "prompt_tokens" if openai else "input_tokens")
    output = _count(said, "completion_tokens" if openai else "output_tokens")
    if isinstance(details, dict) or openai:  # the cached ones are among the sent ones
        reported = _count(details if isinstance(details, dict) else {}, "cached_tokens")
        cached = min(reported or _count(said, "prompt_cache_hit_tokens"), sent)  # the second is DeepSeek's
        return Usage(sent - cached, cached, 0, output)
    return Usage(sent, _count(said, "cache_read_input_tokens"), _count(said, "cache_creation_input_tokens"), output)


def _count(said: dict[str, Any], name: str) -> int:
    value = said.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0
