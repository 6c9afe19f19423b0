"""Bars as inline SVG that takes its colours from the page, so that light, dark and paper work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from drsr.pages import Markup, element

COLOURS = ("--plot-a", "--plot-b", "--plot-c", "--other")
"""Colours of the style sheet, and so the maximum number of series in a chart."""
_WIDTH, _HEIGHT, _LEFT, _BELOW, _ABOVE = 760, 200, 64, 24, 26


class Series(NamedTuple):
    name: str
    values: Sequence[float]


def bars(labels: Sequence[str], series: Sequence[Series], caption: str, shown: Callable[[float], str]) -> Markup:
    """Return one stack of bars per label. `shown` formats a value; the largest stack gives the scale."""
    assert 0 < len(series) <= len(COLOURS)
    heights = [sum(values) for values in zip(*(one.values for one in series), strict=True)]
    top = max(heights, default=0.0) or 1.0
    inner = _HEIGHT - _ABOVE - _BELOW
    step = (_WIDTH - _LEFT) / max(1, len(labels))
    drawn = [*_axis(top, inner, shown), *_legend(series)]
    for place, label in enumerate(labels):
        x, y = _LEFT + place * step + 0.15 * step, float(_ABOVE + inner)
        for colour, one in zip(COLOURS, series, strict=False):
            height = one.values[place] / top * inner
            if height > 0:
                y -= height
                told = element("title", f"{label}, {one.name}: {shown(one.values[place])}")
                drawn.append(_bar(x, y, 0.7 * step, height, colour, told))
    every = max(1, -(-len(labels) // 10))
    drawn += [
        _text(_LEFT + (place + 0.5) * step, _HEIGHT - 6, label, "middle")
        for place, label in enumerate(labels)
        if place % every == 0
    ]
    svg = element("svg", *drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=caption, class_="bars")
    return element("figure", element("div", svg, class_="wide"), element("figcaption", caption))


def _axis(top: float, inner: int, shown: Callable[[float], str]) -> list[Markup]:
    found = []
    for part in (0.0, 0.5, 1.0):
        y = _ABOVE + inner * (1 - part)
        line = "stroke:currentColor;stroke-opacity:.18"
        found.append(element("line", x1=f"{_LEFT}", x2=f"{_WIDTH}", y1=f"{y:.1f}", y2=f"{y:.1f}", style=line))
        found.append(_text(_LEFT - 6, y + 4, shown(top * part), "end"))
    return found


def _legend(series: Sequence[Series]) -> list[Markup]:
    found, x = [], float(_LEFT)
    for colour, one in zip(COLOURS, series, strict=False):
        found += [_bar(x, 4, 10, 10, colour, None), _text(x + 14, 13, one.name, "start")]
        x += 34 + 6.6 * len(one.name)
    return found


def _bar(x: float, y: float, width: float, height: float, colour: str, told: Markup | None) -> Markup:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}
    return element("rect", told, style=f"fill:var({colour})", **place)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
