"""The page of `dvc plots show` draws points by itself, in a browser that has no network."""

from __future__ import annotations

import re
from pathlib import Path

from dvc_render.html import render_html
from dvc_render.vega import VegaRenderer

from tests.flows.made_up_runs import ROOT
from tests.real_browser import NO_NETWORK, Browser

OLDER = "night <1> & before"
ROWS = [
    {"epoch": epoch, "unsafe_auroc": auroc, "rev": rev}
    for rev in ("workspace", OLDER)
    for epoch, auroc in ((0, 0.5), (5, 0.61), (10, 0.7))
]


def test_points_are_drawn_and_anything_else_is_told(browser: Browser, tmp_path: Path) -> None:
    plots = [
        VegaRenderer(ROWS, f"{template}.csv", template=template, x="epoch", y="unsafe_auroc", title="Members")
        for template in ("scatter", "linear")
    ]
    page = tmp_path / "index.html"
    render_html(plots, page, html_template=ROOT / ".dvc" / "plots.html")
    dom = browser.open(page.as_uri(), NO_NETWORK, "--dump-dom")
    shown = re.sub(r"<script.*?</script>", "", dom, flags=re.DOTALL)
    (svg,) = re.findall(r"<svg.*?</svg>", shown, re.DOTALL)
    points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="4" fill="none"', svg)
    assert len(points) == len(ROWS)
    across, up = ([float(point[axis]) for point in points[:3]] for axis in (0, 1))
    assert across == sorted(across), "later is further right"
    assert up == sorted(up, reverse=True), "more is further up"
    assert "Members" in svg
    assert "<1>" not in svg
    assert shown.count('<p class="other">This page draws points only') == 1
