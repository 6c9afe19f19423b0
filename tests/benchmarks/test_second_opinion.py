"""A second opinion: agreement counted by hand, and the same candidates in another tokenizer's tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.second_opinion import (
    LabelledState,
    Opinions,
    by_turns,
    compare,
    intervals,
    keep,
    read_by,
    read_kept,
)
from drsr.decide.deletion_sets import deletion_sets
from drsr.offline.label.harm import contexts_of
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import tiny_backbone
from tests.tokenizer_kinds import scripted

SAVINGS = {1: 0.05, 2: 0.10, 3: 0.15}


def test_agreement_counted_by_hand() -> None:
    states = [
        Opinions("one", 100, SAVINGS, {1: 0.00, 2: 0.05, 3: 0.01}, {1: 0.01, 2: 0.06, 3: 0.03}),
        Opinions("other", 100, SAVINGS, {1: 0.10, 2: 0.00, 3: 0.11}, {1: 0.00, 2: 0.10, 3: 0.20}),
    ]
    found = compare(states)
    assert (found.states, found.sets) == (2, 6)
    # unsafe to the first: 2 | 1, 3; to the second: 2, 3 | 2, 3
    assert found.same_verdict == pytest.approx(3 / 6)
    assert found.unsafe == pytest.approx((3 / 6, 4 / 6))
    assert found.kappa == pytest.approx(0.0)
    assert found.safe_then_unsafe == pytest.approx(2 / 3)
    # pairs with a gap: (1, 2) and (2, 3) | (1, 2) and (2, 3): right, right | wrong, right
    assert found.pairs == 4
    assert found.same_order == pytest.approx(3 / 4)
    assert found.same_order_at_cardinality == pytest.approx(1 / 2)
    # the largest set that the first finds safe: 3 | 2, of which the second finds none safe
    assert (found.choices, found.choice_is_safe) == (2, 0.0)
    edges = intervals(states)
    assert edges["same_order"] == pytest.approx((0.5, 1.0))


def test_kinds_come_by_turns_and_keep_their_order() -> None:
    def state(task: str, source: str, domain: str | None) -> LabelledState:
        return LabelledState(task, (source, domain), "train", 0, "", 0, {})

    short, long = state("1", "intercode", "code"), state("2", "intercode", "code")
    other, nowhere = state("3", "intercode", "security"), state("4", "tau", None)
    assert by_turns([short, long, other, nowhere]) == [short, other, nowhere, long]


def test_nothing_to_count() -> None:
    assert math.isnan(compare([]).same_verdict)


def test_what_is_kept_counts_while_its_labels_stand(tmp_path: Path) -> None:
    def labelled(task: str, harms: dict[int, float]) -> LabelledState:
        return LabelledState(task, ("intercode", None), "train", 0, "", 100, harms)

    mine = Opinions("one", 100, SAVINGS, {1: 0.0, 2: 0.05, 3: 0.01}, {1: 0.01, 2: 0.06, 3: 0.03})
    other = mine._replace(task="other")
    file = tmp_path / "kept.jsonl"
    assert read_kept(file, "larger", []) == []
    for backbone, opinions in (("larger", mine), ("larger", other), ("largest", mine._replace(second={1: 9.0}))):
        keep(file, backbone, opinions)
    waiting = [labelled("one", mine.first), labelled("other", {**other.first, 3: 0.5}), labelled("third", {})]
    assert read_kept(file, "larger", waiting) == [mine]
    assert read_kept(file, "larger", [waiting[0], labelled("other", other.first)]) == [mine, other]


def test_the_same_candidates_in_other_tokens() -> None:
    state = state_of(run_messages(6), tiny_backbone("llama").tokenizer)
    tokenizer = scripted()
    again = read_by(state, tokenizer, 10_000)
    assert again is not None
    assert [one.block for one in again.candidates] == [one.block for one in state.candidates]
    assert len(again.rendering) != len(state.rendering)
    masks = [found.mask for found in deletion_sets(again, 4)]
    assert masks == [found.mask for found in deletion_sets(state, 4)]
    assert all(len(tokens) < len(contexts_of(again).intact) for _, tokens in contexts_of(again).deleted)
    assert read_by(state, tokenizer, 40) is None
