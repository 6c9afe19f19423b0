"""Hidden states reduced while they pass: the same whatever the runs they come in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import MisalignedSpan
from drsr.features.hidden import SMALLEST_NORM, BlockStates, SpanStates, hidden_relations, stable_norm, unit

LAYERS, POSITIONS, SIZE = 3, 60, 5
STATES = torch.randn(LAYERS, POSITIONS, SIZE, generator=torch.Generator().manual_seed(1))


def shown(spans: SpanStates, cuts: Sequence[int], start: int = 0) -> SpanStates:
    """All layers run by run, as a continuation shows them."""
    edges = [start, *cuts, POSITIONS]
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        for layer in range(1, LAYERS + 1):
            spans.add(layer, begin, STATES[layer - 1, begin:end])
    return spans


@st.composite
def ranges_and_cuts(draw: st.DrawFn) -> tuple[list[range], list[int]]:
    edges = sorted(draw(st.sets(st.integers(0, 55), min_size=2, max_size=12)))
    ranges = [range(*pair) for pair in zip(edges[::2], edges[1::2], strict=False)]
    return ranges, sorted(draw(st.sets(st.integers(1, POSITIONS - 1), max_size=8)))


@given(ranges_and_cuts())
def test_sums_first_and_last_whatever_the_runs(drawn: tuple[list[range], list[int]]) -> None:
    ranges, cuts = drawn
    spans = shown(SpanStates(ranges, 57, LAYERS), cuts)
    assert spans.is_complete
    assert torch.equal(spans.state(), STATES[:, 57])
    for span in ranges:
        summary = spans.summary(span)
        assert torch.allclose(summary.total, STATES[:, span.start : span.stop].sum(dim=1), atol=1e-5)
        assert torch.equal(summary.first, STATES[:, span.start])
        assert torch.equal(summary.last, STATES[:, span.stop - 1])


def test_positions_must_come_in_order() -> None:
    spans = SpanStates([range(3, 9)], 20, LAYERS)
    spans.add(1, 0, STATES[0, :10])
    with pytest.raises(MisalignedSpan, match="layer 1 shows position 12 where 10 was due"):
        spans.add(1, 12, STATES[0, 12:20])
    with pytest.raises(MisalignedSpan, match="layer 2 shows position 10 where 0 was due"):
        spans.add(2, 10, STATES[1, 10:20])
    assert not spans.is_complete


def test_a_span_before_the_first_position_shown() -> None:
    with pytest.raises(MisalignedSpan, match="starts at position 3, before the first one shown, 5"):
        SpanStates([range(3, 9)], 20, LAYERS, start=5)
    spans = shown(SpanStates([range(5, 9)], 20, LAYERS, start=5), [7], start=5)
    assert torch.allclose(spans.summary(range(5, 9)).total, STATES[:, 5:9].sum(dim=1), atol=1e-5)


def test_half_precision_is_summed_in_float32() -> None:
    spans = SpanStates([range(40)], 50, 1)
    spans.add(1, 0, STATES[0].bfloat16())
    assert spans.summary(range(40)).total.dtype == torch.float32
    assert torch.allclose(spans.summary(range(40)).total[0], STATES[0, :40].bfloat16().float().sum(dim=0), atol=1e-5)


def test_copies_have_memory_of_their_own() -> None:
    summary = shown(SpanStates([range(2, 9), range(9, 12)], 57, LAYERS), []).summary(range(2, 9))
    copied = summary.copied()
    summary.total.zero_()
    assert copied.total.abs().sum() > 0
    assert copied.nbytes == 3 * LAYERS * SIZE * 4


def test_relations() -> None:
    mean = np.array([[[3.0, 4.0], [1.0, 0.0]]])  # one candidate, two layers
    state = np.array([[3.0, 4.0], [0.0, 2.0]])
    first, last = np.array([[[4.0, -3.0], [0.0, 1.0]]]), np.array([[[-6.0, -8.0], [0.0, -1.0]]])
    relations = hidden_relations(BlockStates(mean, first, last, state))
    assert relations[0, 0] == pytest.approx([1, 0, 0, 0, -1])
    assert relations[0, 1] == pytest.approx([0, np.sqrt(5 / 2), np.log(1 / 2), 1, -1])


def test_zero_vectors_are_stabilised_in_one_place() -> None:
    zero, some = np.zeros((1, 1, 4)), np.ones((1, 1, 4))
    assert stable_norm(zero) == SMALLEST_NORM
    assert np.array_equal(unit(zero), zero)
    relations = hidden_relations(BlockStates(zero, zero, some, some[0]))
    assert relations[0, 0] == pytest.approx([0, 1, np.log(SMALLEST_NORM / 2), 0, 1])
    assert np.isfinite(hidden_relations(BlockStates(zero, zero, zero, zero[0]))).all()
