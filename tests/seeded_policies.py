"""Policies with seeded weights for real models: real shapes and layouts, scores that mean nothing."""

from __future__ import annotations

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.decide.representation import FrozenRepresentation
from drsr.features.geometry import geometry_of
from drsr.features.layout import Layout
from drsr.policy.policy import Policy
from drsr.policy.scripted import seeded_ensemble
from drsr.request.view import caps_for


def tiny_policy(backbone: FrozenLM, risk_threshold: float | None = 1.0) -> Policy:
    """A policy for a language model, with seeded weights for its real layout."""
    layout = Layout(geometry_of(backbone))
    caps = caps_for(backbone.window)
    numbers = PolicyNumbers(
        version="seeded",
        max_cardinality=3,
        uncertainty_coefficient=0.0,
        risk_threshold=risk_threshold,
        removal_cap=0.2,
        harm_tolerance=0.02,
        context_cap=caps.context,
        target_cap=caps.target,
        seeds=(11, 29, 47),
        backbone=BackboneNumbers(backbone.name, backbone.identity, "float32", geometry_of(backbone)),
        layout_hash=layout.hash,
    )
    scorer = seeded_ensemble(layout.hash, len(layout.columns), numbers.seeds)
    return Policy(numbers, scorer, FrozenRepresentation(backbone))
