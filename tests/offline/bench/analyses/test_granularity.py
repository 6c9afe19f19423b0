"""Steps and Blocks measured in one walk, against one forward per deletion."""

from __future__ import annotations

import pytest

from drsr.offline.bench.analyses.granularity import StepHarm, granularity, measure_steps
from drsr.offline.label.target_nll import TargetNll, direct_nll
from drsr.offline.train.metrics import Bootstrap
from drsr.request.history import delete
from drsr.request.rendering import render
from tests.small_states import small_states
from tests.tiny_backbones import tiny_backbone

QUICK = Bootstrap(replicates=200)
BACKBONE = tiny_backbone("llama")


def test_equals_one_forward_per_deletion() -> None:
    ((state, target),) = small_states(BACKBONE, (6,))
    found = measure_steps(TargetNll(BACKBONE), [("only", state, target)])
    assert len(found) == len([step for step in state.history.older if step.complete])
    intact = direct_nll(BACKBONE, render(state.history.request, BACKBONE.tokenizer).token_ids, target)
    for measured, step in zip(found, state.history.older, strict=True):
        blocks = [[*step.blocks], *([block] for block in step.blocks)]
        rewrites = [render(delete(state.history, some).request, BACKBONE.tokenizer).token_ids for some in blocks]
        whole, *single = [direct_nll(BACKBONE, tokens, target) - intact for tokens in rewrites]
        assert measured.harm == pytest.approx(whole, abs=1e-5)
        assert list(measured.block_harms) == pytest.approx(single, abs=1e-5)
        assert 0 <= measured.position < 1


def test_the_table_by_hand() -> None:
    steps = [
        StepHarm("a", 0.0, 0.5, (0.4, 0.01), "one"),
        StepHarm("a", 0.5, 0.1, (0.05, 0.06), "one"),
        StepHarm("b", 0.0, 0.0, (0.0,), "two"),
        StepHarm("b", 0.5, 0.2, (-0.1, 0.3), "two"),
        StepHarm("c", 0.0, 9.0, (9.0,), "two"),  # alone in its state: no range
    ]
    found = granularity(steps, 0.02, QUICK)
    assert [row[1] for row in found.rows] == [2, 2, 4]
    # Of two tasks a replicate has the first alone, the second alone, or both.
    assert [row[2] for row in found.rows] == [
        "0.300 [0.200, 0.400]",
        "0.395 [0.390, 0.400]",
        "0.500 [0.500, 0.500]",
    ]
    alone = granularity(steps[-1:], 0.02, QUICK)
    assert [row[1:3] for row in alone.rows] == [(0, "-"), (0, "-"), (1, "0.000")]  # one task: no interval


def test_intervals_draw_tasks_and_not_states() -> None:
    """Many states of two tasks: their shares can only be those of the first, of the second, or of both."""
    steps = [StepHarm(f"{n}", 0.0, 1.0, (0.0 if n < 30 else 1.0,), "one" if n < 30 else "two") for n in range(40)]
    assert granularity(steps, 0.02, QUICK).rows[2][2] == "0.750 [0.000, 1.000]"
