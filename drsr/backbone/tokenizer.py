"""A model's own tokenizer, read from its `tokenizer.json`, with the two ways of encoding that the contract asks for.

Frames go through the tokenizer as it is, so `<|im_start|>` becomes the special token. Contents go through a second
instance without added tokens: to it `<|im_start|>` is a run of characters like any other, and so are the added tokens
that are not marked special, such as Qwen's `<tool_call>`. Some vocabularies could still spell an added token out of
ordinary pieces; that is checked on every call and refused, never passed on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drsr.errors import AlignmentError, BackboneCorrupt, BackboneError, MissingExtra
from drsr.request.contracts import TokenIds

if TYPE_CHECKING:
    import tokenizers

TOKENIZER_FILE = "tokenizer.json"

_REMEMBERED_FRAMES = 1024
"""Frames are a small finite set (roles and tags); the bound only guards against a caller who makes up roles."""


class HfTokenizer:
    """A `tokenizers.Tokenizer` behind the contract `drsr.request.contracts.Tokenizer`.

    Encoding runs in the calling thread unless `TOKENIZERS_PARALLELISM` says otherwise: DRSR spreads work over
    processes, and the library's threads neither survive a fork nor make one quietly.
    """

    def __init__(self, tokenizer_json: str | bytes, *, where: str = TOKENIZER_FILE) -> None:
        """`tokenizer_json` is the text of a tokenizer.json; `where` names it in errors."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._spec = read_spec(tokenizer_json, where)
        self._dropped = dropped_bytes(self._spec, where)
        self._frames = _build(self._spec, where)
        self._contents = _build({**self._spec, "added_tokens": [], "post_processor": None}, where)
        self._reserved = _reserved_ids(self._frames, self._contents)
        self._unknown = _unknown_id(self._spec["model"])
        self._lead = as_ids(_lead_ids(self._frames))
        self._remembered_frame = lru_cache(maxsize=_REMEMBERED_FRAMES)(self._encode_frame)

    @classmethod
    def from_folder(cls, folder: Path) -> HfTokenizer:
        """Return the tokenizer of a model's folder."""
        path = folder / TOKENIZER_FILE
        if not path.is_file():
            raise BackboneError(
                f"the model has no {TOKENIZER_FILE}",
                where=str(folder),
                hint="AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one for most models",
            )
        return cls(path.read_bytes(), where=str(path))

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the tokenizer.json in canonical form: sorted keys, and without truncation and padding."""
        return identity_of_spec(self._spec)

    @property
    def lead(self) -> TokenIds:
        """Return the tokens that the tokenizer puts before any text: a beginning-of-sequence token, or nothing."""
        return self._lead

    @property
    def largest_id(self) -> int:
        """The largest token id that can come out; the model's embedding must have a row for it."""
        return max(self._frames.get_vocab(with_added_tokens=True).values())

    def encode_frame(self, text: str) -> TokenIds:
        """Return ids of a frame; special tokens are recognised. The array is shared between calls and read-only."""
        return self._remembered_frame(text)

    def _encode_frame(self, text: str) -> TokenIds:
        return as_ids(self._frames.encode(text, add_special_tokens=False).ids)

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return ids of many contents, each on its own; AlignmentError names the first text that cannot be encoded
        exactly."""
        if not texts:
            return []
        refuse_unencodable(texts, self._dropped)
        encodings = self._contents.encode_batch_fast(list(texts), add_special_tokens=False)
        contents = [as_ids(encoding.ids) for encoding in encodings]
        self._refuse_reserved(contents)
        return contents

    def decode(self, token_ids: TokenIds) -> str:
        """Return the text that ids spell, without special tokens; bytes that are not text become U+FFFD."""
        return str(self._frames.decode([int(token) for token in token_ids], skip_special_tokens=True))

    def _refuse_reserved(self, contents: list[TokenIds]) -> None:
        """No reserved and no unknown token, in one pass over all ids."""
        ids = np.concatenate(contents)
        wrong = np.flatnonzero(self._reserved[ids] | (ids == self._unknown))
        if not wrong.size:
            return
        position = int(wrong[0])
        text = int(np.searchsorted(np.cumsum([len(content) for content in contents]), position, side="right"))
        token = self._contents.id_to_token(int(ids[position]))
        if ids[position] == self._unknown:
            raise AlignmentError("a character is not in the tokenizer's vocabulary", content=text)
        raise AlignmentError(f"the text would become the special token {token!r}", content=text)


def refuse_unencodable(texts: Sequence[str], dropped: bytes) -> None:
    """Raise AlignmentError unless every character can reach the token ids; some tokenizers leave bytes out."""
    for index, text in enumerate(texts):
        try:
            encoded = text.encode("utf-8")
        except UnicodeEncodeError as error:
            what = f"half of a surrogate pair at character {error.start} is not text"
            raise AlignmentError(what, content=index) from error
        if len(encoded.translate(None, dropped)) != len(encoded):
            lost = next(byte for byte in encoded if byte in dropped)
            what = f"the tokenizer has no piece for the byte 0x{lost:02X} and would leave it out"
            raise AlignmentError(what, content=index)


def as_ids(ids: list[int]) -> TokenIds:
    """Return token ids as an array that nobody can change."""
    array = np.array(ids, dtype=np.int32)
    array.flags.writeable = False
    return array


def read_spec(tokenizer_json: str | bytes, where: str) -> dict[str, Any]:
    """Return the parsed tokenizer.json, with everything off that would cut, pad or randomise."""
    try:
        spec = json.loads(tokenizer_json)
        model = {**spec["model"], "dropout": None} if "dropout" in spec["model"] else spec["model"]
    except (ValueError, KeyError, TypeError) as error:
        raise BackboneCorrupt(f"not a tokenizer.json ({error!r})", where=where, hint="fetch the model again") from error
    return {**spec, "model": model, "truncation": None, "padding": None}


def identity_of_spec(spec: dict[str, Any]) -> str:
    """Return the SHA-256 of a read tokenizer.json in canonical form."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _build(spec: dict[str, Any], where: str) -> tokenizers.Tokenizer:
    library = _library()
    try:
        tokenizer: tokenizers.Tokenizer = library.Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # the Rust library raises nothing narrower
        raise BackboneCorrupt(
            f"the tokenizers library cannot read it ({error})", where=where, hint="fetch the model again"
        ) from error
    return tokenizer


