"""The algebra of joint harm, on labels that were really measured and on made-up ones."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.harm import (
    StateHarms,
    conditional_harm,
    harm_of,
    interactions,
    measure_states,
    members,
    pair_interactions,
)
from drsr.offline.label.target_nll import TargetNll
from tests.small_states import small_states
from tests.tiny_backbones import tiny_backbone

ALL = 0b1111


@cache
def real_harms() -> dict[int, float]:
    """Measured harms of a state with four candidates."""
    backbone = tiny_backbone("llama")
    (result,) = measure_states(TargetNll(backbone), small_states(backbone, (6,))).results
    assert isinstance(result, StateHarms)
    return {harm.deletion_set.mask: harm.harm for harm in result.harms}


made_up_harms = st.lists(st.floats(-1, 1), min_size=15, max_size=15).map(lambda harms: dict(enumerate(harms, start=1)))


def telescoped(harms: dict[int, float], order: tuple[int, ...]) -> float:
    """The conditional harms of deleting one candidate after another, added up."""
    total, deleted = 0.0, 0
    for block in order:
        total += conditional_harm(harms, block, deleted)
        deleted |= 1 << block
    return total


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_joint_harm_telescopes_in_every_order(order: tuple[int, ...]) -> None:
    for length in range(1, 5):
        mask = sum(1 << block for block in order[:length])
        assert telescoped(real_harms(), order[:length]) == pytest.approx(real_harms()[mask], abs=1e-12)


def test_the_conditional_terms_do_depend_on_the_order() -> None:
    """What makes joint measurement necessary: the last candidate's effect differs with what was deleted before."""
    effects = [conditional_harm(real_harms(), 3, given) for given in range(8)]
    assert max(effects) - min(effects) > 1e-3


def test_residuals_of_real_labels() -> None:
    harms = real_harms()
    residuals = interactions(harms)
    assert sorted(residuals) == [mask for mask in range(1, 16) if mask.bit_count() > 1]
    for mask, residual in residuals.items():
        assert harms[mask] == pytest.approx(sum(harms[m] for m in members(mask)) + residual, abs=1e-12)
    assert max(map(abs, residuals.values())) > 1e-3  # real harms do not add up
    pairs = pair_interactions(harms)
    assert sorted(pairs) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert pairs[1, 3] == harms[0b1010] - (harms[0b10] + harms[0b1000])


@given(made_up_harms)
def test_additive_exactly_when_the_residual_vanishes(harms: dict[int, float]) -> None:
    additive = {mask: sum(harms[m] for m in members(mask)) for mask in harms}
    assert all(residual == 0 for residual in interactions(additive).values())
    shifted = additive | {ALL: additive[ALL] + 0.5}
    assert [mask for mask, residual in interactions(shifted).items() if residual != 0] == [ALL]


@given(made_up_harms, st.permutations(range(4)))
def test_order_independence(harms: dict[int, float], order: list[int]) -> None:
    assert telescoped(harms, tuple(order)) == pytest.approx(harms[ALL], abs=1e-12)


def test_sets_with_an_unmeasured_member_have_no_residual() -> None:
    harms = {mask: float(mask) for mask in range(1, 16) if mask != 0b10}
    assert sorted(interactions(harms)) == [0b101, 0b1001, 0b1100, 0b1101]
    assert sorted(pair_interactions(harms)) == [(0, 2), (0, 3), (2, 3)]


def test_bounds() -> None:
    assert harm_of({}, 0) == 0.0
    assert members(0b1010) == [0b10, 0b1000]
    with pytest.raises(ValueError, match="already deleted"):
        conditional_harm(real_harms(), 1, 0b10)
