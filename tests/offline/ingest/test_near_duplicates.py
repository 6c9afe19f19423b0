"""Near-duplicates across splits: found, exact, and nothing else."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.near_duplicates import (
    NearDuplicate,
    jaccard,
    leaked_pairs,
    near_duplicates,
    shingles,
    text_of,
)
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, task_in_split, write_json

VOCABULARY = [f"word{number}" for number in range(5_000)]


def text(seed: int, words: int = 400) -> list[str]:
    return random.Random(seed).choices(VOCABULARY, k=words)


def exact_jaccard(first: list[str], second: list[str]) -> float:
    """By sets of tuples: the slow twin."""
    sets = [{tuple(words[start : start + 5]) for start in range(len(words) - 4)} for words in (first, second)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_copies_and_near_copies_across_splits_are_found_with_their_exact_score() -> None:
    near = text(1)
    near[200] = "changed"
    texts = {"a": text(1), "b": text(1), "c": near, "d": text(2), "e": text(3)}
    splits = {"a": "train", "b": "test", "c": "validation", "d": "test", "e": "train"}
    found = near_duplicates(splits, lambda key: " ".join(texts[key]))
    score = exact_jaccard(texts["a"], near)
    assert 0.9 < score < 1.0
    assert found == [("a", "b", 1.0), ("a", "c", pytest.approx(score)), ("b", "c", pytest.approx(score))]
    assert isinstance(found[0], NearDuplicate)


def test_the_same_split_is_no_leak() -> None:
    assert near_duplicates({"a": "train", "b": "train"}, lambda key: " ".join(text(1))) == []


def test_nothing_and_empty_texts_are_no_duplicates() -> None:
    assert near_duplicates({}, lambda key: "") == []
    assert near_duplicates({"a": "train", "b": "test"}, lambda key: "") == []


def test_short_texts_count_as_one_shingle() -> None:
    splits = {"a": "train", "b": "test", "c": "test"}
    texts = {"a": "just done", "b": "just done", "c": "not done"}
    assert near_duplicates(splits, texts.__getitem__) == [("a", "b", 1.0)]


@pytest.mark.parametrize("changed", [0, 2, 5, 8, 11, 14])
def test_all_pairs_above_the_threshold_are_found_and_none_below(changed: int) -> None:
    """Against the slow twin on 40 pairs with about the same overlap; the threshold lies at a Jaccard index of 0.8."""
    texts: dict[int, list[str]] = {}
    for pair in range(40):
        texts[2 * pair] = text(pair)
        altered = text(pair)
        for position in random.Random(pair).sample(range(400), changed):
            altered[position] = "changed"
        texts[2 * pair + 1] = altered
    found = near_duplicates({key: ("train", "test")[key % 2] for key in texts}, lambda key: " ".join(texts[key]))
    alike = {(key, key + 1) for key in range(0, 80, 2) if exact_jaccard(texts[key], texts[key + 1]) >= 0.8}
    assert {(first, second) for first, second, _ in found} == alike


@given(st.lists(st.sampled_from("abcdef"), min_size=5), st.lists(st.sampled_from("abcdef"), min_size=5))
def test_the_jaccard_index_is_that_of_sets(first: list[str], second: list[str]) -> None:
    assert jaccard(shingles(" ".join(first)), shingles(" ".join(second))) == exact_jaccard(first, second)


def test_the_order_of_words_counts() -> None:
    assert jaccard(shingles("a b c d e"), shingles("e d c b a")) == 0.0


def test_many_alike_are_all_told_in_linear_time() -> None:
    """Every one of a crowd is in some pair, and pairs grow with the crowd, not with its square."""
    splits = {number: ("train", "validation", "test")[number % 3] for number in range(600)}
    started = time.process_time()
    found = near_duplicates(splits, lambda key: " ".join([*text(1), str(key)]))
    assert time.process_time() - started < 30
    assert {key for pair in found for key in pair[:2]} == set(splits)
    assert len(found) <= 600 * 2 * 2 * 8


def test_the_text_of_a_trajectory_is_what_was_said_and_done() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "system", "content": "shared instructions"},
        {"role": "user", "content": [{"type": "text", "text": "the task"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
    ]
    trajectory = Trajectory("run", "openai", {"messages": messages}, "openai_chat/1")
    assert text_of(trajectory).split("\n") == [
        "the task",
        '{"command": "ls"}',
        "shell",
        "a.txt",
    ]  # keys as they are stored


def test_shingles_are_sorted_and_distinct() -> None:
    found = shingles("a b c d e " * 20)
    assert len(found) == 5
    assert np.all(np.diff(found.astype(object)) > 0)


def test_a_planted_pair_is_found_in_the_catalog(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for seed in range(12):
        write_json(tmp_path / "runs" / f"{seed:02d}.json", chat(seed))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert leaked_pairs(catalog, artifacts) == []
    planted = chat(99, steps=6)
    write_json(tmp_path / "runs" / "x.json", planted | {"task": task_in_split("train")})
    write_json(tmp_path / "runs" / "y.json", planted | {"task": task_in_split("test")})
    write_json(tmp_path / "runs" / "z.json", planted | {"task": task_in_split("test")})
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    found = leaked_pairs(catalog, artifacts)
    assert found == [
        ("runs/x.json#run-99", "train", "runs/y.json#run-99", "test", 1.0),
        ("runs/x.json#run-99", "train", "runs/z.json#run-99", "test", 1.0),
    ]
    # Only what is current counts.
    write_json(tmp_path / "runs" / "x.json", chat(100) | {"id": "run-99", "task": task_in_split("train")})
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert leaked_pairs(catalog, artifacts) == []
