"""A whole policy without a language model: a double for tests of code that calls a policy, and for trying things out.

    policy = scripted_policy()                          # deletes the largest set within the removal cap
    policy = scripted_policy(risk_threshold=None)       # always abstains
    policy.save(folder)                                 # a folder like any other: drsr prune --policy folder

It prunes requests of any length, and needs numpy and safetensors alone. Its version starts with `scripted`, its
backbone is called `scripted`, and its decisions mean nothing about a real model.
"""

from __future__ import annotations

import numpy as np

from drsr.decide.minimums import NO_MINIMUMS
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.decide.representation import ScriptedRepresentation
from drsr.features.layout import STRUCTURAL
from drsr.policy.policy import Policy, Receipts
from drsr.request.contracts import SetScorer
from drsr.request.view import caps_for
from drsr.scorer.ensemble import Ensemble, HarmScale, Normaliser
from drsr.scorer.network import initial_parameters


def scripted_policy(
    *,
    seed: int = 0,
    risk_threshold: float | None = 1.0,
    max_cardinality: int = 3,
    uncertainty_coefficient: float = 0.0,
    removal_cap: float = 0.20,
    context_cap: int | None = None,
    scorer: SetScorer | None = None,
    receipts: Receipts | None = None,
) -> Policy:
    """Return a policy with the scripted backbone and seeded random weights, or another `scorer` for the same layout.

    Unsafe scores are between 0 and 1, mostly near 0.5, so a threshold of 1 lets every set pass.
    """
    representation = ScriptedRepresentation()
    seeds = (seed, seed + 1, seed + 2)
    numbers = PolicyNumbers(
        version=f"scripted.{seed}",
        max_cardinality=max_cardinality,
        uncertainty_coefficient=uncertainty_coefficient,
        risk_threshold=risk_threshold,
        removal_cap=removal_cap,
        harm_tolerance=0.02,
        context_cap=context_cap or caps_for(representation.window).context,
        target_cap=caps_for(representation.window).target,
        seeds=seeds,
        backbone=BackboneNumbers(representation.name, representation.identity, "float32", None),
        layout_hash=representation.layout_hash,
        calibration={"explanation": "none: a scripted double"},
    )
    scorer = scorer or seeded_ensemble(representation.layout_hash, len(STRUCTURAL), seeds)
    return Policy(numbers, scorer, representation, receipts=receipts, minimums=NO_MINIMUMS)


def seeded_ensemble(layout_hash: str, columns: int, seeds: tuple[int, ...]) -> Ensemble:
    """Return an ensemble before any training, for features of this layout: real shapes, scores that mean nothing."""
    members = [initial_parameters(columns, seed) for seed in seeds]
    return Ensemble(
        layout_hash=layout_hash,
        seeds=seeds,
        normaliser=Normaliser(np.zeros(columns, dtype=np.float32), np.ones(columns, dtype=np.float32)),
        harm_scale=HarmScale(0.0, 0.02),
        parameters={name: np.concatenate([member[name] for member in members]) for name in members[0]},
    )
