"""Policies with seeded weights for real models: real shapes and layouts, scores that mean nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.distribution import DistributionNumbers, TrainingDistribution
from drsr.decide.minimums import NO_MINIMUMS, Minimums
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.decide.representation import FrozenRepresentation
from drsr.features.geometry import geometry_of
from drsr.features.layout import STRUCTURAL
from drsr.features.light import light_layout
from drsr.features.view_layouts import layout_of
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.policy import Policy
from drsr.policy.scripted import seeded_ensemble
from drsr.request.view import Caps, caps_for
from tests.tiny_models import WINDOW, tokenizer_json


def tiny_policy(
    backbone: FrozenLM, risk_threshold: float | None = 1.0, minimums: Minimums | None = NO_MINIMUMS
) -> Policy:
    """A policy for a language model, with seeded weights for its real layout."""
    layout, geometry = layout_of(geometry_of(backbone)), geometry_of(backbone)
    model = BackboneNumbers(backbone.name, backbone.identity, "float32", geometry)
    numbers = _numbers(model, layout.hash, caps_for(backbone.window), risk_threshold)
    scorer = seeded_ensemble(layout.hash, len(layout.columns), numbers.seeds)
    return Policy(numbers, scorer, FrozenRepresentation(backbone), minimums=minimums)


def light_policy(
    tokenizer_file: bytes | None = None, risk_threshold: float | None = 1.0, version: str = "seeded"
) -> Policy:
    """A light policy with seeded weights; by default with the tokenizer of the tiny models."""
    file = tokenizer_json().encode() if tokenizer_file is None else tokenizer_file
    representation = LightRepresentation(file, name="tiny", identity="0" * 64)
    return seeded_light_policy(representation, WINDOW, risk_threshold, version, NO_MINIMUMS)


def seeded_light_policy(
    representation: LightRepresentation,
    window: int,
    risk_threshold: float | None = 1.0,
    version: str = "seeded",
    minimums: Minimums | None = None,
) -> Policy:
    """A light policy that counts tokens as a representation does."""
    layout = light_layout()
    model = BackboneNumbers(representation.name, representation.identity, "float32", None)
    numbers = _numbers(model, layout.hash, caps_for(window), risk_threshold, version, representation)
    return Policy(
        numbers, seeded_ensemble(layout.hash, len(layout.columns), numbers.seeds), representation, minimums=minimums
    )


def _numbers(
    model: BackboneNumbers,
    layout_hash: str,
    caps: Caps,
    risk_threshold: float | None,
    version: str = "seeded",
    light: LightRepresentation | None = None,
) -> PolicyNumbers:
    return PolicyNumbers(
        version=version,
        max_cardinality=3,
        uncertainty_coefficient=0.0,
        risk_threshold=risk_threshold,
        removal_cap=0.2,
        harm_tolerance=0.02,
        context_cap=caps.context,
        target_cap=caps.target,
        seeds=(11, 29, 47),
        backbone=model,
        layout_hash=layout_hash,
        light=light.numbers if light else None,
    )


def plain_distribution(columns: int = len(STRUCTURAL)) -> TrainingDistribution:
    """Made up: means of 0, scales of 1, columns that have nothing to do with each other."""
    parts = np.zeros(columns), np.ones(columns), np.eye(columns)
    return TrainingDistribution(*(part.astype(np.float32) for part in parts))


def with_distribution(policy: Policy, limit: float) -> Policy:
    """The same policy with a made-up distribution."""
    found = plain_distribution()
    numbers = replace(policy.numbers, distribution=DistributionNumbers(found.sha256, limit, 20))
    frozen = policy.frozen
    return Policy(numbers, frozen.scorer, frozen.representation, minimums=policy.minimums, distribution=found)
