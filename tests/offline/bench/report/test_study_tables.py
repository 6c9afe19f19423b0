"""The tables of the study say what was compared, and stand beside the paper's only where it is the same."""

from __future__ import annotations

from drsr.offline.bench.report.study_tables import study_section
from drsr.offline.evaluate.ablation_study import ScorerRow, Study
from drsr.offline.train.ablations import ABLATIONS, EXCHANGED_SAYS
from drsr.offline.train.metrics import Metric, Metrics

METRIC = Metric("pair accuracy", "", "", 0.6, 0.5, 0.7, 9, 3)
ROWS = [ScorerRow(name, name, Metrics(*[METRIC] * len(Metrics._fields)), None) for name in ("matched", "mismatched")]


def study(matching: list[ScorerRow]) -> Study:
    return Study("test", 4, 40, 20, 9, ROWS, [], matching, [], [])


def test_another_decisions_relations_are_not_shown_as_the_papers_control() -> None:
    """Candidates are exchanged with their states there, and the paper keeps the Block."""
    found = {one.name: one for one in study_section(study(ROWS), ablations=True).analyses}["exchanged_relations"]
    assert found.rows == tuple((row.what, "0.600 [0.500, 0.700]", "0.600 [0.500, 0.700]") for row in ROWS)
    assert found.says.startswith(EXCHANGED_SAYS)
    assert "Block and state are both exchanged" in found.says
    assert not any("paper" in column for column in found.columns)
    assert ABLATIONS["mismatched-state"].what == "another decision's relations at the same place"


def test_it_is_left_out_where_it_was_not_made() -> None:
    section = study_section(study([]), ablations=False)
    assert "exchanged_relations" not in [one.name for one in section.analyses]
    assert any("another decision's relations" in name for name in section.left_out)
