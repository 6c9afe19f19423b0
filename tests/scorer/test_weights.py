"""The scorer's file: a round trip to the bit, and everything that is wrong with a file has a name."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from drsr.errors import LayoutMismatch, ScorerCorrupt
from drsr.scorer.ensemble import Ensemble
from drsr.scorer.set_representation import Parts
from drsr.scorer.weights import read_scorer, scorer_bytes
from tests.scorer.test_ensemble import DIRECT, FEATURES, MASKS, SAVINGS, make_ensemble


def test_round_trip() -> None:
    ensemble = replace(make_ensemble(), parts=Parts(pair_pooling=False))
    again = read_scorer(scorer_bytes(ensemble), "layout")
    assert isinstance(again, Ensemble)
    assert (again.layout_hash, again.seeds, again.parts) == (ensemble.layout_hash, ensemble.seeds, ensemble.parts)
    assert again.harm_scale == ensemble.harm_scale
    for left, right in zip(
        again.score(FEATURES, SAVINGS, MASKS, DIRECT), ensemble.score(FEATURES, SAVINGS, MASKS, DIRECT), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_the_same_scorer_is_the_same_bytes() -> None:
    ensemble = make_ensemble()
    reordered = replace(ensemble, parameters=dict(reversed(list(ensemble.parameters.items()))))
    assert scorer_bytes(ensemble) == scorer_bytes(make_ensemble()) == scorer_bytes(reordered)


def test_another_layout_is_refused() -> None:
    with pytest.raises(LayoutMismatch, match="trained on feature layout layout"):
        read_scorer(scorer_bytes(make_ensemble()), "another")


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_file_cut_short(cut: int) -> None:
    with pytest.raises(ScorerCorrupt):
        read_scorer(scorer_bytes(make_ensemble())[:cut], "layout")


def test_a_flipped_bit_in_the_weights() -> None:
    data = bytearray(scorer_bytes(make_ensemble()))
    data[-100] ^= 1
    with pytest.raises(ScorerCorrupt, match="another hash"):
        read_scorer(bytes(data), "layout")


def rewritten(**changes: object) -> bytes:
    """A sound file with other tensors or metadata, its own hash made right again."""
    from drsr.scorer.weights import _metadata, _tensors_sha256

    data = scorer_bytes(make_ensemble())
    tensors, metadata = safetensors_numpy.load(data), _metadata(data)
    tensors.update({key: value for key, value in changes.items() if isinstance(value, np.ndarray)})
    tensors = {key: value for key, value in tensors.items() if changes.get(key, value) is not None}
    metadata.update({key: value for key, value in changes.items() if isinstance(value, str)})
    metadata["tensors_sha256"] = _tensors_sha256(tensors)
    return safetensors_numpy.save(tensors, {"drsr": json.dumps(metadata)})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format": "drsr-scorer/9"}, "format 'drsr-scorer/9'"),
        ({"trunk.bias": None}, "trunk.bias is missing"),
        ({"trunk.bias": np.zeros((3, 63), dtype=np.float32)}, r"shape \(3, 64\)"),
        ({"trunk.bias": np.zeros((3, 64))}, "float32"),
        ({"trunk.bias": np.full((3, 64), np.nan, dtype=np.float32)}, "not finite"),
        ({"normaliser.mean": None}, "normaliser.mean is missing"),
    ],
)
def test_a_file_that_is_not_this_scorer(changes: dict, match: str) -> None:
    assert read_scorer(rewritten(), "layout").seeds == (11, 29, 47)
    with pytest.raises(ScorerCorrupt, match=match):
        read_scorer(rewritten(**changes), "layout")


def test_safetensors_of_something_else() -> None:
    with pytest.raises(ScorerCorrupt, match="not a scorer file"):
        read_scorer(safetensors_numpy.save({"x": np.zeros(3)}), "layout")
