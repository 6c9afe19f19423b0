"""The projections: the same bits everywhere, and Gaussian."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import special

from drsr.features.projection import inverse_normal, logarithm, projection_matrix, split_mix, uniform


def test_split_mix_gives_the_published_numbers() -> None:
    """The first outputs of SplitMix64 from the seed 1234567, as its reference implementation prints them."""
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [int(number) for number in split_mix(1234567, 5)] == expected


@pytest.mark.parametrize(
    ("layer", "size", "sha256"),
    [
        (8, 4096, "fe59e49a1282bed14c4bcab6d9317b4d24140c4e9b491f0792e40df91416d188"),
        (32, 4096, "b82c15a8bf9ff231c6275fab55d19cf7274ef5b8a3019e47a9429cce70719925"),
        (30, 576, "2c200e191a92316f09320fb85e25fbb45ca60b25c336dc16db72268d6dbf4f4a"),
    ],
)
def test_golden_matrices(layer: int, size: int, sha256: str) -> None:
    """The paper's backbone and the embedded one. Where this fails, features differ: mend the code, not the test."""
    matrix = projection_matrix(layer, size)
    assert matrix.shape == (size, 64)
    assert hashlib.sha256(matrix.astype("<f4").tobytes()).hexdigest() == sha256


def test_golden_values() -> None:
    expected = "0x1.e1a53a0000000p-12 -0x1.1386fc0000000p-4 -0x1.3dd0ea0000000p-3 0x1.0f94f60000000p-3"
    assert [float(value).hex() for value in projection_matrix(8, 1)[0, :4]] == expected.split()


def test_a_larger_matrix_begins_with_the_smaller_one() -> None:
    assert np.array_equal(projection_matrix(8, 32), projection_matrix(8, 64)[:32])
    assert not np.array_equal(projection_matrix(8, 32), projection_matrix(16, 32))


def test_matrices_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        projection_matrix(8, 32)[0, 0] = 0.0


def test_entries_are_gaussian_with_variance_one_64th() -> None:
    entries = (
        np.concatenate([projection_matrix(layer, 4096).ravel() for layer in (8, 16, 24, 32)]).astype(np.float64) * 8
    )
    count = len(entries)
    assert abs(entries.mean()) < 4 / count**0.5
    assert abs(entries.var() - 1) < 4 * (2 / count) ** 0.5
    assert abs((entries**4).mean() - 3) < 4 * (96 / count) ** 0.5
    for quantile, expected in ((0.0228, -2.0), (0.1587, -1.0), (0.5, 0.0), (0.9772, 2.0)):
        assert abs(np.quantile(entries, quantile) - expected) < 0.02


def test_the_inverse_of_the_normal_distribution() -> None:
    edges = [2.0**-53, 1e-12, 1.4e-11, 1.3e-11, 0.075, 0.0749999, 0.5, 0.925, 0.9250001, 1 - 2.0**-53]
    probabilities = np.concatenate([uniform(1, 100_000), edges])
    assert np.allclose(inverse_normal(probabilities), special.ndtri(probabilities), rtol=1e-14, atol=1e-15)


def test_the_logarithm() -> None:
    values = np.concatenate(
        [uniform(2, 100_000), [2.0**-53, 0.5, 0.7071067811865475, 0.7071067811865476, 1 - 2.0**-53]]
    )
    assert np.allclose(logarithm(values), np.log(values), rtol=1e-15, atol=0)


def test_uniforms_are_never_0_or_1() -> None:
    numbers = uniform(5, 100_000)
    assert numbers.min() >= 2.0**-53
    assert numbers.max() <= 1 - 2.0**-53
