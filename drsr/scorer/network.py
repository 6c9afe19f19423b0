"""The scorer network: candidate features -> predicted harm and unsafe logit of every deletion set.

    features (F) -> Linear-GELU-Linear-GELU -> 64 -> set representation (451) -> Linear-GELU -> 64 -> heads by |A|

All members of an ensemble are computed at once: every weight has the member as its first axis. Like the set
representation, `forward` runs on numpy arrays (deciding) and on torch tensors (training).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.gelu import gelu as numpy_gelu
from drsr.scorer.set_representation import ALL_PARTS, DIMENSION, EMBEDDING, Array, Parts, cardinalities, represent

HIDDEN = 64
"""Units of the encoder's first layer and of the trunk."""
MAX_CANDIDATES = 4
"""There is one harm and one risk head for each number of deleted candidates from 1 to this."""

_LAYERS: dict[str, tuple[int | None, int]] = {
    "encoder.0": (None, HIDDEN),
    "encoder.1": (HIDDEN, EMBEDDING),
    "trunk": (DIMENSION, HIDDEN),
    "harm_heads": (HIDDEN, MAX_CANDIDATES),
    "risk_heads": (HIDDEN, MAX_CANDIDATES),
}
"""Inputs (None: the number of features) and outputs of each linear layer. Column k - 1 of a head is cardinality k."""


class Outputs(NamedTuple):
    """The outputs of the heads before rescaling: shape (members, states, 2^n - 1), the set with mask m at m - 1."""

    harm: Array
    """Standardised harm: (H - mean) / scale of the training labels."""
    unsafe_logit: Array


def parameter_shapes(members: int, features: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight of an ensemble."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (inputs, outputs) in _LAYERS.items():
        shapes[f"{name}.weight"] = (members, features if inputs is None else inputs, outputs)
        shapes[f"{name}.bias"] = (members, outputs)
    return shapes


def initial_parameters(features: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return the parameters of one member before training: every weight and bias uniform within 1 / sqrt(inputs), as
    torch's Linear does it.

    Drawn by numpy, so that a seed means the same start whichever torch is installed.
    """
    generator = np.random.default_rng(seed)
    parameters = {}
    for name, shape in parameter_shapes(1, features).items():
        inputs = _LAYERS[name.rpartition(".")[0]][0] or features
        parameters[name] = generator.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)
    return parameters


def forward(
    parameters: Mapping[str, Array],
    features: Array,
    budget: Array,
    parts: Parts = ALL_PARTS,
    xp: ModuleType = np,
    gelu: Callable[[Array], Array] = numpy_gelu,
) -> Outputs:
    """Score every deletion set of states that all have n candidates.

    `features` (states, n, F) are normalised; `budget` (states, 2^n - 1, 3) comes from `budget_terms`.
    """
    states, candidates, columns = features.shape
    members = parameters["trunk.bias"].shape[0]
    sets = (1 << candidates) - 1

    # Each candidate is encoded once, however many sets it is in.
    hidden = gelu(_linear(parameters, "encoder.0", features.reshape(states * candidates, columns)))
    embeddings = gelu(_linear(parameters, "encoder.1", hidden)).reshape(members, states, candidates, EMBEDDING)

    representation = represent(embeddings, xp.broadcast_to(budget, (members, *budget.shape)), parts, xp)
    trunk = gelu(_linear(parameters, "trunk", representation.reshape(members, states * sets, DIMENSION)))

    rows, head = list(range(sets)), (cardinalities(candidates) - 1).tolist()
    harm = _linear(parameters, "harm_heads", trunk).reshape(members, states, sets, MAX_CANDIDATES)
    risk = _linear(parameters, "risk_heads", trunk).reshape(members, states, sets, MAX_CANDIDATES)
    return Outputs(harm[:, :, rows, head], risk[:, :, rows, head])


def _linear(parameters: Mapping[str, Array], layer: str, inputs: Array) -> Array:
    return inputs @ parameters[f"{layer}.weight"] + parameters[f"{layer}.bias"][:, None, :]
