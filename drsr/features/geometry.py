"""The geometry of a backbone: its layers and heads, and which layers are full attention."""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.errors import FeatureError
from drsr.request.contracts import Backbone


class Geometry(NamedTuple):
    """A causal language model's shape. Layers are numbered from 1."""

    layers: int
    heads: int
    """Query heads of a full-attention layer."""
    full_attention: tuple[int, ...]
    """The layers whose attention reaches every earlier position, ascending; others measure another quantity."""


def geometry_of(backbone: Backbone) -> Geometry:
    """Return the geometry of a transformers model, from its settings."""
    return geometry_from(model_of(backbone).config, backbone.name)


def geometry_from(config: Any, name: str) -> Geometry:
    """Return the same from the settings alone, as transformers reads them; `name` is the backbone's, for complaints."""
    settings = config.get_text_config()
    layers = int(settings.num_hidden_layers)
    kinds = getattr(settings, "layer_types", None)
    if kinds is None:  # one kind of layer: full attention, unless a sliding window is on (Mistral)
        sliding = getattr(settings, "sliding_window", None) is not None
        kinds = ["sliding_attention" if sliding else "full_attention"] * layers
    full_attention = tuple(layer for layer, kind in enumerate(kinds[:layers], start=1) if kind == "full_attention")
    if not full_attention:
        raise FeatureError(
            f"no full-attention layer among {', '.join(sorted(set(kinds)))}",
            where=name,
            hint="attention features need a backbone with at least one layer that attends to every earlier position",
        )
    return Geometry(layers, int(settings.num_attention_heads), full_attention)


def attention_scales(backbone: Backbone) -> dict[int, float]:
    """Return, for each layer, the factor that its attention scores are multiplied by before the softmax, if the model
    itself states it."""
    modules = (module for module in model_of(backbone).get_decoder().modules() if hasattr(module, "layer_idx"))
    return {module.layer_idx + 1: float(module.scaling) for module in modules if getattr(module, "scaling", None)}


def model_of(backbone: Backbone) -> Any:
    """Return the transformers model; a backbone without layers, such as the scripted double, has none."""
    model = getattr(backbone, "model", None)
    if model is None:
        raise no_layers(backbone.name)
    return model


def no_layers(name: str) -> FeatureError:
    """Return what to raise for a backbone that features cannot be read from."""
    return FeatureError(
        f"the backbone {name!r} has no layers to read features from",
        hint="features need a language model loaded by transformers: smollm2-135m, hf:REPO@REVISION or path:FOLDER",
    )
