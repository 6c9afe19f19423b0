"""The commands under a report say what was really asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drsr.offline.bench.harness.results_file import TaskResults
from drsr.offline.bench.replay.file import MethodNote, Replay
from drsr.offline.bench.report.inputs import Asked
from drsr.offline.bench.report.made_by import UNKNOWN_SOURCE, Recorded, reproduce
from tests.offline.bench.replay.test_summary import ROWS

RUNS = frozenset(row.run for row in ROWS)


def asked(**changes: Any) -> Asked:
    made = Asked("default", "default", "test", False, Path("c"), 20, 1, ("--split", "test"), Path("r.jsonl"), None)
    return made._replace(**changes)


def replay(summariser: str) -> Replay:
    """Of one method."""
    notes = {row.method: MethodNote(row.method, row.title, version=row.version, summariser=summariser) for row in ROWS}
    return Replay({"split": "test", "window": 400}, notes, ROWS)


def replayed(summariser: str = "scripted", runs: frozenset[str] = RUNS) -> str:
    (line,) = [
        line for line in reproduce(Recorded([], []), asked(), runs, replay(summariser), None) if "--replay" in line
    ]
    return line


def test_places_are_shown_without_credentials_and_words_with_spaces_in_quotes() -> None:
    recorded = Recorded([("https://me:secret@host/runs?key=hidden",), ("my runs", "--source", "a b"), ()], [])
    lines = reproduce(recorded, asked(), RUNS, None, None)
    assert lines[:3] == ["drsr ingest https://host/runs", "drsr ingest 'my runs' --source 'a b'", "drsr ingest"]
    assert lines[-1] == "drsr report --split test"
    assert "drsr publish" not in " ".join(lines)  # nothing was
    assert reproduce(Recorded([], []), asked(), RUNS, None, None)[0] == UNKNOWN_SOURCE


def test_views_and_labelers_are_named_where_they_are_not_the_usual_ones() -> None:
    lines = reproduce(Recorded([], []), asked(view="wide", labeler="large"), RUNS, replay("scripted"), None)
    assert "drsr label --labeler large" in lines
    assert "drsr featurize --view wide" in lines
    assert "drsr train --view wide --labeler large" in lines
    assert lines[-2].endswith("--view wide --labeler large")


@pytest.mark.parametrize(
    ("summariser", "words"),
    [
        ("scripted", "--summariser scripted "),
        ("smollm2-135m", "--summariser embedded "),
        ("large at http://localhost:1/v1", "--summariser http://localhost:1/v1 --summariser-model large "),
        ("", "--window 400 --methods "),
    ],
)
def test_who_wrote_summaries(summariser: str, words: str) -> None:
    assert words in replayed(summariser)


def test_a_command_for_every_summariser() -> None:
    """PACE was asked for again with the language model: one command could not give both rows."""
    asks = {"pace": "smollm2-135m", "sam": "scripted", "self_gc": "scripted", "m": "", "drsr": "", "drsr_x": ""}
    notes = {name: MethodNote(name, name, version=ROWS[0].version, summariser=who) for name, who in asks.items()}
    notes["drsr"] = notes["drsr"]._replace(version="ab" * 32)
    notes["gone"] = MethodNote("gone", "Gone", left_out="not installed")
    found = Replay({"split": "test", "window": 400}, notes, ROWS)
    lines = [line for line in reproduce(Recorded([], []), asked(), RUNS, found, None) if "--replay" in line]
    head = "drsr evaluate --replay --split test --window 400"
    assert lines == [
        f"{head} --summariser embedded --policy WHEEL-OF-abababababab --ablations --methods pace,m,drsr,drsr_x "
        "--output r.jsonl",
        f"{head} --summariser scripted --methods sam,self_gc --output r.jsonl",
    ]


def test_rows_of_another_training_are_named_before_the_commands_that_cannot_give_them() -> None:
    names = {"drsr": "1" * 64, "drsr_x": "2" * 64}
    notes = {name: MethodNote(name, name, version="v", training=training) for name, training in names.items()}
    found = Replay({"split": "test", "window": 400}, notes, ROWS)
    lines = reproduce(Recorded([], []), asked(), RUNS, found, None)
    assert lines[-3].startswith("# DRSR and its ablations are of different trainings")
    assert "--replay" in lines[-2]


def test_which_runs_were_replayed() -> None:
    assert replayed().endswith("--methods m --output r.jsonl")
    source = next(iter(RUNS)).partition("/")[0]
    assert f"--limit {len(RUNS)} --output" in replayed(runs=RUNS | {f"{source}/one more"})
    if {run.partition("/")[0] for run in RUNS} == {source}:
        assert f"--source {source} --output" in replayed(runs=RUNS | {"elsewhere/one"})


def test_every_run_of_tasks_is_there_as_it_was_asked_for() -> None:
    told: list[tuple[str, ...]] = [
        ("--tasks", "two.json", "--limit", "4"),
        ("--tasks", "two.json", "--methods", "drsr"),
    ]
    lines = reproduce(Recorded([], []), asked(tasks=Path("t.jsonl")), RUNS, None, TaskResults({}, [], told, {}))
    assert lines[-3:-1] == [
        "drsr evaluate --tasks two.json --limit 4 --output t.jsonl",
        "drsr evaluate --tasks two.json --methods drsr --output t.jsonl",
    ]
