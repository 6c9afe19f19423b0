"""The benchmark of precisions on a tiny model: harms are those of labelling, and rounding is told from what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.precision import (
    BFLOAT16_FACTORS,
    Kept,
    Measured,
    chosen_states,
    floor_of,
    harms_of,
    in_precision,
    measured_in,
)
from drsr.offline.label.harm import measure_harm
from drsr.request.rendering import render_output
from drsr.settings import MIXED
from tests.features.states import run_messages
from tests.tiny_backbones import fresh_backbone


@pytest.fixture
def source(tmp_path: Path) -> str:
    for seed, steps in ((3, 9), (4, 9), (5, 12)):
        (tmp_path / f"{seed}.json").write_text(json.dumps({"messages": run_messages(steps, seed=seed)}))
    return str(tmp_path)


def test_harms_are_those_of_labelling_and_rounding_is_what_moves_them(source: str) -> None:
    backbone = fresh_backbone("llama")
    states = list(chosen_states(backbone.tokenizer, backbone.window, source, 2))
    exact = [Measured(harms_of(backbone, frozen), 1.0) for frozen in states]
    for frozen, found in zip(states, exact, strict=True):
        target = render_output(frozen.next_output, backbone.tokenizer)
        slow = {one.deletion_set.mask: one.harm for one in measure_harm(backbone, frozen.state, target)}
        assert found.harms == pytest.approx(slow, abs=1e-5)
        assert harms_of(backbone, frozen, backwards=True) == pytest.approx(slow, abs=1e-5)
    floors = {}
    for precision in (MIXED, BFLOAT16_FACTORS, "bfloat16"):
        half = in_precision(backbone, precision)
        floors[precision] = floor_of([Measured(harms_of(half, frozen), 1.0) for frozen in states], exact)
    assert 0 < floors[MIXED].mean < floors[BFLOAT16_FACTORS].mean < floors["bfloat16"].mean
    assert floor_of(exact, exact).largest == 0
    assert backbone.model.dtype is torch.float32, "the backbone itself stays as it is"


def test_a_floor_counts_differences_and_the_interaction_that_they_make() -> None:
    exact = [Measured({1: 0.1, 2: 0.2, 3: 0.5}, 2.0)]
    found = [Measured({1: 0.1, 2: 0.21, 3: 0.48}, 3.0)]
    floor = floor_of(found, exact, [(found[0].harms, {1: 0.1, 2: 0.21, 3: 0.47})])
    assert (floor.states, floor.sets, floor.cpu_s) == (1, 3, 3.0)
    assert floor.mean == pytest.approx(0.01)
    assert floor.largest == pytest.approx(0.02)
    assert floor.interactions == {2: pytest.approx(0.03)}
    assert floor.order == pytest.approx(0.01)


def test_what_is_kept_is_not_measured_again(source: str, tmp_path: Path) -> None:
    backbone = fresh_backbone("llama")
    states = list(chosen_states(backbone.tokenizer, backbone.window, source, 2))
    file = tmp_path / "kept.json"
    measured_in("float32", backbone, states, Kept(file), orders=1)
    kept = Kept(file)
    assert [len(one.harms) for one in kept.of("float32", 2)] == [
        2 ** len(frozen.state.candidates) - 1 for frozen in states
    ]
    assert len(kept.orders("float32")) == 1
    planted = Measured({1: 7.0}, 0.0)
    kept.keep("float32", 0, "", planted)
    measured_in("float32", backbone, states, Kept(file), orders=1)
    assert Kept(file).of("float32", 2)[0] == planted


def test_the_shortest_of_every_number_of_candidates_come_by_turns(source: str) -> None:
    backbone = fresh_backbone("llama")
    states = list(chosen_states(backbone.tokenizer, backbone.window, source, 100))
    numbers = sorted({len(frozen.state.candidates) for frozen in states})
    assert [len(frozen.state.candidates) for frozen in states][: len(numbers)] == numbers
    for number in numbers:
        lengths = [len(found.state.rendering) for found in states if len(found.state.candidates) == number]
        assert lengths == sorted(lengths)
