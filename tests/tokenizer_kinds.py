"""The tokenizers that the core is tested with: scripted, scripted with a leading token, and a real BPE."""

from __future__ import annotations

import json
from functools import cache

import numpy as np

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.backbone.tokenizer import HfTokenizer
from drsr.request.contracts import TokenIds, Tokenizer
from tests.tiny_models import tokenizer_json


class LeadingTokenizer(ScriptedTokenizer):
    """The scripted tokenizer with a beginning-of-sequence token, such as Llama has."""

    @property
    def lead(self) -> TokenIds:
        return np.zeros(1, dtype=np.int32)  # <|endoftext|>


@cache
def scripted() -> Tokenizer:
    """Quick, and without a lead."""
    return ScriptedTokenizer()


@cache
def leading() -> Tokenizer:
    """Quick, and with a lead of one token."""
    return LeadingTokenizer()


@cache
def byte_pairs() -> Tokenizer:
    """A byte-level BPE of the tokenizers library, which adds <|endoftext|> in front of every text."""
    spec = json.loads(tokenizer_json())
    spec["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    return HfTokenizer(json.dumps(spec))
