"""A corpus is a table: what a sound row needs, what is refused, and where tables are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.errors import InputError
from drsr.offline.ingest.corpus.table import (
    DOMAINS,
    Corpus,
    CorpusFile,
    corpus_folder,
    known_corpora,
    load_corpus,
    read_table,
)
from tests.offline.small_corpus import COMMIT, row, write_table

DATA = b"some run"


def the_file(tmp_path: Path, **other: str) -> CorpusFile:
    (file,), problems = read_table(write_table(tmp_path, [row("one/a.json", DATA, **other)]))
    assert problems == ()
    return file


def complaints(tmp_path: Path, *rows: dict[str, str]) -> list[tuple[int, str]]:
    files, problems = read_table(write_table(tmp_path, list(rows)))
    assert len(files) + len({problem.line for problem in problems}) == len(rows)
    return [(problem.line, problem.what) for problem in problems]


def test_the_public_corpus() -> None:
    corpus = load_corpus("public")
    assert len(corpus.files) >= 365
    assert len(corpus.sources) >= 12
    assert set(corpus.domains) == set(DOMAINS)
    assert set(corpus.licences) <= {"MIT", "Apache-2.0"}
    assert corpus.bytes == sum(file.bytes for file in corpus.files)
    assert list(corpus.files) == sorted(corpus.files, key=lambda file: (file.source, file.file))


def test_where_a_file_is_downloaded(tmp_path: Path) -> None:
    file = the_file(tmp_path, path="runs/ft:x y#1.json")
    assert file.local == "one/a.json"
    below = f"someone/agent-runs/{COMMIT}/runs/ft%3Ax%20y%231.json"
    assert file.url() == f"https://raw.githubusercontent.com/{below}"
    assert file.url("https://git.example/raw/") == f"https://git.example/raw/{below}"
    assert file.origin == f"someone/agent-runs at {COMMIT}: runs/ft:x y#1.json"
    plain = the_file(tmp_path, repository="https://data.example/runs/", commit="", path="2026/a.json")
    assert plain.url("https://git.example") == "https://data.example/runs/2026/a.json"
    assert plain.origin == "https://data.example/runs/: 2026/a.json"


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("source", "", "source '' is not a plain folder name"),
        ("source", "..", "source '..' is not a plain folder name"),
        ("source", "a/b", "source 'a/b' is not a plain folder name"),
        ("file", "", "file '' must be a path below its source"),
        ("file", "/etc/passwd", "file '/etc/passwd' must be a path below its source"),
        ("file", "a/../../b", "file 'a/../../b' must be a path below its source"),
        ("file", "..\\b", "must be a path below its source"),
        ("file", ".partial/b", "without hidden parts"),
        ("file", "a\nb", "must be a path below its source"),
        ("path", "/runs/a.json", "path '/runs/a.json' must be a path below its repository"),
        ("path", "../other/a.json", "must be a path below its repository"),
        ("repository", "", "repository '' is neither owner/name nor a URL"),
        ("repository", "someone/..", "is neither owner/name nor a URL"),
        ("repository", "ftp://host/x", "is neither owner/name nor a URL"),
        ("repository", "https://user:secret@host/x", "nor a URL without user and query"),
        ("repository", "https://data.example/", f"commit '{COMMIT}' must be empty where the repository is a URL"),
        ("commit", "main", "commit 'main' is not a full commit"),
        ("commit", "", "commit '' is not a full commit"),
        ("sha256", "E3" * 32, "is not a hash of 64 hexadecimal digits"),
        ("sha256", "abc", "sha256 'abc' is not a hash"),
        ("bytes", "0", "bytes '0' is not a whole number above 0"),
        ("bytes", "1e3", "bytes '1e3' is not a whole number"),
        ("licence", "  ", "licence is empty: name the licence"),
        ("reader", "", "reader '' is not the name of a reader"),
        ("domain", "office", "domain 'office' is not one of code, office and data, security, web and service"),
    ],
)
def test_a_cell_that_is_wrong(tmp_path: Path, column: str, value: str, complaint: str) -> None:
    ((line, what),) = complaints(tmp_path, row("two/b.json", b"b"), row("one/a.json", DATA, **{column: value}))
    assert line >= 3
    assert complaint in what


def test_rows_that_clash(tmp_path: Path) -> None:
    rows = [row("one/a.json", DATA), row("one/A.json", b"other"), row("two/b.json", DATA)]
    assert complaints(tmp_path, *rows) == [
        (3, "one/A.json is in line 2 too"),
        (4, "two/b.json has the content of line 2: its runs would count twice"),
    ]


def test_a_table_of_another_shape(tmp_path: Path) -> None:
    path = write_table(tmp_path, [])
    assert read_table(path) == ((), ((1, "the table has no rows"),))
    good = path.read_text()
    path.write_text(good + "one,a.json\n")
    assert read_table(path) == ((), ((2, "2 cells instead of 11"),))
    path.write_text(good.replace("licence,", ""))
    assert "the columns must be source, file" in read_table(path)[1][0].what
    for unreadable in (b"\xff\xfe", good.encode() + b'one,"a\n'):
        path.write_bytes(unreadable)
        with pytest.raises(InputError, match="cannot be read"):
            read_table(path)


def test_corpora_of_the_working_directory_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path, [row("one/a.json", DATA)], "ours")
    mine = write_table(tmp_path, [row("one/a.json", DATA)], "public")
    assert corpus_folder("public") != mine.parent
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpora" / "no-table").mkdir()
    assert known_corpora() == ("ours", "public")
    assert load_corpus("public") == Corpus("public", mine.parent, (the_file(tmp_path),))


@pytest.mark.parametrize("name", ["nowhere", "../public", "", "/etc"])
def test_a_corpus_that_is_not_there(name: str) -> None:
    with pytest.raises(InputError, match="no corpus is called"):
        load_corpus(name)


def test_a_table_that_is_not_sound_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path, [row("one/a.json", DATA, licence=""), row("one/b.json", b"b", bytes="many")])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"files.csv:2: licence is empty(.|\n)*, and 1 more(.|\n)*corpus check small"):
        load_corpus("small")


def test_files_of_some_sources(tmp_path: Path) -> None:
    rows = [row("one/a.json", DATA), row("two/b.json", b"b"), row("three/c.json", b"c")]
    files, _ = read_table(write_table(tmp_path, rows))
    corpus = Corpus("small", tmp_path, files)
    assert corpus.of_sources(()) == files
    assert [file.local for file in corpus.of_sources(["three", "one"])] == ["one/a.json", "three/c.json"]
    with pytest.raises(InputError, match="corpus small has no source 'four'"):
        corpus.of_sources(["four"])
