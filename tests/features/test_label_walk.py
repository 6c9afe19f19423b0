"""Intact features collected while labels are measured: the same as from a forward of their own."""

from __future__ import annotations

import numpy as np
import pytest

from drsr.features.vectors import FeatureWatch, candidate_features
from drsr.offline.label.harm import measure_states
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.request.rendering import render_output
from drsr.request.request import read_output
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import ARCHITECTURES, tiny_backbone
from tests.tiny_models import Architecture


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_features_of_several_states_of_one_walk(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    messages = run_messages(8)
    decisions = [12, 14, 16]
    states = [state_of(messages[:index], backbone.tokenizer) for index in decisions]
    outputs = [read_output(messages[index], "openai", where="next output") for index in decisions]
    targets = [render_output(output, backbone.tokenizer) for output in outputs]
    watches = {number: FeatureWatch(backbone, state) for number, state in enumerate(states)}
    measured = measure_states(TargetNll(backbone), list(zip(states, targets, strict=True)), watches)
    assert measured.method is Method.SHARED_PREFIX
    for number, state in enumerate(states):
        expected = candidate_features(backbone, state)
        found = watches[number].features()
        assert found[1:] == expected[1:]
        assert np.abs(found.matrix - expected.matrix).max() < 1e-5
