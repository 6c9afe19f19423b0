"""Tiny models as backbones, on every device that this machine has."""

from __future__ import annotations

import functools
from typing import Any

import torch
import transformers

from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.tokenizer import HfTokenizer
from tests.tiny_models import VOCABULARY, WINDOW, Architecture, tiny_config, tiny_model, tokenizer_json

ARCHITECTURES: tuple[Architecture, ...] = ("llama", "qwen3", "qwen3_5")
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


@functools.cache
def tiny_backbone(architecture: Architecture, device: str = "cpu", dtype: str = "float32") -> FrozenLM:
    """A random model of a real architecture. Shared: a test that changes it makes its own by `fresh_backbone`."""
    return fresh_backbone(architecture, device, dtype)


def fresh_backbone(architecture: Architecture, device: str = "cpu", dtype: str = "float32") -> FrozenLM:
    model = _calm_hybrid() if architecture == "qwen3_5" else tiny_model(architecture)
    return as_backbone(model.to(device=device, dtype=getattr(torch, dtype)))


def as_backbone(model: Any) -> FrozenLM:
    name = f"tiny-{model.config.model_type}"
    return FrozenLM(model, HfTokenizer(tokenizer_json()), name=name, identity=name, window=WINDOW)


def small_backbone(config_class: Any, **settings: Any) -> FrozenLM:
    """A random model of two layers, of any architecture whose configuration speaks of hidden layers."""
    return as_backbone(_random(config_class(**{**SMALL, **settings})))


def _calm_hybrid() -> Any:
    """Eight layers with smaller weights. In the 32 wild ones a change of 1e-7 in the embeddings grows to 1e-2 in the
    logits, so that nothing could be said about exactness."""
    settings = tiny_config("qwen3_5").to_dict() | {"num_hidden_layers": 8, "layer_types": None}
    config = transformers.Qwen3_5TextConfig(**settings)
    config.initializer_range = 0.1
    return _random(config)


def _random(config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        automatic: Any = transformers.AutoModelForCausalLM
        return automatic.from_config(config)