def _reserved_ids(frames: tokenizers.Tokenizer, contents: tokenizers.Tokenizer) -> NDArray[np.bool_]:
    """For each id the content tokenizer can give: is it an added token, special or not?"""
    reserved = np.zeros(max(contents.get_vocab().values(), default=0) + 1, dtype=bool)
    # Asked of the library: it gives an added token the next free id where the file's id does not fit the vocabulary.
    added = np.array(list(frames.get_added_tokens_decoder()), dtype=np.int64)
    reserved[added[added < len(reserved)]] = True
    return reserved


def _unknown_id(model: dict[str, Any]) -> int:
    """Return the id of the unknown token, or -1 if the vocabulary has none."""
    if model.get("unk_id") is not None:  # Unigram
        return int(model["unk_id"])
    token = model.get("unk_token")
    return int(model["vocab"].get(token, -1)) if token is not None else -1


def _lead_ids(frames: tokenizers.Tokenizer) -> list[int]:
    """Return the ids that the tokenizer puts before a text only when it adds its special tokens."""
    bare = frames.encode("a", add_special_tokens=False).ids
    framed = frames.encode("a", add_special_tokens=True).ids
    starts = [start for start in range(len(framed)) if framed[start : start + len(bare)] == bare]
    return framed[: starts[0]] if starts else []


def dropped_bytes(spec: dict[str, Any], where: str) -> bytes:
    """Return the bytes that a BPE without an unknown token has no piece for: it silently leaves them out of its output.

    SmolLM2 is such a tokenizer: it has no piece for six control characters, among them U+0004 and U+001D.
    """
    model = spec["model"]
    if model.get("type") != "BPE" or model.get("unk_token") is not None:
        return b""
    vocab = model["vocab"]
    if model.get("byte_fallback") and all(f"<0x{byte:02X}>" in vocab for byte in range(256)):
        return b""
    dropped = bytes(byte for byte, character in enumerate(byte_characters()) if character not in vocab)
    byte_level = '"ByteLevel"' in json.dumps([spec.get("pre_tokenizer"), spec.get("normalizer")])
    if not byte_level or (dropped and spec.get("normalizer") is not None):
        # Behind a normaliser the bytes of the text no longer tell which characters are lost.
        raise BackboneError("the tokenizer would leave out characters without a trace", where=where)
    return dropped


def byte_characters() -> list[str]:
    """Return the printable character by which a byte-level vocabulary writes each of the 256 bytes (GPT-2's table)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = itertools.count(0x100)
    return [chr(byte) if byte in printable else chr(next(substitutes)) for byte in range(256)]


def _library() -> ModuleType:
    """The package `tokenizers`, imported only when a model's tokenizer is really wanted."""
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise MissingExtra("tokenizers", "backbone", needed_for="a language model's tokenizer") from error
    return tokenizers
