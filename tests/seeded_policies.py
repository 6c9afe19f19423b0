"""Policies with seeded weights for real models: real shapes and layouts, scores that mean nothing."""

from __future__ import annotations

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.minimums import NO_MINIMUMS
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.decide.representation import FrozenRepresentation
from drsr.features.geometry import geometry_of
from drsr.features.layout import Layout
from drsr.features.light import light_layout
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.policy import Policy
from drsr.policy.scripted import seeded_ensemble
from drsr.request.view import caps_for
from tests.tiny_models import WINDOW, tokenizer_json


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
    return Policy(numbers, scorer, FrozenRepresentation(backbone), minimums=NO_MINIMUMS)


def light_policy(
    tokenizer_file: bytes | None = None, risk_threshold: float | None = 1.0, version: str = "seeded"
) -> Policy:
    """A light policy with seeded weights; by default with the tokenizer of the tiny models."""
    file = tokenizer_json().encode() if tokenizer_file is None else tokenizer_file
    representation = LightRepresentation(file, name="tiny", identity="0" * 64)
    numbers = PolicyNumbers(
        version=version,
        max_cardinality=3,
        uncertainty_coefficient=0.0,
        risk_threshold=risk_threshold,
        removal_cap=0.2,
        harm_tolerance=0.02,
        context_cap=caps_for(WINDOW).context,
        target_cap=caps_for(WINDOW).target,
        seeds=(11, 29, 47),
        backbone=BackboneNumbers("tiny", "0" * 64, "float32", None),
        layout_hash=light_layout().hash,
        light=representation.numbers,
    )
    scorer = seeded_ensemble(light_layout().hash, len(light_layout().columns), numbers.seeds)
    return Policy(numbers, scorer, representation, minimums=NO_MINIMUMS)
