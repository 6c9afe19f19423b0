"""Copies in disguise across splits: found by what the agent says, where runs of one environment are not."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.offline.ingest.feeds.disguises import (
    Disguised,
    agent_sketch,
    compare,
    copies_in_disguise,
    is_copy,
    masked,
    said_in,
)
from drsr.offline.ingest.near_duplicates import THRESHOLD, jaccard, shingles, text_of
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.disguised_runs import DISGUISES, disguised

WORDS = [
    f"{one}{two}" for one in ("sun", "rain", "stone", "field", "wood") for two in ("ing", "er", "ly", "ful", "less")
]
ENVIRONMENT = " ".join(random.Random(0).choices(WORDS, k=400))
"""What every run of an environment reads."""


def said(seed: int, words: int) -> str:
    draw = random.Random(seed)
    return " ".join(
        f"{draw.choice(WORDS)} {draw.choice(WORDS)} item-{draw.randrange(10**6)}" for _ in range(words // 3)
    )


def messages(seed: int, steps: int = 8, words: int = 60) -> list[dict[str, Any]]:
    """A run of an environment: nearly all of it is what the environment prints."""
    found: list[dict[str, Any]] = [{"role": "user", "content": said(-seed - 1, 30)}]
    for step in range(steps):
        found.append({"role": "assistant", "content": said(1_000 * seed + step, words)})
        found.append({"role": "user", "content": f"printed {ENVIRONMENT}"})
    return found


def run(said_in_it: list[dict[str, Any]]) -> Trajectory:
    return Trajectory("run", "openai", {"messages": said_in_it}, "openai_chat/1")


def found_in(runs: dict[str, Trajectory], splits: dict[str, str]) -> list[Disguised[str]]:
    sketches = {name: agent_sketch(each) for name, each in runs.items()}
    return copies_in_disguise(splits, sketches, lambda name: said_in(runs[name]))


def slowly(runs: dict[str, Trajectory], splits: dict[str, str]) -> set[frozenset[str]]:
    """Every pair of different splits, compared."""
    words = {name: said_in(each) for name, each in runs.items()}
    return {
        frozenset((one, other))
        for one, other in combinations(runs, 2)
        if splits[one] != splits[other]
        and is_copy(compare(one, other, words[one], words[other]), min(len(words[one].agent), len(words[other].agent)))
    }


@pytest.mark.parametrize("how", DISGUISES)
def test_a_copy_that_a_jaccard_index_does_not_see(how: str) -> None:
    original = messages(1)
    runs = {str(seed): run(messages(seed)) for seed in range(6)}
    runs["copy"] = run(disguised(original, how, messages(9)))
    whole = [shingles(text_of(runs[name])) for name in ("1", "copy")]
    splits = {name: "train" if number % 2 else "validation" for number, name in enumerate(runs)} | {"copy": "test"}
    (pair,) = found_in(runs, splits)
    assert {pair.first, pair.second} == {"1", "copy"}
    assert " of what the agent says" in pair.told
    if how != "other numbers":  # of which there are few beside what the environment prints
        assert jaccard(*whole) < THRESHOLD
    assert found_in(runs, dict.fromkeys(runs, "train")) == []


def test_runs_of_one_environment_are_no_copies() -> None:
    """Two thirds of what they say is the same, and nothing of it is the agent's."""
    runs = {str(seed): run(messages(seed, words=15)) for seed in range(8)}
    splits = {name: ("train", "validation", "test")[number % 3] for number, name in enumerate(runs)}
    assert found_in(runs, splits) == []
    words = [said_in(each) for each in runs.values()]
    assert compare("0", "1", words[0], words[1]).agent < 0.2


def test_many_copies_are_all_found_without_comparing_all() -> None:
    """Sixty copies are not taken for the environment, and each is compared with a few of the other splits."""
    copies = {f"copy {number}": run(disguised(messages(1), "one word in eight", [])) for number in range(60)}
    runs = {str(seed): run(messages(seed)) for seed in range(20)} | copies
    splits = {name: ("train", "test")[number % 2] for number, name in enumerate(runs)}
    asked: list[str] = []
    sketches = {name: agent_sketch(each) for name, each in runs.items()}

    def read(name: str) -> Any:
        asked.append(name)
        return said_in(runs[name])

    found = copies_in_disguise(splits, sketches, read)
    assert {name for pair in found for name in pair[:2]} == {"1", *copies}
    assert len(found) <= 61 * 2 * 8
    assert len(asked) <= len(runs)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", *DISGUISES]), st.sampled_from(["train", "test"]))),
)
def test_as_by_comparing_every_pair(drawn: list[tuple[int, str, str]]) -> None:
    """What is found is what comparing all pairs finds, while no more than eight are alike."""
    runs, splits = {}, {}
    for number, (seed, how, split) in enumerate(drawn[:8]):
        own = messages(seed, steps=5, words=45)
        runs[str(number)] = run(disguised(own, how, messages(seed + 7)) if how else own)
        splits[str(number)] = split
    assert {frozenset(pair[:2]) for pair in found_in(runs, splits)} == slowly(runs, splits)


def test_what_an_agent_hardly_says_is_no_evidence() -> None:
    short = [{"role": "user", "content": said(1, 300)}, {"role": "assistant", "content": "All of it is done now."}]
    assert found_in({"a": run(short), "b": run(short)}, {"a": "train", "b": "test"}) == []
    assert found_in({}, {}) == []


def test_masked_words() -> None:
    assert masked("Order #W1234567, PAID 3.50 by ADA_9") == "order 0 paid 0 0 by 0"
