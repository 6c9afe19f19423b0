"""The algebra of joint harm, on labels that were really measured and on made-up ones."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.harm import StateHarms, interactions, measure_states, members
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


def test_residuals_of_real_labels() -> None:
    harms = real_harms()
    residuals = interactions(harms)
    assert sorted(residuals) == [mask for mask in range(1, 16) if mask.bit_count() > 1]
    for mask, residual in residuals.items():
        assert harms[mask] == pytest.approx(sum(harms[m] for m in members(mask)) + residual, abs=1e-12)
    assert max(map(abs, residuals.values())) > 1e-3  # real harms do not add up
    assert residuals[0b1010] == harms[0b1010] - (harms[0b10] + harms[0b1000])


@given(made_up_harms)
def test_additive_exactly_when_the_residual_vanishes(harms: dict[int, float]) -> None:
    additive = {mask: sum(harms[m] for m in members(mask)) for mask in harms}
    assert all(residual == 0 for residual in interactions(additive).values())
    shifted = additive | {ALL: additive[ALL] + 0.5}
    assert [mask for mask, residual in interactions(shifted).items() if residual != 0] == [ALL]


def test_sets_with_an_unmeasured_member_have_no_residual() -> None:
    harms = {mask: float(mask) for mask in range(1, 16) if mask != 0b10}
    assert sorted(interactions(harms)) == [0b101, 0b1001, 0b1100, 0b1101]


def test_members() -> None:
    assert members(0b1010) == [0b10, 0b1000]
