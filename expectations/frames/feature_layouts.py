"""The layout that a view's columns belong to, rebuilt from their names: what the columns should be, and their hash."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drsr.features.geometry import Geometry
from drsr.features.layout import Group, Layout
from drsr.features.light import LightLayout, light_layout

_ATTENTION = re.compile(r"attention_l(\d+)_h(\d+)_")
_HIDDEN = re.compile(r"hidden_l(\d+)_")


def layout_for(names: Sequence[str]) -> Layout | LightLayout | None:
    """The layout of the geometry that these names speak of, or of the view `light`; None where they speak of neither.

    Attention columns exist for at most eight of the full-attention layers, and the layout depends on these alone.
    """
    if any(name.startswith(f"{Group.TEXT}_") for name in names):
        return light_layout()
    heads = [(int(found[1]), int(found[2])) for name in names if (found := _ATTENTION.match(name))]
    layers = [int(found[1]) for name in names if (found := _HIDDEN.match(name))]
    if not heads or not layers:
        return None
    attention = tuple(sorted({layer for layer, _ in heads}))
    return Layout(Geometry(max(layers), max(head for _, head in heads), attention))
