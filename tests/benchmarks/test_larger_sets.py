"""Sets larger than four: chosen by the rule, measured as the label stage measures, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.larger_sets import DeletedTogether, by_size, drawn_sets, many_candidates, measure
from drsr.offline.label.target_nll import TargetNll, direct_nll
from drsr.request.history import removal
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import tiny_backbone


def test_up_to_eight_blocks_and_every_set_once() -> None:
    state = state_of(run_messages(14), tiny_backbone("llama").tokenizer)
    candidates = many_candidates(state)
    assert len(candidates) == 8
    steps = [candidate.block.step for candidate in candidates]
    assert steps == sorted(set(steps))
    assert set(drawn_sets(8, 1)) >= {(number,) for number in range(8)} | {tuple(range(8))}
    assert len(drawn_sets(8, 1)) == len(set(drawn_sets(8, 1))) == 8 + 6 * 4 + 1
    assert drawn_sets(8, 1) == drawn_sets(8, 1) != drawn_sets(8, 2)


def test_harms_are_those_of_a_direct_computation() -> None:
    backbone = tiny_backbone("llama")
    state = state_of(run_messages(9), backbone.tokenizer)
    target = np.arange(20, 30, dtype=np.int32)
    found = measure(TargetNll(backbone), state, target, 0, 5)
    candidates = many_candidates(state)
    assert max(len(one.members) for one in found) == len(candidates) > 4
    intact = direct_nll(backbone, state.view.token_ids(state.rendering.token_ids), target)
    for one in found[:: len(found) // 5]:
        blocks = [candidates[member].block for member in one.members]
        tokens = state.rendering.without(removal(state.history, blocks))
        assert one.harm == pytest.approx(direct_nll(backbone, state.view.token_ids(tokens), target) - intact, abs=1e-5)
    assert measure(TargetNll(backbone), state_of(run_messages(5), backbone.tokenizer), target, 0, 5) == []


def test_counted_by_hand() -> None:
    single = [DeletedTogether(0, (number,), 0.1, harm) for number, harm in enumerate((0.00, 0.03, 0.10))]
    pairs = [
        DeletedTogether(0, (0, 1), 0.2, 0.05),
        DeletedTogether(0, (0, 2), 0.2, 0.01),
        DeletedTogether(0, (1, 2), 0.2, 0.15),
    ]
    one, two = by_size([*single, *pairs])
    assert (one.blocks, one.sets, one.unsafe, one.median_harm, one.interaction) == (1, 3, 2 / 3, 0.03, 0.0)
    assert two.interaction == pytest.approx((0.02 + 0.09 + 0.02) / 3)
    # by their sums 0.03, 0.10, 0.13: the first two are the wrong way round, the others right
    assert two.pairs == 3
    assert two.sum_orders == pytest.approx(2 / 3)
