"""The layouts of every view that is read with a language model, all of them from one forward.

full       the paper's columns (`layout.py`): the reference, under any name that is not one of the others
window     attention from the last 64 positions instead of the last one, a few columns per attention layer
wide       full, then window: for scorers that need both
semantic   directions of Blocks, of the pre-action state and of the whole context at the semantic layers, for
           analyses; no scorer reads it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from drsr.features.geometry import Geometry, geometry_from
from drsr.features.layout import FEATURES_VERSION, Column, ColumnGroup, Layout, Unit, ViewLayout

WINDOW_POSITIONS = 64
"""Positions in the observation window, the pre-action one last; all of them in a shorter view."""
WINDOW_STATISTICS: tuple[tuple[str, Unit], ...] = (
    ("mass", Unit.WEIGHT),
    ("density", Unit.WEIGHT_PER_TOKEN),
    ("max_weight", Unit.WEIGHT_PER_TOKEN),
    ("peak_mass", Unit.WEIGHT),
)
"""Of weights that are means over the heads. The first three of their mean over the window's positions: its sum over
the Block's tokens, that per token, its largest. Then the largest mass that one of the positions gives the Block."""


class Kind(StrEnum):
    """The columns of a view."""

    FULL = "full"
    WINDOW = "window"
    WIDE = "wide"
    SEMANTIC = "semantic"


SCORED = (Kind.FULL, Kind.WINDOW, Kind.WIDE)
"""Those that a policy may be frozen on."""


def kind_of(view: str) -> Kind:
    """Return what the view of this name holds."""
    return Kind(view) if view in (Kind.WINDOW, Kind.WIDE, Kind.SEMANTIC) else Kind.FULL


@cache
def layout_of(geometry: Geometry) -> Layout:
    """Return the paper's layout, built once: naming and hashing a thousand columns costs more than a short decision."""
    return Layout(geometry)


@cache
def window_layout(attention_layers: Sequence[int]) -> ViewLayout:
    columns = tuple(
        Column(f"window_l{layer:02d}_{name}", ColumnGroup.WINDOW, unit)
        for layer in attention_layers
        for name, unit in WINDOW_STATISTICS
    )
    return _hashed({"view": Kind.WINDOW, "positions": WINDOW_POSITIONS}, columns)


@cache
def wide_layout(geometry: Geometry) -> ViewLayout:
    full = layout_of(geometry)
    window = window_layout(full.attention_layers)
    return _hashed({"view": Kind.WIDE, "of": [full.hash, window.hash]}, (*full.columns, *window.columns))


@cache
def semantic_layout(semantic_layers: Sequence[int], size: int) -> ViewLayout:
    """`size` is the number of coordinates of a hidden state."""
    columns = tuple(
        Column(f"semantic_l{layer:02d}_{whose}_{number:04d}", ColumnGroup.SEMANTIC, Unit.COORDINATE)
        for layer in semantic_layers
        for whose in ("block", "state", "context")
        for number in range(1, size + 1)
    )
    return _hashed({"view": Kind.SEMANTIC, "rounded": "float16"}, columns)


def layout_from(kind: Kind, config: Any, name: str) -> Layout | ViewLayout:
    """Return the columns that a language model gives, from its settings; `name` is its own, for complaints."""
    geometry = geometry_from(config, name)
    if kind is not Kind.SEMANTIC:
        return scored_layout(kind, geometry)
    return semantic_layout(layout_of(geometry).semantic_layers, int(config.get_text_config().hidden_size))


def scored_layout(kind: Kind, geometry: Geometry) -> Layout | ViewLayout:
    """Return the same for layouts that a policy may be frozen on: the geometry suffices."""
    if kind is Kind.WINDOW:
        return window_layout(layout_of(geometry).attention_layers)
    return wide_layout(geometry) if kind is Kind.WIDE else layout_of(geometry)


def kind_with(layout_hash: str, geometry: Geometry) -> Kind | None:
    """Return which columns a policy with this layout reads; None if this geometry has no such layout."""
    return next((kind for kind in SCORED if scored_layout(kind, geometry).hash == layout_hash), None)


def _hashed(facts: dict[str, Any], columns: tuple[Column, ...]) -> ViewLayout:
    described = {"version": FEATURES_VERSION, **facts, "columns": columns}
    return ViewLayout(columns, hashlib.sha256(json.dumps(described, separators=(",", ":")).encode("ascii")).hexdigest())
