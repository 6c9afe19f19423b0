"""Remembering what was encoded changes nothing but the work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import AlignmentError
from drsr.request.contracts import TokenIds
from drsr.request.history import delete
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import render
from drsr.request.request import Request
from tests.strategies import arbitrary, deletions, eligible
from tests.tokenizer_kinds import byte_pairs, leading


@settings(max_examples=50)
@given(arbitrary)
def test_it_renders_like_the_tokenizer_itself(request: Request) -> None:
    for plain in (byte_pairs(), leading()):
        remembered = RememberedTokens(plain)
        assert remembered.identity == plain.identity
        for _ in range(2):
            one, other = render(request, remembered), render(request, plain)
            assert np.array_equal(one.token_ids, other.token_ids)
            assert one.part_spans == other.part_spans


class CountingTokenizer(ScriptedTokenizer):
    """Counts the texts that it is asked to encode."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[str] = []

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        self.encoded += texts
        return super().encode_contents(texts)


@settings(max_examples=50)
@given(deletions(eligible))
def test_a_rewrite_costs_no_further_encoding(found: tuple) -> None:
    history, blocks = found
    counting = CountingTokenizer()
    remembered = RememberedTokens(counting)
    render(history.request, remembered)
    once = len(counting.encoded)
    assert once == len(set(counting.encoded))
    render(delete(history, blocks).request, remembered)
    assert len(counting.encoded) == once


def test_a_complaint_names_the_right_text() -> None:
    remembered = RememberedTokens(ScriptedTokenizer())
    remembered.encode_contents(["a", "b"])
    with pytest.raises(AlignmentError) as caught:
        remembered.encode_contents(["a", "b", "c", "\ud800"])
    assert caught.value.content == 3
