"""Check the tables of a corpus against each other, and the fetched files against the tables.

    files.csv   every row by itself: `table.py`; and that a reader of the name it gives exists and knows the file
    runs.csv    chosen runs: of known sources and files, none twice, each task in one group
    tasks.csv   names of tasks: of known files, none twice, each task in one group and each group in one split

`runs.csv` and `tasks.csv` may be missing: then nothing is chosen, or tasks are called as their readers call them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from drsr.offline.ingest.corpus import choice, task_names
from drsr.offline.ingest.corpus.fetch import Presence, named, presence
from drsr.offline.ingest.corpus.table import TABLE, Corpus, CorpusFile, Problem, corpus_folder, read_table, table_rows
from drsr.offline.ingest.formats import READERS, gather, read, reader_named
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location

_NAMES = frozenset(reader.name for reader in READERS)


class CheckedTable(NamedTuple):
    """One table with what is wrong with it."""

    path: Path
    rows: int
    """Sound rows."""
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        problems = [problem._asdict() for problem in self.problems]
        return {"table": str(self.path), "rows": self.rows, "problems": problems}


class Misread(NamedTuple):
    """A file that the reader of its row does not know."""

    file: CorpusFile
    readers: tuple[str, ...]
    """Those that know it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check of the tables, and of the files below a folder if there is one."""

    files: CheckedTable
    others: tuple[CheckedTable, ...]
    """`runs.csv` and `tasks.csv`, where they are."""
    folder: Path | None
    here: int
    """Files with the bytes their rows ask for."""
    missing: tuple[CorpusFile, ...]
    altered: tuple[CorpusFile, ...]
    misread: tuple[Misread, ...]

    @property
    def passed(self) -> bool:
        sound = not any(table.problems for table in (self.files, *self.others))
        return sound and not (self.missing or self.altered or self.misread)

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            **self.files.to_json(),
            "other_tables": [table.to_json() for table in self.others],
            "folder": None if self.folder is None else str(self.folder),
            "here": self.here,
            "missing": [named(file) for file in self.missing],
            "altered": [named(file) for file in self.altered],
            "misread": [named(file) | {"reader": file.reader, "readers": known} for file, known in self.misread],
        }


def check_corpus(name: str, folder: Path | None, *, sources: Sequence[str] = ()) -> Checked:
    """Check every row of every table, and each file below `folder`: its hash, and its reader. Raises InputError."""
    path = corpus_folder(name) / TABLE
    rows, problems = read_table(path)
    corpus = Corpus(name, path.parent, rows)
    unknown = tuple(Problem(1, what) for what in _unknown_readers(rows))
    found: dict[Presence, list[CorpusFile]] = {"here": [], "missing": [], "altered": []}
    if folder is not None:
        for file in corpus.of_sources(sources):
            found[presence(file, folder)].append(file)
    return Checked(
        CheckedTable(path, len(rows), (*problems, *unknown)),
        tuple(_other_tables(corpus)),
        folder,
        len(found["here"]),
        tuple(found["missing"]),
        tuple(found["altered"]),
        () if folder is None else tuple(_misread(found["here"], folder)),
    )


def _unknown_readers(files: Sequence[CorpusFile]) -> Iterator[str]:
    for reader in sorted({file.reader for file in files} - _NAMES):
        first = next(file for file in files if file.reader == reader)
        yield f"no reader is called {reader!r}, which {first.local} names; one of {', '.join(sorted(_NAMES))}"


def _misread(files: Sequence[CorpusFile], folder: Path) -> Iterator[Misread]:
    by_name = {file.local: file for file in files if file.reader in _NAMES}
    for found in gather(open_location(str(folder))) if by_name else ():
        file = by_name.get(f"{found.source}/{found.path_in_source}")
        if file is None:
            continue
        items = read(found, reader=reader_named(file.reader))
        if all(not isinstance(item, Trajectory) and item.reason == "unknown_format" for item in items):
            known = {item.reader.partition("/")[0] for item in read(found) if isinstance(item, Trajectory)}
            yield Misread(file, tuple(sorted(known)))


def _other_tables(corpus: Corpus) -> Iterator[CheckedTable]:
    runs, tasks = corpus.folder / choice.CHOSEN, corpus.folder / task_names.TABLE
    groups: dict[str, str] = {}
    """Of every task, as the table of tasks gives it."""
    if tasks.is_file():
        rows, problems = table_rows(tasks, task_names.COLUMNS)
        found = tuple(_task_problems(rows, corpus, groups))
        yield CheckedTable(tasks, len(rows) - len({problem.line for problem in found}), problems + found)
    if runs.is_file():
        rows, problems = table_rows(runs, choice.RunFacts._fields)
        found = tuple(_run_problems(rows, corpus, groups))
        yield CheckedTable(runs, len(rows) - len({problem.line for problem in found}), problems + found)


def _task_problems(rows: list[tuple[int, list[str]]], corpus: Corpus, groups: dict[str, str]) -> Iterator[Problem]:
    first: dict[tuple[str, str], int] = {}
    splits: dict[str, str] = {}
    for line, row in rows:
        if len(row) != len(task_names.COLUMNS):
            yield Problem(line, f"{len(row)} cells instead of {len(task_names.COLUMNS)}")
            continue
        if complaint := task_names.complaint_about(row):
            yield Problem(line, complaint)
            continue
        source, read_as, task, group, split = row
        if source in corpus.sources:  # a table may also name the tasks of sources that are not fetched with it
            yield from (Problem(line, what) for what in _strange(corpus, source, read_as))
        if (before := first.setdefault((source, read_as), line)) != line:
            yield Problem(line, f"{read_as} of {source} is in line {before} too")
        if (other := groups.setdefault(task, group)) != group:
            yield Problem(line, f"task {task} is in group {group} here and in {other} above")
        if (place := splits.setdefault(group, split)) != split:
            yield Problem(line, f"group {group} is placed in {split or 'no split'} here and in {place or 'none'} above")


def _run_problems(rows: list[tuple[int, list[str]]], corpus: Corpus, groups: dict[str, str]) -> Iterator[Problem]:
    first: dict[tuple[str, str], int] = {}
    for line, row in rows:
        if len(row) != len(choice.RunFacts._fields):
            yield Problem(line, f"{len(row)} cells instead of {len(choice.RunFacts._fields)}")
            continue
        try:
            run = choice.run_facts(row)
        except ValueError:
            yield Problem(line, "tool_steps and characters must be whole numbers")
            continue
        yield from (Problem(line, what) for what in _strange(corpus, run.source, run.external_id))
        yield from (Problem(line, what) for what in _unlike_its_file(corpus, run))
        if (before := first.setdefault((run.source, run.external_id), line)) != line:
            yield Problem(line, f"{run.external_id} of {run.source} is in line {before} too")
        if (other := groups.setdefault(run.task, run.group)) != run.group:
            yield Problem(line, f"task {run.task} is in group {run.group} here and in {other} elsewhere")


def _strange(corpus: Corpus, source: str, name: str) -> Iterator[str]:
    """Return the faults of a run or task as its source names it: a run's name may begin with that of its file."""
    if source not in corpus.sources:
        yield f"{TABLE} has no source {source!r}"
    elif "#" in name and _file_of(corpus, source, name) is None:
        yield f"{TABLE} has no file {name.partition('#')[0]!r} of {source}"


def _unlike_its_file(corpus: Corpus, run: choice.RunFacts) -> Iterator[str]:
    file = _file_of(corpus, run.source, run.external_id)
    files = [file] if file else [file for file in corpus.files if file.source == run.source]
    for what in ("agent", "domain"):
        said = {getattr(file, what) for file in files}
        if said and getattr(run, what) not in said:
            yield f"{what} is {getattr(run, what)!r} here and {' or '.join(map(repr, sorted(said)))} in {TABLE}"


def _file_of(corpus: Corpus, source: str, name: str) -> CorpusFile | None:
    """Return the file that a run's name begins with; None if the run has its own name."""
    parts = name.split("#")
    names = {"#".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return next((file for file in corpus.files if file.source == source and file.file in names), None)
