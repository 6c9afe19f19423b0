"""The model card says how much of the labels is rounding, where rounding is worth a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drsr.offline.label.noise.floor import NoiseFloor
from drsr.offline.publish import model_card
from drsr.offline.publish.lineage import Traced

FLOOR = NoiseFloor("float32", 4, 28, 0.0004, 0.0007, 0.0009, 1e-5)._asdict()


@pytest.mark.parametrize(
    ("dtype", "floor", "said"),
    [
        ("float16-mixed", FLOOR, "Noise floor of harm: 0.0007 nats per token against float32 (mean 0.0004"),
        ("bfloat16", None, "Noise floor of harm: not measured."),
        ("float32", FLOOR | {"reference": "direct"}, None),
    ],
)
def test_the_noise_floor_of_labels_in_half_precision_is_on_the_card(
    dtype: str, floor: dict[str, Any] | None, said: str | None
) -> None:
    run = SimpleNamespace(
        train_trajectories=3, train_sets=40, validation_trajectories=1, validation_sets=9, source=None
    )
    labeler = SimpleNamespace(identity=SimpleNamespace(backbone="a-model", dtype=dtype), noise_floor=floor)
    card = "\n".join(model_card._data(cast("Traced", SimpleNamespace(run=run, labeler=labeler))))
    assert f"measured with a-model ({dtype})" in card
    assert ("Noise floor" in card) == (said is not None)
    assert said is None or said in card
