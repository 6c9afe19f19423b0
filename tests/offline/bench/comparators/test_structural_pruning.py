"""Structural Pruning: what counts as transition narration."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.bench.comparators.structural_pruning import StructuralPruning
from drsr.request.request import read_request
from tests.messages import USER, answers, asks, returns, texts, uses
from tests.offline.bench.recording_summariser import RecordingSummariser

LATEST = [asks("y", text="Let me look."), answers("y"), asks("z", text="Let me look."), answers("z")]


def pruned(messages: list[dict[str, Any]]) -> Any:
    return StructuralPruning().rewrite(read_request(messages), None, RecordingSummariser()).request.to_wire()


def test_short_narration_before_a_call_goes_and_the_exchange_stays() -> None:
    narrated = [USER, asks("a", text="Let me have a look at the next page."), answers("a"), *LATEST]
    assert pruned(narrated) == [USER, asks("a"), answers("a"), *LATEST]


@pytest.mark.parametrize(
    "text",
    [
        "There are 3 of them.",
        "Now I open src/main there.",
        "Now I open the file notes.txt there.",
        "I look at max_retries next.",
        "I look at maxRetries next.",
        "The `parser` comes next.",
        "I decided to take the other road.",
        "It turns out that nothing is there.",
        "word " * 40,
    ],
)
def test_state_bearing_text_stays(text: str) -> None:
    messages = [USER, asks("a", text=text), answers("a"), *LATEST]
    assert pruned(messages) == messages


def test_text_without_a_witness_stays_and_so_does_recent2() -> None:
    messages = [USER, {"role": "assistant", "content": "Let me look."}, *LATEST]
    assert pruned(messages) == messages


def test_anthropic() -> None:
    narrated = uses("a", state=texts("Let me look."))
    latest = [uses("y"), returns("y"), uses("z"), returns("z")]
    assert pruned([USER, narrated, returns("a"), *latest]) == [USER, uses("a"), returns("a"), *latest]
