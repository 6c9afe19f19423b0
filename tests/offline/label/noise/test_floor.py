"""The noise floor: harms in two precisions, in two orders, and the refusal of one that is too high."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import SettingsError
from drsr.offline.label.harm import measure_harm
from drsr.offline.label.noise.floor import (
    NoiseFloor,
    State,
    agreement_of_ways,
    floor_from,
    floor_said,
    noise_floor,
    refuse_noisy,
)
from drsr.offline.label.target_nll import TargetNll
from drsr.settings import MIXED
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import as_backbone, tiny_backbone

QUARTER = 0.005
"""Of the tolerance."""


def states(backbone: FrozenLM, count: int = 2) -> list[State]:
    target = np.arange(20, 44, dtype=np.int32)
    found = [state_of({"messages": run_messages(steps)}, backbone.tokenizer) for steps in (6, 7)[:count]]
    return [(state, target) for state in found]


def test_it_is_what_the_harms_computed_one_by_one_differ_by() -> None:
    exact = tiny_backbone("llama")
    half = as_backbone(copy.deepcopy(exact.model).bfloat16())
    floor = noise_floor(TargetNll(half), TargetNll(exact), states(exact))
    assert floor is not None
    apart = []
    for state, target in states(exact):
        pairs = zip(measure_harm(half, state, target), measure_harm(exact, state, target), strict=True)
        apart += [abs(one.harm - other.harm) for one, other in pairs]
    assert (floor.reference, floor.states, floor.compared) == ("float32", 2, len(apart))
    # Shared prefixes and single contexts round differently in half precision: the same size, not the same numbers.
    assert floor.mean == pytest.approx(np.mean(apart), rel=0.8)
    assert 0 < floor.mean <= floor.p90 <= floor.largest
    assert floor.order is not None


def test_a_model_is_no_noise_against_itself() -> None:
    exact = tiny_backbone("llama")
    floor = noise_floor(TargetNll(exact), TargetNll(exact), states(exact))
    assert floor is not None
    assert floor[3:6] == (0, 0, 0)
    assert floor.order is not None
    assert floor.order < 1e-5
    assert floor_from(floor._asdict()) == floor


def test_in_float32_it_is_known_without_computing_more() -> None:
    scorer = TargetNll(tiny_backbone("llama"))
    assert agreement_of_ways(scorer) is None
    scorer.verify(np.arange(300, dtype=np.int32) % 400)
    found = agreement_of_ways(scorer)
    assert found is not None
    assert found.reference == "direct"
    assert found.largest == scorer.difference
    assert "two ways of computing agree to" in found.said
    assert agreement_of_ways(TargetNll(ScriptedBackbone())) is None


def test_a_floor_above_a_quarter_of_the_tolerance_is_refused_with_what_to_do() -> None:
    within = NoiseFloor("float32", 4, 28, 0.002, QUARTER, 0.02, 0.001)
    refuse_noisy(within, 0.02, "bfloat16")
    for above in (np.nextafter(QUARTER, 1), float("nan")):
        with pytest.raises(SettingsError, match="in bfloat16 one harm in ten") as refusal:
            refuse_noisy(within._replace(p90=above), 0.02, "bfloat16")
        assert "DRSR_DTYPE=float16-mixed, or float32;" in str(refusal.value.hint)
        assert "--accept-noise" in str(refusal.value.hint)
    with pytest.raises(SettingsError) as refusal:
        refuse_noisy(within._replace(p90=1.0), 0.02, MIXED)
    assert "DRSR_DTYPE=float32;" in str(refusal.value.hint), "not the dtype that it has"


def test_it_is_said_in_words() -> None:
    said = floor_said(NoiseFloor("float32", 4, 28, 0.0004, 0.0007, 0.0009, 1e-5)._asdict())
    assert said == (
        "0.0007 nats per token against float32 (mean 0.0004, largest 0.0009, 28 sets of 4 states; "
        "1.0e-05 between two orders)"
    )
    assert floor_said(None) == "not measured"
