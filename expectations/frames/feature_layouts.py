"""The layout that a view's columns belong to, rebuilt from their names: what the columns should be, and their hash."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drsr.features.geometry import Geometry
from drsr.features.layout import ColumnGroup, Layout, ViewLayout
from drsr.features.light import light_layout
from drsr.features.view_layouts import layout_of, semantic_layout, wide_layout, window_layout

_ATTENTION = re.compile(r"attention_l(\d+)_h(\d+)_")
_HIDDEN = re.compile(r"hidden_l(\d+)_")
_WINDOW = re.compile(r"window_l(\d+)_")
_SEMANTIC = re.compile(r"semantic_l(\d+)_block_(\d+)")


def layout_for(names: Sequence[str]) -> Layout | ViewLayout | None:
    """Return the layout of the geometry that these names speak of, or of the view `light`; None where they speak of
    neither.

    Attention columns exist for at most eight of the full-attention layers, and the layout depends on these alone.
    """
    if any(name.startswith(f"{ColumnGroup.TEXT}_") for name in names):
        return light_layout()
    heads = [(int(found[1]), int(found[2])) for name in names if (found := _ATTENTION.match(name))]
    layers = [int(found[1]) for name in names if (found := _HIDDEN.match(name))]
    window = tuple(sorted({int(found[1]) for name in names if (found := _WINDOW.match(name))}))
    semantic = [(int(found[1]), int(found[2])) for name in names if (found := _SEMANTIC.match(name))]
    if semantic:
        return semantic_layout(tuple(sorted({layer for layer, _ in semantic})), max(number for _, number in semantic))
    if not heads or not layers:
        return window_layout(window) if window else None
    attention = tuple(sorted({layer for layer, _ in heads}))
    geometry = Geometry(max(layers), max(head for _, head in heads), attention)
    return wide_layout(geometry) if window else layout_of(geometry)
