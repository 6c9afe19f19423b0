"""The walk over a tree, small branches together, against one forward per pair; also when forwards fail on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.backbone.continuation import Continuation, Segment
from drsr.backbone.memory import SMALLEST_CHUNK, room_for
from drsr.offline.label.prefix_tree import branch_depth, build_tree, total_tokens
from drsr.offline.label.target_nll import Outcome, Pair, direct_nll
from drsr.offline.label.tree_walk import TreeWalk
from drsr.request.contracts import TokenIds
from tests.tiny_backbones import ARCHITECTURES, DEVICES, tiny_backbone
from tests.tiny_models import Architecture

TOLERANCE = {"llama": 1e-5, "qwen3": 1e-5, "qwen3_5": 1e-4}
"""In nats."""


def pairs_of(seed: int, contexts: int) -> dict[int, Pair]:
    """Rewrites of one context: some of its twelve parts left out, so that they share beginnings and ends."""
    random = np.random.default_rng(seed)
    parts = [random.integers(0, 100, random.integers(1, 30)).astype(np.int32) for _ in range(12)]
    target = random.integers(0, 100, random.integers(1, 20)).astype(np.int32)

    def context() -> TokenIds:
        kept = random.random(12) < 0.8
        kept[0] = True
        return np.concatenate([part for part, stays in zip(parts, kept, strict=True) if stays])

    return {index: Pair(context(), target) for index in range(contexts)}


def walk(
    architecture: Architecture, pairs: dict[int, Pair], chunk: int | None, device: str = "cpu"
) -> tuple[dict[int, Outcome], int]:
    backbone = tiny_backbone(architecture, device)
    tree_walk = TreeWalk(backbone, pairs, {}, query_chunk=chunk, room=room_for(backbone))
    return tree_walk.run(), tree_walk.tokens_processed


def numbers(outcomes: dict[int, Outcome]) -> np.ndarray:
    return np.array([outcomes[index] for index in sorted(outcomes)], dtype=float)


@settings(max_examples=25)
@given(
    st.integers(0, 1 << 16),
    st.integers(1, 12),
    st.integers(SMALLEST_CHUNK, 300),
    st.sampled_from(ARCHITECTURES),
    st.sampled_from(DEVICES),
)
def test_equals_one_forward_per_pair(
    seed: int, contexts: int, chunk: int, architecture: Architecture, device: str
) -> None:
    pairs = pairs_of(seed, contexts)
    found, processed = walk(architecture, pairs, chunk, device)
    expected = [direct_nll(tiny_backbone(architecture), *pairs[index]) for index in sorted(pairs)]
    np.testing.assert_allclose(numbers(found), expected, atol=TOLERANCE[architecture], rtol=0)
    sequences = {index: np.concatenate([pair.context, pair.target[:-1]]) for index, pair in pairs.items()}
    assert processed == total_tokens(build_tree(sequences))


def test_small_branches_fill_a_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """All forwards but the last are full, whatever the lengths of the nodes; each token goes through one of them."""
    forwards: list[list[int]] = []
    original = Continuation.extend_branches

    def noted(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        forwards.append([len(segment.token_ids) for segment in segments])
        return original(state, segments)

    monkeypatch.setattr(Continuation, "extend_branches", noted)
    _, processed = walk("llama", pairs_of(3, 10), 64)
    assert [sum(lengths) for lengths in forwards[:-1]] == [64] * (len(forwards) - 1)
    assert max(map(len, forwards)) > 2, "no forward held several branches"
    assert sum(map(sum, forwards)) == processed


def families(seed: int) -> dict[int, Pair]:
    """Contexts that lack a part near their end, so that targets of twenty tokens are leaves beside what goes on."""
    random = np.random.default_rng(seed)
    parts = [random.integers(0, 100, 12).astype(np.int32) for _ in range(8)]
    target = random.integers(0, 100, 20).astype(np.int32)
    contexts = [parts, *(parts[:gone] + parts[gone + 1 :] for gone in (5, 6, 7)), parts[:5], parts[:6], parts[:3]]
    return {number: Pair(np.concatenate(context), target) for number, context in enumerate(contexts)}


def test_small_siblings_of_a_hybrid_are_rows_of_one_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the slow twin: the same walk, one node after another."""
    batches: list[list[int]] = []
    original = Continuation.extend_siblings

    def noted(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        batches.append([len(segment.token_ids) for segment in segments])
        return original(state, segments)

    monkeypatch.setattr(Continuation, "extend_siblings", noted)
    found, processed = walk("qwen3_5", families(5), None)
    assert len(batches) > 1
    assert any(len(set(lengths)) > 1 for lengths in batches), "no row was filled up"
    monkeypatch.setattr("drsr.offline.label.tree_walk.as_one_batch", lambda *asked: [])
    batches.clear()
    alone, tokens = walk("qwen3_5", families(5), None)
    assert not batches
    assert processed == tokens
    np.testing.assert_allclose(numbers(found), numbers(alone), atol=2e-5, rtol=0)


def test_without_room_for_a_state_in_every_row_siblings_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Continuation, "extend_siblings", lambda *asked: pytest.fail("read in a batch"))
    backbone, pairs = tiny_backbone("qwen3_5"), families(5)
    room = room_for(backbone)
    longest = max(len(pair.context) + len(pair.target) - 1 for pair in pairs.values())
    tree = build_tree({number: np.concatenate([pair.context, pair.target[:-1]]) for number, pair in pairs.items()})
    marks = branch_depth(tree) + 1
    tight = room._replace(total=room.state(longest, marks + 1) + SMALLEST_CHUNK * room.per_query)
    outcomes = TreeWalk(backbone, pairs, {}, query_chunk=None, room=tight).run()
    expected = [direct_nll(backbone, *pairs[number]) for number in sorted(pairs)]
    np.testing.assert_allclose(numbers(outcomes), expected, atol=TOLERANCE["qwen3_5"], rtol=0)


