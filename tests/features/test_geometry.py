"""What the layout reads of a backbone."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import FeatureError
from drsr.features.geometry import Geometry, attention_scales, geometry_of
from drsr.features.layout import Layout
from tests.features.states import paper_backbone
from tests.tiny_backbones import tiny_backbone


class WithSettings:
    """A backbone of which only the settings are looked at."""

    name = "settings"

    def __init__(self, config: Any) -> None:
        self.model = type("Model", (), {"config": config})()


def geometry_from(config: Any) -> Geometry:
    backbone: Any = WithSettings(config)
    return geometry_of(backbone)


def test_the_papers_backbone_has_1154_columns() -> None:
    """The real settings of Qwen3.5-9B's text model, which are transformers' defaults."""
    geometry = geometry_from(transformers.Qwen3_5TextConfig())
    assert geometry == Geometry(32, 16, (4, 8, 12, 16, 20, 24, 28, 32))
    assert len(Layout(geometry).columns) == 1154


def test_tiny_models() -> None:
    assert geometry_of(tiny_backbone("llama")) == Geometry(4, 4, (1, 2, 3, 4))
    assert geometry_of(tiny_backbone("qwen3")) == Geometry(4, 4, (1, 2, 3, 4))
    assert geometry_of(paper_backbone()) == Geometry(32, 16, tuple(range(4, 33, 4)))


def test_sliding_layers_are_not_full_attention() -> None:
    config = transformers.Qwen3Config(
        num_hidden_layers=6, use_sliding_window=True, sliding_window=64, max_window_layers=2
    )
    assert geometry_from(config).full_attention == (1, 2)
    with pytest.raises(FeatureError, match="no full-attention layer among sliding_attention"):
        geometry_from(transformers.MistralConfig(num_hidden_layers=2, sliding_window=64))


def test_a_model_without_layers_has_no_features() -> None:
    with pytest.raises(FeatureError, match="'scripted' has no layers") as caught:
        geometry_of(ScriptedBackbone())
    assert "smollm2-135m" in str(caught.value)


def test_scales_are_the_models_own() -> None:
    assert attention_scales(tiny_backbone("llama")) == dict.fromkeys(range(1, 5), 8**-0.5)
    assert attention_scales(paper_backbone()) == dict.fromkeys(range(4, 33, 4), 8**-0.5)
