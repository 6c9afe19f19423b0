"""A check of a corpus: its tables against each other, and the fetched files against them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.offline.ingest.corpus.check import check_corpus
from drsr.offline.ingest.corpus.table import Corpus
from tests.offline.small_corpus import CONTENTS, mirrored, row, small_corpus, write_table

VICTIM = "two/c.json"
TASKS = "source,read_as,task,group,split\n"
RUNS = "source,external_id,task,group,agent,domain,tool_steps,characters\n"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.chdir(tmp_path)
    return small_corpus(tmp_path)


def test_a_check_reads_every_file(corpus: Corpus, tmp_path: Path) -> None:
    folder = mirrored(tmp_path / "to")
    found = check_corpus("small", folder)
    assert (found.passed, found.files.rows, found.here) == (True, 4, 4)
    (folder / VICTIM).write_bytes(CONTENTS[VICTIM][::-1])
    (folder / "two" / "d.json").unlink()
    found = check_corpus("small", folder)
    assert (found.passed, found.here) == (False, 2)
    assert [file.local for file in found.altered] == [VICTIM]
    assert [file.local for file in found.missing] == ["two/d.json"]
    assert check_corpus("small", folder, sources=["one"]).passed
    assert check_corpus("small", None).here == 0


def complaints(corpus: Corpus, *, tasks: str = "", runs: str = "") -> list[tuple[str, int, str]]:
    """What is wrong with tables that have these rows, by file and line."""
    (corpus.folder / "tasks.csv").write_text(TASKS + tasks)
    (corpus.folder / "runs.csv").write_text(RUNS + runs)
    found = check_corpus("small", None)
    listed = [(table.path.name, *problem) for table in found.others for problem in table.problems]
    assert found.passed is not bool(listed)
    assert [table["problems"] for table in found.to_json()["other_tables"]] == [
        [problem._asdict() for problem in table.problems] for table in found.others
    ]
    return listed


def test_sound_tables(corpus: Corpus) -> None:
    tasks = "one,a.json#3,desk/1,customer/ada,test\none,3,desk/2,customer/ada,test\nelsewhere,9,desk/9,desk/9,\n"
    runs = "one,a.json#3,desk/1,customer/ada,some agent,code,7,4000\ntwo,7f3a,desk/8,desk/8,some agent,code,8,5000\n"
    assert complaints(corpus, tasks=tasks, runs=runs) == []


@pytest.mark.parametrize(
    ("rows", "line", "complaint"),
    [
        ("one,1,a\n", 2, "3 cells instead of 5"),
        ("one,,a,a,\n", 2, "read_as is empty"),
        ("one,1,a,a,exam\n", 2, "split 'exam' is not one of train, validation, test"),
        ("one,x.json#1,a,a,\n", 2, "files.csv has no file 'x.json' of one"),
        ("one,1,a,a,\none,1,b,b,\n", 3, "1 of one is in line 2 too"),
        ("one,1,a,a,\ntwo,1,a,b,\n", 3, "task a is in group b here and in a above"),
        ("one,1,a,g,test\none,2,b,g,train\n", 3, "group g is placed in train here and in test above"),
    ],
)
def test_a_table_of_tasks_that_is_wrong(corpus: Corpus, rows: str, line: int, complaint: str) -> None:
    ((table, where, what),) = complaints(corpus, tasks=rows)
    assert (table, where) == ("tasks.csv", line)
    assert complaint in what


@pytest.mark.parametrize(
    ("rows", "line", "complaint"),
    [
        ("one,1,a,a\n", 2, "4 cells instead of 8"),
        ("one,1,a,a,some agent,code,many,9\n", 2, "tool_steps and characters must be whole numbers"),
        ("three,1,a,a,some agent,code,7,9\n", 2, "files.csv has no source 'three'"),
        ("one,x.json#0,a,a,some agent,code,7,9\n", 2, "files.csv has no file 'x.json' of one"),
        ("one,a.json#0,a,a,another,code,7,9\n", 2, "agent is 'another' here and 'some agent' in files.csv"),
        ("one,1,a,a,some agent,security,7,9\n", 2, "domain is 'security' here and 'code' in files.csv"),
        ("one,1,a,a,some agent,code,7,9\n" * 2, 3, "1 of one is in line 2 too"),
        ("one,1,desk/1,desk/1,some agent,code,7,9\n", 2, "task desk/1 is in group desk/1 here and in customer/ada"),
    ],
)
def test_a_table_of_runs_that_is_wrong(corpus: Corpus, rows: str, line: int, complaint: str) -> None:
    ((table, where, what),) = complaints(corpus, tasks="one,5,desk/1,customer/ada,\n", runs=rows)
    assert (table, where) == ("runs.csv", line)
    assert complaint in what


def test_tables_of_other_columns(corpus: Corpus) -> None:
    (corpus.folder / "tasks.csv").write_text("source,task\n")
    (corpus.folder / "runs.csv").write_text("source,task\n")
    found = [table.problems for table in check_corpus("small", None).others]
    assert [problem.what.partition(",")[0] for (problem,) in found] == ["the columns must be source"] * 2


def test_a_reader_that_does_not_know_its_file(corpus: Corpus, tmp_path: Path) -> None:
    folder = mirrored(tmp_path / "to")
    rows = [
        row(local, data, reader="tau_bench" if local == VICTIM else "openai_chat") for local, data in CONTENTS.items()
    ]
    write_table(tmp_path, rows)
    found = check_corpus("small", folder)
    assert [(file.local, known) for file, known in found.misread] == [(VICTIM, ("openai_chat",))]
    assert not found.passed
    assert check_corpus("small", folder, sources=["one"]).passed
    write_table(tmp_path, [rows[0] | {"reader": "openai_chats"}, *rows[1:2]])
    (problem,) = check_corpus("small", None).files.problems
    assert problem.what.startswith("no reader is called 'openai_chats', which one/a.json names; one of agentdojo,")
