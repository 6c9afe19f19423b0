"""Labels as they are drawn: no two text boxes meet, and each is on the page, in the released replay and in a crowd."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from matplotlib.figure import Figure

from drsr.offline.bench.replay.file import read_replay
from drsr.offline.bench.replay.label_placing import PlotLabel, place_labels
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.replay.summary import compare
from drsr.offline.bench.replay.tables import draw_frontier, replay_section
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.replay.test_tables import rows_of

JOURNAL = Path("policies", "about", "replay-test.jsonl")
FEW = Bootstrap(2)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[list[list[Any]]]:
    """The boxes of all labels by panel, of every figure that is saved, with its page last; measured when it is."""
    found: list[list[list[Any]]] = []
    save: Callable[..., None] = Figure.savefig

    def measured(page: Figure, *arguments: Any, **options: Any) -> None:
        save(page, *arguments, **options)
        found.append([[text.get_window_extent() for text in axes.texts] for axes in page.axes] + [[page.bbox]])

    monkeypatch.setattr(Figure, "savefig", measured)
    return found


def assert_apart(boxes: list[Any], page: Any) -> None:
    """Touching is not meeting, but nothing touches either."""
    assert not [(one, other) for one, other in combinations(boxes, 2) if one.overlaps(other)]
    for box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1


def crowd(methods: int, domains: tuple[str, ...]) -> list[Replayed]:
    """Methods with long names, most of which do almost the same."""
    random = Random(17)
    return [
        rows_of(f"method_with_a_long_name_{number}", random.randrange(12) + 40 * (number % 9 == 0), unsafe, run, domain)
        for number in range(methods)
        for domain in domains
        for run in "abcd"
        for unsafe in [random.random() < 0.1]
    ]


def test_the_labels_of_the_released_replay_do_not_meet(pages: list[list[list[Any]]]) -> None:
    replay = read_replay(JOURNAL)
    found = compare(replay.current, FEW)
    drawn = draw_frontier(found)
    assert draw_frontier(found) == drawn  # the same bytes every time
    *panels, (page,) = pages[0]
    assert len(panels) == 2
    for boxes in panels:
        assert len(boxes) > 20
        assert_apart(boxes, page)
    assert b"26 DRSR light" in drawn
    assert b"17 Sculptor" in drawn
    assert b"without room" not in drawn


def test_the_labels_of_its_domains_do_not_meet(pages: list[list[list[Any]]]) -> None:
    replay_section(read_replay(JOURNAL), FEW)
    *panels, (page,) = pages[-1]
    assert len(panels) == 4
    for boxes in panels:
        assert boxes
        assert_apart(boxes, page)


@pytest.mark.parametrize("domains", [("code",), ("code", "web")])
def test_the_labels_of_a_crowd_do_not_meet(pages: list[list[list[Any]]], domains: tuple[str, ...]) -> None:
    draw_frontier(compare(crowd(60, domains), FEW))
    *panels, (page,) = pages[0]
    assert len(panels) == len(domains)
    for boxes in panels:
        assert len(boxes) > 15
        assert_apart(boxes, page)


def test_points_without_room_are_handed_back() -> None:
    page = Figure(figsize=(1, 1), dpi=72, layout="constrained")
    axes = page.subplots()
    labels = [PlotLabel(f"a name that is long {number}", number, 0) for number in range(50)]
    left_out = place_labels(axes, labels)
    assert 0 < len(left_out) <= 50
    assert len(axes.texts) == 50 - len(left_out)
    assert place_labels(axes, []) == []
