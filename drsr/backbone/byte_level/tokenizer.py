"""A tokenizer of SmolLM2's form behind the contract `drsr.request.contracts.Tokenizer`, without the library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from drsr.backbone.byte_level.characters import words
from drsr.backbone.byte_level.merging import Merges, RememberedWords
from drsr.backbone.tokenizer import (
    TOKENIZER_FILE,
    as_ids,
    byte_characters,
    dropped_bytes,
    identity_of_spec,
    read_spec,
    refuse_unencodable,
)
from drsr.errors import AlignmentError, BackboneCorrupt, BackboneError
from drsr.request.contracts import TokenIds

_PRE_TOKENIZERS = [
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
]
_PLAIN_MODEL = {
    "type": ("BPE",),
    "unk_token": (None,),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}
"""Values of a model that merges bytes and does nothing else."""
_LOOSE = ("single_word", "lstrip", "rstrip")
"""Ways in which an added token may depend on what is around it."""


class ByteLevelTokenizer:
    """Counts tokens as the library `tokenizers` does, in a third of its time or less. Safe to use from several threads.

    No content becomes an added token: files whose merges could spell one are of another form.
    """

    def __init__(self, tokenizer_json: str | bytes, *, where: str = TOKENIZER_FILE) -> None:
        """`tokenizer_json` is the text of a tokenizer.json; `where` names it in errors."""
        self._spec = read_spec(tokenizer_json, where)
        found = _read_form(self._spec, where)
        if isinstance(found, str):
            raise BackboneError(
                f"drsr reads no tokenizer of this form itself: {found}", where=where, hint="pip install tokenizers"
            )
        self._dropped = dropped_bytes(self._spec, where)
        vocab = self._spec["model"]["vocab"]
        self._words = RememberedWords([vocab.get(each, -1) for each in byte_characters()], found)
        self._added = {token["content"]: as_ids([token["id"]]) for token in self._spec["added_tokens"]}
        longest_first = sorted(self._added, key=len, reverse=True)
        self._split = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the tokenizer.json in canonical form, as of the library's tokenizer."""
        return identity_of_spec(self._spec)

    @property
    def lead(self) -> TokenIds:
        """Nothing: this form puts no token before a text."""
        return as_ids([])

    def encode_frame(self, text: str) -> TokenIds:
        """Return ids of a frame; added tokens are recognised."""
        plain = [self._encode(part) for part in self._split.split(text)]
        added = [self._added[token] for token in self._split.findall(text)]
        if not added:
            return plain[0]
        ids = np.concatenate([*chain.from_iterable(zip(plain, added, strict=False)), plain[-1]])
        ids.flags.writeable = False
        return ids

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return ids of many contents, each on its own; AlignmentError names the first text that cannot be encoded
        exactly."""
        refuse_unencodable(texts, self._dropped)
        found: list[TokenIds] = []
        for text in texts:
            try:
                found.append(self._encode(text))
            except AlignmentError as error:
                raise AlignmentError(error.what, content=len(found)) from error
        return found

    def _encode(self, text: str) -> TokenIds:
        return np.frombuffer(b"".join(map(self._words.__getitem__, words(text))), dtype=np.int32)


def other_form(tokenizer_json: str | bytes, *, where: str = TOKENIZER_FILE) -> str:
    """Say why `ByteLevelTokenizer` does not read a tokenizer.json; nothing if it does."""
    found = _read_form(read_spec(tokenizer_json, where), where)
    return found if isinstance(found, str) else ""


def _read_form(spec: dict[str, Any], where: str) -> Merges | str:
    """Return the merges, or why the file is of another form."""
    try:
        if reason := _other_steps(spec) or _other_model(spec["model"]):
            return reason
        merges = _merges(spec["model"])
        return _other_merges(spec, merges) or merges
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackboneCorrupt(f"not a tokenizer.json ({error!r})", where=where, hint="fetch the model again") from error


def _other_steps(spec: dict[str, Any]) -> str:
    for step in ("normalizer", "post_processor"):
        if spec.get(step) is not None:
            return f"it has the {step} {spec[step]['type']}"
    found = (spec.get("pre_tokenizer") or {}).get("pretokenizers", [spec.get("pre_tokenizer") or {}])
    plain = [{name: value for name, value in step.items() if name != "trim_offsets"} for step in found]
    if [{"use_regex": True, **step} if step.get("type") == "ByteLevel" else step for step in plain] == _PRE_TOKENIZERS:
        return ""
    return f"it splits words by {' and '.join(step.get('type', 'nothing') for step in found)}, not Digits and ByteLevel"


def _other_model(model: dict[str, Any]) -> str:
    for name, allowed in _PLAIN_MODEL.items():
        if model.get(name) not in allowed:
            return f"its model has {name} {model.get(name)!r}"
    return ""


def _other_merges(spec: dict[str, Any], merges: Merges) -> str:
    vocab = spec["model"]["vocab"]
    if len(set(merges.tokens)) != len(merges.tokens):
        return "two of its merges make the same token"
    spelled = {*map(vocab.get, byte_characters()), *merges.tokens}
    for token in spec["added_tokens"]:
        if not token["content"] or vocab.get(token["content"]) != token["id"] or any(token[way] for way in _LOOSE):
            return f"its added token {token['content']!r} is not a plain entry of the vocabulary"
        if token["id"] in spelled:
            return f"its merges can spell the added token {token['content']!r}"
    return ""


def _merges(model: dict[str, Any]) -> Merges:
    vocab = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ranks = {(vocab[left], vocab[right]): rank for rank, (left, right) in enumerate(pairs)}
    return Merges(ranks, [vocab[left + right] for left, right in pairs])
