"""Untrusted JSON values, copied and checked in one pass, so that later code meets no surprises."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from drsr.errors import RequestError, RequestTooLarge

MAX_REQUEST_CHARACTERS = 8 * 1024 * 1024
"""About two million tokens, more than windows take. A larger request is refused before it is tokenized, which takes
some 190 bytes of memory per character."""

MAX_OPAQUE_CHARACTERS = 64 * 1024 * 1024
"""Additional limit for images, files and sound as base64, which are carried along and never tokenized."""

VALUE_CHARACTERS = 8
"""Characters charged for every value in addition to its text: millions of empty values cost as much time and memory as
a long text."""

MAX_DEPTH = 200
"""Deeper nesting than any tool schema has; keeps our own recursion far from the interpreter's limit."""

MAX_INTEGER_BITS = 8_192
"""Larger integers cannot be printed in decimal by a default interpreter."""


_RENDERED_BLOCKS = frozenset({"text", "refusal", "thinking", "tool_use", "tool_result"})
"""Types of content blocks that either protocol renders beyond their type."""


def copied(value: Any) -> Any:
    """Return a copy of a JSON value that was checked before. Ten times faster than a deep copy, which looks for
    cycles."""
    if type(value) is str:
        return value
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


class CheckedCopy:
    """Copies JSON values: the caller's object stays the caller's. Counts the size of all that it copies."""

    def __init__(self) -> None:
        self.characters = 0
        """Characters of everything except the texts of opaque content."""
        self.opaque_characters = 0

    def message(self, message: dict[str, Any], where: str) -> dict[str, Any]:
        """Copy one message of a request; the content of its images and files is counted separately."""
        return self._holding_blocks(message, where, 0)

    def __call__(self, value: Any, where: str, depth: int = 0, opaque: bool = False) -> Any:
        self._count(VALUE_CHARACTERS, where)
        if isinstance(value, str):
            return self._text(value, where, opaque)
        if isinstance(value, dict):
            self._check_depth(depth, where)
            return {self.key(key, where): self(item, where, depth + 1, opaque) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            self._check_depth(depth, where)
            return [self(item, where, depth + 1, opaque) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            if value.bit_length() > MAX_INTEGER_BITS:
                raise RequestError(f"an integer of {value.bit_length()} bits", where=where)
            return value
        if isinstance(value, float):
            if not isfinite(value):
                raise RequestError(f"the number {value}, which JSON does not have", where=where)
            return value
        raise RequestError(
            f"a {type(value).__name__}, which is not a JSON value",
            where=where,
            hint="hand in plain dicts and lists; for an SDK object call its model_dump(exclude_none=True) first",
        )

    def key(self, key: Any, where: str) -> str:
        """Copy one key of an object."""
        if not isinstance(key, str):
            raise RequestError(f"an object's key is a {type(key).__name__}, not a string", where=where)
        return self._text(key, where)

    def _holding_blocks(self, holder: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        """Copy a message, or a tool_result in one: an object whose `content` may be a list of blocks."""
        self._count(VALUE_CHARACTERS, where)
        copied = {}
        for key, item in holder.items():
            name = self.key(key, where)
            if name == "content" and isinstance(item, (list, tuple)):
                self._count(VALUE_CHARACTERS, where)
                self._check_depth(depth + 1, where)
                copied[name] = [self._block(block, where, depth + 2) for block in item]
            else:
                copied[name] = self(item, where, depth + 1)
        return copied

    def _block(self, block: Any, where: str, depth: int) -> Any:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or (kind in _RENDERED_BLOCKS and kind != "tool_result"):
            return self(block, where, depth)
        if kind == "tool_result":
            self._check_depth(depth, where)
            return self._holding_blocks(block, where, depth)
        self._count(len(kind), where)  # which is rendered in the block's place
        return self(block, where, depth, opaque=True)

    def _text(self, text: str, where: str, opaque: bool = False) -> str:
        if opaque:
            self._count_opaque(len(text), where)
        else:
            self._count(len(text), where)
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise RequestError(
                    f"a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start} of a text",
                    where=where,
                    hint="the text was cut inside a character; decode it with errors='replace'",
                ) from None
        return text

    def _count(self, characters: int, where: str) -> None:
        self.characters += characters
        if self.characters > MAX_REQUEST_CHARACTERS:
            raise RequestTooLarge(
                f"more than {MAX_REQUEST_CHARACTERS:,} characters in one request",
                where=where,
                hint="no language model's window is that large; shorten the message, or leave this request alone",
            )

    def _count_opaque(self, characters: int, where: str) -> None:
        self.opaque_characters += characters
        if self.opaque_characters > MAX_OPAQUE_CHARACTERS:
            raise RequestTooLarge(
                f"more than {MAX_OPAQUE_CHARACTERS:,} characters of images, files or sound in one request",
                where=where,
                hint="hand them over by URL or id, or leave this request alone",
            )

    @staticmethod
    def _check_depth(depth: int, where: str) -> None:
        if depth > MAX_DEPTH:
            raise RequestError(f"values nested deeper than {MAX_DEPTH} levels", where=where)


def parse_json(data: bytes, where: str) -> Any:
    """Parse one JSON document; NaN and Infinity, which Python would accept, are refused."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(data, parse_constant=refuse)
    except RecursionError:
        raise RequestError("not readable: values nested too deeply", where=where) from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, and integers of thousands of digits
        raise RequestError(f"not JSON: {error}", where=where, hint="expected one JSON document in UTF-8") from None


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


def canonical_json(value: Any) -> str:
    """Return the canonical text of a value: sorted keys, without needless spaces, non-ASCII unescaped."""
    return _CANONICAL.encode(value)
