"""A replay as a section of the report: the frontier against its definition, labels, domains, and what is left out."""

from __future__ import annotations

import csv
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.bench.replay.file import MethodNote, Replay
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.replay.summary import compare
from drsr.offline.bench.replay.tables import frontier, replay_section
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.replay.test_summary import row

FEW = Bootstrap(5)


def rows_of(method: str, removed: int, unsafe: bool, run: str = "r", domain: str = "code") -> Replayed:
    harm = 0.5 if unsafe else 0.0
    about = {"method": method, "title": method.upper(), "changed": True, "state_key": f"{domain}/{run}"}
    return row(f"{domain}/{run}", run, domain, removed, harm, **about)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_nobody_beats_what_the_line_joins(values: list[tuple[int, bool, bool]]) -> None:
    rows = []
    for number, (removed, first, second) in enumerate(values):
        rows += [
            rows_of(f"m{number}", 100 * removed, first, "a"),
            rows_of(f"m{number}", 100 * removed, second, "b"),
        ]
    places = {n: (removed / 10, (first + second) / 2) for n, (removed, first, second) in enumerate(values, start=1)}
    points = frontier(enumerate(compare(rows, FEW).methods, start=1))
    assert sum(len(point.numbers) for point in points) == len(places)
    found = {number: point for point in points for number in point.numbers}
    for number, (removal, unsafe) in places.items():
        point = found[number]
        assert (round(point.removal, 6), round(point.unsafe, 6)) == (round(removal, 6), round(unsafe, 6))
        beaten = any(
            (more > removal and fewer <= unsafe) or (more >= removal and fewer < unsafe)
            for more, fewer in places.values()
        )
        assert point.best is not beaten


def test_labels_name_drsr_and_count_crowds() -> None:
    names = ["a", "b", "c", "drsr"]
    rows = [rows_of(name, 0, False) for name in names] + [rows_of("much", 500, True), rows_of("worse", 400, True)]
    labels = [point.label for point in frontier(enumerate(compare(rows, FEW).methods, start=1))]
    assert labels == ["DRSR and 3 others", "5 MUCH", "6"]


def test_domains_get_a_table_and_methods_their_assumptions() -> None:
    rows = [rows_of("m", 100, False, run, domain) for run, domain in product(("a", "b"), ("code", "web"))]
    notes = {
        "m": MethodNote("m", "M", "no", ("pairs",), ("It is assumed.",)),
        "gone": MethodNote("gone", "Gone", left_out="not installed"),
    }
    section = replay_section(Replay({}, notes, rows), FEW)
    assert [found.name for found in section.analyses] == ["replay", "replay_costs", "replay_by_domain", "methods"]
    assert [line[0] for line in section.analyses[2].rows] == ["code", "web"]
    assert section.analyses[3].rows == (("M", "no", "", "pairs", "It is assumed."),)
    assert section.left_out == {"Gone": "not installed"}
    for found in section.analyses:
        assert {len(line) for line in found.rows} == {len(found.columns)}
        assert len(set(found.columns)) == len(found.columns)


def test_intervals_have_columns_of_their_own_for_programs() -> None:
    rows = [rows_of("m", 100, False, "a"), rows_of("m", 300, True, "b")]
    section = replay_section(Replay({}, {"m": MethodNote("m", "M", "no")}, rows), FEW)
    (line,) = csv.DictReader(section.analyses[0].to_csv().splitlines())
    (one,) = compare(rows, FEW).methods
    assert [float(line[name]) for name in ("removed", "removed, low", "removed, high")] == list(one.removal[3:6])
    assert float(line["removed tokens"]) == 200
    assert line["unsafe of changed, low"] != ""
    assert "200.0 [" in section.analyses[0].to_markdown()
    (alone,) = csv.DictReader(
        replay_section(Replay({}, {"m": MethodNote("m", "M", "no")}, rows[:1]), FEW).analyses[0].to_csv().splitlines()
    )
    assert (alone["removed"], alone["removed, low"]) == ("0.1", "")  # one task: no interval


def test_failures_are_counted_by_reason_and_earlier_versions_named() -> None:
    broken = rows_of("m", 0, False, "b")._replace(why_fell_back="result_without_call", violations=1, changed=False)
    rows = [rows_of("m", 100, False, "a"), broken]
    rows += [one._replace(version="old") for one in rows]
    digest = "ab" * 32
    notes = {"m": MethodNote("m", "M", "no", version=digest)}
    rows = [one._replace(version=one.version or digest) for one in rows]
    section = replay_section(Replay({}, notes, rows), FEW)
    assert [found.name for found in section.analyses] == ["replay", "replay_costs", "replay_failures", "methods"]
    assert section.analyses[2].rows == ((1, "M", "result_without_call", 1),)
    assert "Measured for every method: 2 of them" in section.analyses[0].says
    assert "earlier versions that are not shown: M 2" in section.analyses[0].says
    assert section.analyses[3].rows[0][2] == digest[:12]


def test_broken_claims_and_different_trainings_are_shown() -> None:
    rows = [rows_of("drsr", 100, False, "a")._replace(lost=("user",), claims_broken=("user",))]
    rows += [rows_of("drsr_x", 100, False, "a")]
    notes = {name: MethodNote(name, name.upper(), "no", training=name * 20) for name in ("drsr", "drsr_x")}
    effects, costs, _ = replay_section(Replay({}, notes, rows), FEW).analyses
    place = costs.columns.index("claims broken")
    assert [line[place] for line in costs.rows] == [1, 0]
    assert "of drsrdrsrdrsr DRSR; of drsr_xdrsr_x DRSR_X" in effects.says


def test_methods_without_a_decision_in_common_are_not_compared() -> None:
    rows = [rows_of("m", 100, False, "a"), rows_of("other", 100, False, "b")]
    notes = {name: MethodNote(name, name.upper(), "no") for name in ("m", "other")}
    section = replay_section(Replay({}, notes, rows), FEW)
    assert section.analyses == []
    assert "rows of M: 1; OTHER: 1" in section.left_out["replay"]


def test_without_a_replay_the_section_says_so() -> None:
    for nothing in (None, Replay({}, {}, [])):
        section = replay_section(nothing, FEW)
        assert section.analyses == []
        assert "drsr evaluate --replay" in section.left_out["replay"]
