"""Token counts for budgets: the renderer's, and bounded in what they remember."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators import token_counts
from drsr.offline.bench.comparators.registry import comparators
from drsr.offline.bench.comparators.token_counts import SOURCE_WINDOW, TokenCounts
from drsr.request.contracts import TokenIds
from drsr.request.rendering import render
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser


class CountingTokenizer(ScriptedTokenizer):
    """Counts what it is asked to encode."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded = 0

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        self.encoded += len(texts)
        return super().encode_contents(texts)


def test_counts_are_the_renderers() -> None:
    request, counts = long_run("anthropic", 3), TokenCounts(ScriptedTokenizer())
    rendering = render(request, ScriptedTokenizer())
    assert counts.request(request) == len(rendering)
    assert counts.messages(request) == [len(span) for span in rendering.message_spans]
    assert counts.text("") == 0
    assert counts.text("two words") == 2


def test_shares_of_the_window() -> None:
    assert TokenCounts(ScriptedTokenizer()).share(64_000) == 64_000
    assert TokenCounts(ScriptedTokenizer(), window=SOURCE_WINDOW // 16).share(64_000) == 4_000
    assert TokenCounts(ScriptedTokenizer(), window=1).share(64_000) == 1


def test_a_text_is_encoded_once_and_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = CountingTokenizer()
    monkeypatch.setattr(token_counts, "REMEMBERED_TOKENS", 100)
    counts = TokenCounts(tokenizer)
    assert [counts.text("some words here") for _ in range(10)] == [3] * 10
    assert tokenizer.encoded == 1
    for number in range(50):
        counts.text(f"text number {number}")
    before = tokenizer.encoded
    counts.text("some words here")
    assert tokenizer.encoded == before + 1


def test_every_method_counts_on_its_own_and_every_run_anew() -> None:
    """How long a method takes must not depend on who was asked before: all encode as much as they would alone."""
    request = long_run("openai", 12)
    encoded: dict[str, set[int]] = {}
    for names in (["pace", "sam"], ["sam", "pace"], ["sam"]):
        tokenizer = CountingTokenizer()
        registry = comparators(tokenizer, window=2_000, wanted=names)
        for _ in range(2):
            registry.forget()
            for name in names:
                method, before = registry.available[name], tokenizer.encoded
                method.rewrite(request, method.begin(), RecordingSummariser())
                encoded.setdefault(name, set()).add(tokenizer.encoded - before)
    assert {name: len(found) for name, found in encoded.items()} == {"pace": 1, "sam": 1}
    assert min(min(found) for found in encoded.values()) > 0
