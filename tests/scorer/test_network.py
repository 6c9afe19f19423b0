"""The network's dimensions, its heads, and that deciding computes what training computes."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from drsr.scorer.network import forward, initial_parameters, parameter_shapes

FEATURES = 1_154


def stacked(seeds: tuple[int, ...], features: int = FEATURES) -> dict[str, np.ndarray]:
    members = [initial_parameters(features, seed) for seed in seeds]
    return {name: np.concatenate([member[name] for member in members]) for name in members[0]}


def inputs(states: int, candidates: int, features: int = FEATURES) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(states, candidates, features)).astype(np.float32)
    return x, generator.random((states, (1 << candidates) - 1, 3)).astype(np.float32)


def test_the_layers_have_the_specified_sizes() -> None:
    shapes = parameter_shapes(1, FEATURES)
    assert {name: shape[1:] for name, shape in shapes.items()} == {
        "encoder.0.weight": (1154, 64),
        "encoder.0.bias": (64,),
        "encoder.1.weight": (64, 64),
        "encoder.1.bias": (64,),
        "trunk.weight": (451, 64),
        "trunk.bias": (64,),
        "harm_heads.weight": (64, 4),
        "harm_heads.bias": (4,),
        "risk_heads.weight": (64, 4),
        "risk_heads.bias": (4,),
    }


def test_a_seed_is_a_start() -> None:
    first, again, other = (initial_parameters(20, seed) for seed in (11, 11, 29))
    for name, shape in parameter_shapes(1, 20).items():
        assert first[name].shape == shape
        assert first[name].dtype == np.float32
        np.testing.assert_array_equal(first[name], again[name])
        assert (first[name] != other[name]).any()
    assert np.abs(first["encoder.0.weight"]).max() <= 1 / math.sqrt(20)
    assert np.abs(first["trunk.bias"]).max() <= 1 / math.sqrt(451)


def test_numpy_decides_what_torch_trains() -> None:
    parameters, (x, budget) = stacked((11, 29, 47)), inputs(5, 4)
    tensors = {name: torch.from_numpy(value) for name, value in parameters.items()}
    trained = forward(tensors, torch.from_numpy(x), torch.from_numpy(budget), xp=torch, gelu=functional.gelu)
    decided = forward(parameters, x, budget)
    for left, right in zip(decided, trained, strict=True):
        assert left.shape == (3, 5, 15)
        np.testing.assert_allclose(left, right.numpy(), atol=1e-6, rtol=0)


def test_a_linear_layer_at_a_time_gives_the_same() -> None:
    """Against torch's own modules, one member, one set."""
    parameters, (x, budget) = stacked((7,), 30), inputs(1, 3, 30)
    weight = {name: torch.from_numpy(value[0]) for name, value in parameters.items()}

    def linear(layer: str, value: torch.Tensor) -> torch.Tensor:
        return functional.linear(value, weight[f"{layer}.weight"].T, weight[f"{layer}.bias"])

    hidden = functional.gelu(linear("encoder.0", torch.from_numpy(x[0])))
    e = functional.gelu(linear("encoder.1", hidden))
    mask, deleted, retained = 0b101, e[[0, 2]], e[[1]]
    mean_d, mean_r = deleted.mean(0), retained.mean(0)
    r = torch.cat(
        [
            mean_d,
            mean_r,
            deleted.amax(0),
            retained.amax(0),
            e[0] * e[2],
            mean_d * mean_r,
            (mean_d - mean_r).abs(),
            torch.from_numpy(budget[0, mask - 1]),
        ]
    )
    h = functional.gelu(linear("trunk", r))
    outputs = forward(parameters, x, budget)
    assert abs(outputs.harm[0, 0, mask - 1] - linear("harm_heads", h)[1].item()) < 1e-6
    assert abs(outputs.unsafe_logit[0, 0, mask - 1] - linear("risk_heads", h)[1].item()) < 1e-6


def test_each_cardinality_has_its_own_heads() -> None:
    parameters, (x, budget) = stacked((7,), 30), inputs(1, 4, 30)
    before = forward(parameters, x, budget)
    for size in (1, 2, 3, 4):
        changed = {name: value.copy() for name, value in parameters.items()}
        changed["harm_heads.bias"][0, size - 1] += 1
        changed["risk_heads.bias"][0, size - 1] += 2
        after = forward(changed, x, budget)
        sizes = np.array([mask.bit_count() for mask in range(1, 16)])
        np.testing.assert_allclose(after.harm[0, 0] - before.harm[0, 0], (sizes == size) * 1.0, atol=1e-6)
        np.testing.assert_allclose(
            after.unsafe_logit[0, 0] - before.unsafe_logit[0, 0], (sizes == size) * 2.0, atol=1e-6
        )


def test_members_do_not_see_each_other() -> None:
    x, budget = inputs(3, 4, 40)
    together = forward(stacked((11, 29, 47), 40), x, budget)
    for number, seed in enumerate((11, 29, 47)):
        alone = forward(stacked((seed,), 40), x, budget)
        np.testing.assert_allclose(together.harm[number], alone.harm[0], atol=1e-6)
