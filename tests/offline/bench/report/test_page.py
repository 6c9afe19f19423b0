"""The report's page: what it escapes, that it refers to nothing remote, its tables for programs, and the frontier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drsr.offline.bench.analyses.analysis import Analysis, Section
from drsr.offline.bench.analyses.figures import figure
from drsr.offline.bench.replay.file import MethodNote, Replay
from drsr.offline.bench.replay.summary import MethodSummary, compare
from drsr.offline.bench.replay.tables import frontier, replay_section
from drsr.offline.bench.report.page import Report, write_report
from drsr.offline.bench.report.paper_section import paper_section
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.replay.test_summary import ROWS

EVIL = "<script>alert('x')</script>"
NOTE = MethodNote("m", "Method", "no", ("pairs",), (f"An assumption {EVIL}",))


@pytest.fixture(scope="module")
def report() -> Report:
    replay = Replay({}, {"m": NOTE, "gone": MethodNote("gone", "Gone", left_out="not installed")}, ROWS)
    odd = Analysis("odd", EVIL, EVIL, ("a", EVIL), ((1, EVIL), (2.5, None)), figure(lambda axes: axes.plot([1, 2])))
    sections = (replay_section(replay, Bootstrap(50)), Section("Odd", [odd], {"x": EVIL}), paper_section())
    return Report("A title", "A notice", sections, [EVIL], {"what": EVIL}, [f"drsr {EVIL}"])


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("report") / "page", report)


def test_everything_from_data_is_escaped_and_nothing_remote_is_referred_to(page: Path) -> None:
    text = page.read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 10  # each place that takes words from data
    references = {found for found in re.findall(r'href="([^"]*)"', text) if not found.startswith("#")}
    assert references == {f"tables/{path.name}" for path in (page.parent / "tables").iterdir()}
    assert not re.search(r"\b(src|action|srcset)=", text)
    assert "default-src 'none'" in text
    assert not re.search(r"url\((?!#)", text)


def test_the_same_tables_for_programs(page: Path, report: Report) -> None:
    tables = page.parent / "tables"
    assert {path.name for path in tables.iterdir()} == {
        f"{found.name}.{kind}" for found in report.analyses for kind in ("csv", "md")
    }
    assert (tables / "odd.csv").read_text() == f"a,{EVIL}\n1,{EVIL}\n2.5,\n"
    assert report.left_out == {"x": EVIL, "Gone": "not installed"}
    assert len((tables / "replay_by_domain.csv").read_text().splitlines()) == 3  # one method in two domains


def test_nobody_beats_the_best() -> None:
    (one,) = compare(ROWS, Bootstrap(20)).methods

    def placed(name: str, removal: float, unsafe: float) -> MethodSummary:
        return one._replace(
            method=name, removal=one.removal._replace(value=removal), unsafe=one.unsafe._replace(value=unsafe)
        )

    given = [placed("a", 0.0, 0.0), placed("b", 0.2, 0.1), placed("c", 0.1, 0.1), placed("drsr", 0.2, 0.1)]
    found = frontier(enumerate([*given, placed("nan", float("nan"), 0.0)], start=1))
    assert [(point.numbers, point.best, point.ours) for point in found] == [
        ((1,), True, False),
        ((2, 4), True, True),
        ((3,), False, False),
    ]
