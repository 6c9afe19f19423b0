"""Ten thousand messages go through the core, and the work grows with their number, not with its square."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from drsr.decide.candidates import DecisionState, freeze
from drsr.decide.deletion_sets import deletion_sets
from drsr.request.request import Protocol, read_request
from tests.messages import USER, answers, asks, returns, texts, uses
from tests.strategies import PROTOCOLS
from tests.tokenizer_kinds import leading


def run_of(steps: int, protocol: Protocol) -> list[dict[str, Any]]:
    """A run whose calls all have the same id."""
    if protocol == "openai":
        return [USER, *[asks("a", text="x"), answers("a", "y")] * steps]
    return [USER, *[uses("a", state=texts("x")), returns("a", content="y")] * steps]


def decide(messages: list[dict[str, Any]], protocol: Protocol) -> int:
    """From the wire to the savings of all deletion sets; returns how many there are."""
    state = freeze(read_request(messages, protocol=protocol), leading(), 55_296)
    assert isinstance(state, DecisionState)
    return len(deletion_sets(state, 3))


def calls_made(messages: list[dict[str, Any]], protocol: Protocol) -> int:
    """How many functions, ours and built in, a decision calls: a measure of work that no other process disturbs."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert decide(messages, protocol) == 14
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ten_thousand_messages(protocol: Protocol) -> None:
    assert decide(run_of(5_000, protocol), protocol) == 14


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_eight_times_the_messages_are_eight_times_the_work(protocol: Protocol) -> None:
    small, large = (calls_made(run_of(steps, protocol), protocol) for steps in (100, 800))
    assert large < 8.1 * small
