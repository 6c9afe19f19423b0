"""A deterministic double of a language model and its tokenizer. It ships, needs numpy alone, and knows no language.

It is for tests and for trying a stage without weights: token counts are of the right order, deleting context changes
the next-token distribution in a plausible direction, and every run on every machine gives the same numbers. No policy
made with it means anything about a real model.

Tokens. A content is cut by one regular expression into words of up to six letters with the space before them, single
digits, runs of punctuation and runs of white space, which gives about the counts of a real tokenizer. A piece becomes a
number by a stable hash, so two different pieces can share an id, and ids cannot be turned back into text. Special
tokens have ids of their own that no content can reach.

Logits. After a context c ending in token t, the logit of token v is

    noise(v) + 2 log(1 + times v occurs in c) + 3 log(1 + times v directly follows t earlier in c)

so what the context has said becomes likelier, above all how it went on the last time: the two habits of a real model
that deleting a Block disturbs. noise(v) is a fixed number in [0, 1).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drsr.errors import AlignmentError, WindowExceeded
from drsr.request.contracts import TokenIds

VOCABULARY = 1 << 15
"""Number of token ids, and columns of the logits."""
WINDOW = 58_368
"""The paper's context cap and target cap together: 55,296 + 3,072 tokens."""
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

_VERSION = "scripted/1"
_RESERVED = 64
"""Ids below this are for special tokens."""
_PIECE = re.compile(r" ?[^\W\d]{1,6}|\d| ?[^\w\s]{1,4}|\s{1,16}")
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIAL_TOKENS)) + ")")
_REMEMBERED_PIECES = 1 << 17


class ScriptedTokenizer:
    """The double of a tokenizer."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    @property
    def identity(self) -> str:
        """SHA-256 of the name of the rule."""
        return hashlib.sha256(f"{_VERSION} tokenizer".encode()).hexdigest()

    @property
    def lead(self) -> TokenIds:
        """Nothing: like SmolLM2 and Qwen it has no beginning-of-sequence token."""
        return np.empty(0, dtype=np.int32)

    def encode_frame(self, text: str) -> TokenIds:
        """Return ids of a frame; the special tokens in it get their reserved ids."""
        parts = _SPECIAL.split(text)  # every second part is a special token
        ids = [
            np.array([SPECIAL_TOKENS.index(part)], dtype=np.int32) if number % 2 else self._content(part)
            for number, part in enumerate(parts)
        ]
        return np.concatenate(ids)

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the ids of many contents, each encoded by itself and without special tokens."""
        for index, text in enumerate(texts):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                what = f"half of a surrogate pair at character {error.start} is not text"
                raise AlignmentError(what, content=index) from error
        return [self._content(text) for text in texts]

    def _content(self, text: str) -> TokenIds:
        if len(self._ids) > _REMEMBERED_PIECES:
            self._ids.clear()
        known = self._ids
        pieces = _PIECE.findall(text)
        for piece in set(pieces).difference(known):
            known[piece] = _RESERVED + zlib.crc32(piece.encode("utf-8")) % (VOCABULARY - _RESERVED)
        return np.fromiter(map(known.__getitem__, pieces), dtype=np.int32, count=len(pieces))


class ScriptedBackbone:
    """The double of a language model."""

    def __init__(self) -> None:
        self._tokenizer = ScriptedTokenizer()
        # A multiplicative hash: the same on every machine, unlike a library's random numbers, which change by version.
        self._noise = (np.arange(VOCABULARY, dtype=np.uint64) * 2_654_435_761 % (1 << 32)) / (1 << 32)

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def identity(self) -> str:
        """SHA-256 of the name of the rule and the tokenizer's identity."""
        return hashlib.sha256(f"{_VERSION} {self._tokenizer.identity}".encode()).hexdigest()

    @property
    def window(self) -> int:
        """The largest number of tokens in one sequence."""
        return WINDOW

    @property
    def tokenizer(self) -> ScriptedTokenizer:
        return self._tokenizer

    def logits(self, token_ids: TokenIds, positions: Sequence[int]) -> NDArray[np.float32]:
        """Next-token logits after each of the given positions (0 is the first token): one row per position."""
        length = len(token_ids)
        if length > WINDOW:
            raise WindowExceeded(f"{length} tokens, the window holds {WINDOW}", where=self.name)
        if len(positions) and not 0 <= min(positions) <= max(positions) < length:
            raise IndexError(f"positions must be from 0 to {length - 1}, got {min(positions)} to {max(positions)}")
        ids = np.asarray(token_ids, dtype=np.int64)
        rows = np.empty((len(positions), VOCABULARY), dtype=np.float32)
        for row, position in enumerate(positions):
            context, last = ids[: position + 1], ids[position]
            followers = context[1:][context[:-1] == last]
            said = np.bincount(context, minlength=VOCABULARY)
            followed = np.bincount(followers, minlength=VOCABULARY)
            rows[row] = self._noise + 2 * np.log1p(said) + 3 * np.log1p(followed)
        return rows