@pytest.mark.parametrize("failing", [{0}, {1}, {0, 1, 2, 3}])
def test_batches_that_fail_are_read_one_by_one(failing: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = families(5)
    original = Continuation._forward_siblings
    count = -1

    def sometimes(state: Continuation, segments: Sequence[Segment], rows: Any) -> list[torch.Tensor]:
        nonlocal count
        count += 1
        hidden = original(state, segments, rows)
        if count in failing:
            raise torch.OutOfMemoryError("out of memory")
        return hidden

    monkeypatch.setattr(Continuation, "_forward_siblings", sometimes)
    found, _ = walk("qwen3_5", pairs, None)
    assert count >= min(failing)
    expected = [direct_nll(tiny_backbone("qwen3_5"), *pairs[number]) for number in sorted(pairs)]
    np.testing.assert_allclose(numbers(found), expected, atol=TOLERANCE["qwen3_5"], rtol=0)


@settings(max_examples=25)
@given(st.integers(0, 1 << 16), st.sets(st.integers(0, 25), max_size=6))
def test_forwards_that_fail_change_nothing(seed: int, failing: set[int]) -> None:
    """After a forward that failed, what its branches had written over is read again."""
    pairs = pairs_of(seed, 8)
    expected, tokens = walk("llama", pairs, 128)
    original = Continuation._forward_branches
    count = -1

    def sometimes(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        nonlocal count
        count += 1
        hidden = original(state, segments)
        if count in failing and sum(len(segment.token_ids) for segment in segments) > SMALLEST_CHUNK:
            raise torch.OutOfMemoryError("out of memory")
        return hidden

    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(Continuation, "_forward_branches", sometimes)
        found, processed = walk("llama", pairs, 128)
    np.testing.assert_allclose(numbers(found), numbers(expected), atol=1e-5, rtol=0)
    assert processed >= tokens
