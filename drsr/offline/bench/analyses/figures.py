"""Figures as SVG: small, the same bytes every time, readable on light and on dark paper.

Lines and words take the page's own colour (`currentColor`), so that one file serves both.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, PAPER, THIRD = "#2a78d6", "#c2571a", "#2f8f5b"
"""Seen on white and on black."""
COLOURS = (OURS, PAPER, THIRD, "#8a5cc2", "#777777")
_INK = "#123456"
"""Placeholder for the page's colour until the file is written; no series uses it."""


def figure(draw: Callable[..., None], panels: int = 1, *, height: float = 3.0, width: float = 3.6) -> bytes:
    """Return one row of panels, each of this width in inches; `draw` is called with their axes."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
        "svg.hashsalt": "drsr",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(style):
        page = Figure(figsize=(width * panels + 0.6, height), dpi=72, layout="constrained")
        axes = page.subplots(1, panels, squeeze=False)[0]
        draw(*axes)
        stream = io.BytesIO()
        page.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue().decode()
    return text[text.index("<svg") :].replace(_INK, "currentColor").encode()


def margin_line(axes: Axes, x: float, label: str) -> None:
    """Draw a dashed line at a threshold."""
    axes.axvline(x, color=_INK, linewidth=0.8, linestyle="--", label=label)
