"""Labels of a figure's points, placed so that no two meet and each stays in its panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

SIZE = 6.5
_APART = 1.5
"""At least this much, in points, is free around a label."""
_MARK = 3.0
"""Half of what a mark covers, in points."""
_NEAR = 9.0
"""Distance from its mark beyond which a label gets a line to it."""
_GREY = "#777777"
_RADII = np.concatenate([np.arange(3.0, 30.0, 2.0), np.arange(30.0, 400.0, 6.0)])
_ANGLES = np.deg2rad([30, -30, 0, 90, -90, 150, -150, 180, 60, -60, 120, -120, 15, -15, 165, -165])


class PlotLabel(NamedTuple):
    """A text and the point that it belongs to, in the units of the axes."""

    text: str
    x: float
    y: float


def place_labels(axes: Axes, labels: Sequence[PlotLabel], line: Sequence[tuple[float, float]] = ()) -> list[PlotLabel]:
    """Write each label as near to its point as possible without touching another, a mark or, if possible, the `line`;
    earlier ones choose first. Return those that find no free place.

    A line to a label crosses no other label if there is such a place. Call it last: it reads where the layout puts the
    axes.
    """
    page: Any = axes.figure
    page.draw_without_rendering()
    scale = page.dpi / 72
    panel = np.array(axes.get_window_extent().extents) / scale
    points = axes.transData.transform([(one.x, one.y) for one in labels]) / scale if labels else np.empty((0, 2))
    marks, placed = np.hstack([points - _MARK, points + _MARK]), np.empty((0, 4))
    ink = _dots_along(axes.transData.transform(line) / scale) if len(line) > 1 else np.empty((0, 4))
    left_out = []
    for one, point in zip(labels, points, strict=True):
        text = axes.annotate(
            one.text, (one.x, one.y), xytext=(0, 0), textcoords="offset points", fontsize=SIZE, va="bottom"
        )
        text.set_in_layout(False)
        size = np.array(text.get_window_extent().size) / scale
        places = _places(point, size)
        places = places[_inside(places, panel) & _free(places, np.vstack([marks, placed]))]
        if not len(places):
            text.remove()
            left_out.append(one)
            continue
        clear = places[_free(places, ink)]
        box = next((place for place in clear if _free(_lead(place, point), placed).all()), places[0])
        text.set_position(tuple(box[:2] - point))
        placed = np.vstack([placed, box])
        if _distance(box, point) > _NEAR:
            lead = _lead(box, point)
            ink = np.vstack([ink, lead])
            ends = axes.transData.inverted().transform(lead[[0, -1], :2] * scale)
            axes.plot(ends[:, 0], ends[:, 1], "-", color=_GREY, linewidth=0.4, zorder=1, scalex=False, scaley=False)
    return left_out


def _places(point: Floats, size: Floats) -> Floats:
    """Boxes (left, bottom, right, top) around a point, the nearest first."""
    radii, angles = np.meshgrid(_RADII, _ANGLES, indexing="ij")
    away = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1, 2)
    low = point + away * (radii.reshape(-1, 1) + size / 2) - size / 2
    return np.hstack([low, low + size])


def _inside(boxes: Floats, panel: Floats) -> NDArray[np.bool_]:
    within = np.hstack([boxes[:, :2] >= panel[:2], boxes[:, 2:] <= panel[2:]])
    found: NDArray[np.bool_] = np.all(within, axis=1)
    return found


def _free(boxes: Floats, taken: Floats) -> NDArray[np.bool_]:
    """Return whether each of the boxes keeps apart from all that are taken."""
    beside = boxes[:, None, :2] >= taken[None, :, 2:] + _APART
    before = boxes[:, None, 2:] + _APART <= taken[None, :, :2]
    apart: NDArray[np.bool_] = np.any(np.concatenate([beside, before], axis=2), axis=2)
    found: NDArray[np.bool_] = np.all(apart, axis=1)
    return found


def _dots_along(corners: Floats) -> Floats:
    """Return a line as boxes without an extent, two points apart."""
    dots = [
        start + (end - start) * part
        for start, end in zip(corners, corners[1:], strict=False)
        for part in np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) / 2))
    ]
    return np.hstack([dots, dots])


def _distance(box: Floats, point: Floats) -> float:
    return float(np.hypot(*(np.clip(point, box[:2], box[2:]) - point)))


def _lead(box: Floats, point: Floats) -> Floats:
    """Return a line from a mark to the nearest place of its label."""
    return _dots_along(np.array([point, np.clip(point, box[:2], box[2:])]))
