"""The 451 numbers of a deletion set, against the paper's formulas written out for one set at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drsr.scorer.set_representation import DIMENSION, EMBEDDING, Parts, budget_terms, cardinalities, represent


def written_out(embeddings: np.ndarray, mask: int, budget: np.ndarray) -> np.ndarray:
    """Eq. setrep_exact for one set, with explicit loops."""
    deleted = [row for place, row in enumerate(embeddings) if mask >> place & 1]
    retained = [row for place, row in enumerate(embeddings) if not mask >> place & 1]
    zero = np.zeros(EMBEDDING)
    mean_d, max_d = np.mean(deleted, axis=0), np.max(deleted, axis=0)
    mean_r = np.mean(retained, axis=0) if retained else zero
    max_r = np.max(retained, axis=0) if retained else zero
    products = [left * right for left, right in combinations(deleted, 2)]
    pairs = np.mean(products, axis=0) if products else zero
    return np.concatenate([mean_d, mean_r, max_d, max_r, pairs, mean_d * mean_r, np.abs(mean_d - mean_r), budget])


@given(candidates=st.integers(1, 4), seed=st.integers(0, 1000))
def test_every_set_is_what_the_formulas_say(candidates: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    embeddings = generator.normal(size=(candidates, EMBEDDING))
    budget = generator.random(((1 << candidates) - 1, 3))
    found = represent(embeddings, budget)
    assert found.shape == ((1 << candidates) - 1, DIMENSION) == ((1 << candidates) - 1, 451)
    for mask in range(1, 1 << candidates):
        np.testing.assert_allclose(found[mask - 1], written_out(embeddings, mask, budget[mask - 1]), atol=1e-12)


def test_pair_pooling_is_the_mean_product_over_pairs() -> None:
    embeddings = np.random.default_rng(3).normal(size=(4, EMBEDDING))
    pairs = represent(embeddings, np.zeros((15, 3)))[:, 4 * EMBEDDING : 5 * EMBEDDING]
    for mask in range(1, 16):
        members = [place for place in range(4) if mask >> place & 1]
        total, number = np.zeros(EMBEDDING), 0
        for i in members:
            for j in members:
                if i < j:
                    total += embeddings[i] * embeddings[j]
                    number += 1
        np.testing.assert_allclose(pairs[mask - 1], total / max(number, 1), atol=1e-12)
        if number == 0:
            assert not pairs[mask - 1].any()


@given(order=st.permutations(range(4)), seed=st.integers(0, 100))
def test_the_order_of_candidates_does_not_matter(order: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    embeddings, budget = generator.normal(size=(4, EMBEDDING)), generator.random((15, 3))
    moved = [sum(1 << order.index(place) for place in range(4) if mask >> place & 1) for mask in range(1, 16)]
    budget_moved = np.empty_like(budget)
    budget_moved[np.array(moved) - 1] = budget
    found = represent(embeddings[order], budget_moved)
    np.testing.assert_allclose(found[np.array(moved) - 1], represent(embeddings, budget), atol=1e-12)


def test_deleting_everything_leaves_zeros_for_what_stays() -> None:
    embeddings = np.random.default_rng(0).normal(size=(3, EMBEDDING)) + 5
    everything = represent(embeddings, np.zeros((7, 3)))[6].reshape(-1)[: 7 * EMBEDDING].reshape(7, EMBEDDING)
    assert not everything[1].any()
    assert not everything[3].any()
    assert not everything[5].any()
    np.testing.assert_allclose(everything[6], embeddings.mean(axis=0))  # |mean_D - 0|


def test_budget_terms() -> None:
    savings = np.array([10, 20, 28, 40, 50, 60, 66])
    terms = budget_terms(savings, np.array([10, 20, 40]))
    np.testing.assert_allclose(terms[:, 0], np.array([1, 1, 2, 1, 2, 2, 3]) / 3, rtol=1e-6)
    np.testing.assert_allclose(terms[:, 1], np.log(1 + savings) / 10, rtol=1e-6)
    np.testing.assert_allclose(terms[:, 2], savings / 70, rtol=1e-6)
    assert cardinalities(3).tolist() == [1, 1, 2, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("parts", "zero", "kept"),
    [(Parts(retained_context=False), [1, 3, 5, 6], [0, 2, 4]), (Parts(pair_pooling=False), [4], [0, 1, 2, 3, 5, 6])],
)
def test_a_part_taken_away_is_zero_and_the_rest_unchanged(parts: Parts, zero: list[int], kept: list[int]) -> None:
    generator = np.random.default_rng(0)
    embeddings, budget = generator.normal(size=(4, EMBEDDING)), generator.random((15, 3))
    full, less = represent(embeddings, budget), represent(embeddings, budget, parts)
    assert less.shape == full.shape
    blocks_full, blocks = (part[:, :-3].reshape(15, 7, EMBEDDING) for part in (full, less))
    assert not blocks[:, zero].any()
    np.testing.assert_array_equal(blocks[:, kept], blocks_full[:, kept])
    np.testing.assert_array_equal(less[:, -3:], budget)


def test_torch_runs_the_same_code_and_its_gradient_is_right() -> None:
    generator = np.random.default_rng(0)
    embeddings, budget = generator.normal(size=(2, 5, 4, EMBEDDING)), generator.random((2, 5, 15, 3))
    tensor = torch.from_numpy(embeddings).requires_grad_()
    found = represent(tensor, torch.from_numpy(budget), xp=torch)
    np.testing.assert_array_equal(found.detach().numpy(), represent(embeddings, budget))
    direction = torch.from_numpy(generator.normal(size=found.shape))
    (found * direction).sum().backward()
    step = generator.normal(size=embeddings.shape) * 1e-6
    change = (represent(embeddings + step, budget) - represent(embeddings - step, budget)) * direction.numpy() / 2
    assert tensor.grad is not None
    np.testing.assert_allclose(change.sum(), (tensor.grad.numpy() * step).sum(), rtol=1e-5)
