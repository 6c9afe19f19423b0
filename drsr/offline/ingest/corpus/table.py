"""A corpus: a table of public files with repository, commit, hash and licence, instead of a folder of runs.

`corpora/NAME/files.csv` has one row per file. The runs themselves are never part of this project: `drsr corpus fetch`
takes them from where they were published.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from drsr.errors import InputError

CORPORA = "corpora"
TABLE = "files.csv"
COLUMNS = ("source", "file", "repository", "commit", "path", "sha256", "bytes", "licence", "reader", "domain", "agent")
DOMAINS = ("code", "office and data", "security", "web and service")
GITHUB = "https://raw.githubusercontent.com"
"""Serves any file of a public repository at OWNER/NAME/COMMIT/PATH."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+")
_PREFIX = re.compile(r"https?://[^/?#@\s]+(/[^?#@\s]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BYTES = re.compile(r"[1-9][0-9]{0,14}")
_READER = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One row: a file, where it was published, and what its bytes must be."""

    source: str
    """Name of the catalog source its runs belong to, and of the folder it is put into."""
    file: str
    """Path below that folder, with `/`."""
    repository: str
    """`owner/name` on GitHub, or the beginning of a URL that `path` is added to."""
    commit: str
    """The full commit; empty where `repository` is a URL."""
    path: str
    """Path in the repository."""
    sha256: str
    bytes: int
    licence: str
    reader: str
    """Name of the reader of `drsr ingest` that its format needs."""
    domain: str
    """One of DOMAINS."""
    agent: str
    """Framework and model that made its runs; of one task at most one run by each agent is chosen."""

    @property
    def local(self) -> str:
        """Its path below the folder a corpus is fetched to."""
        return f"{self.source}/{self.file}"

    @property
    def origin(self) -> str:
        """Return the place where it was published, for people."""
        return f"{self.repository} at {self.commit}: {self.path}" if self.commit else f"{self.repository}: {self.path}"

    def url(self, github: str = GITHUB) -> str:
        """Return where to download it; `github` serves the files of repositories."""
        below = f"{github.rstrip('/')}/{self.repository}/{self.commit}" if self.commit else self.repository.rstrip("/")
        return f"{below}/{quote(self.path)}"


@dataclass(frozen=True, slots=True)
class Corpus:
    """A sound table, in the order of its rows."""

    name: str
    folder: Path
    """Holds the table, and everything else that belongs to the corpus."""
    files: tuple[CorpusFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def sources(self) -> dict[str, int]:
        """Number of files of each source."""
        return dict(sorted(Counter(file.source for file in self.files).items()))

    @property
    def licences(self) -> dict[str, int]:
        """Number of files under each licence."""
        return dict(sorted(Counter(file.licence for file in self.files).items()))

    @property
    def domains(self) -> dict[str, int]:
        """Number of files of each domain."""
        return dict(sorted(Counter(file.domain for file in self.files).items()))

    def of_sources(self, names: Sequence[str]) -> tuple[CorpusFile, ...]:
        """Return the files of these sources, or of all if no source is named. Raise InputError."""
        unknown = [name for name in names if name not in self.sources]
        if unknown:
            raise InputError(
                f"corpus {self.name} has no source {unknown[0]!r}", hint=f"one of {', '.join(self.sources)}"
            )
        return tuple(file for file in self.files if not names or file.source in names)


class Problem(NamedTuple):
    """Something wrong with a table, in one of its lines."""

    line: int
    what: str


def known_corpora() -> tuple[str, ...]:
    """Return the names of all corpora: those of the working directory, and those that came with this code."""
    folders = (folder for place in places() if place.is_dir() for folder in place.iterdir())
    return tuple(sorted({folder.name for folder in folders if (folder / TABLE).is_file()}))


def corpus_folder(name: str) -> Path:
    """Return the folder of the corpus of that name; the working directory is looked at first. Raises InputError."""
    if _NAME.fullmatch(name):
        for place in places():
            if (place / name / TABLE).is_file():
                return place / name
    known = ", ".join(known_corpora()) or "none is installed"
    raise InputError(f"no corpus is called {name!r}", hint=f"known: {known}; a new one is {CORPORA}/NAME/{TABLE}")


def load_corpus(name: str) -> Corpus:
    """Return the corpus of that name. Raises InputError where there is none, or where its table is not sound."""
    folder = corpus_folder(name)
    files, problems = read_table(folder / TABLE)
    if problems:
        first, more = problems[0], f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        where, hint = f"{folder / TABLE}:{first.line}", f"drsr corpus check {name} lists every problem"
        raise InputError(first.what + more, where=where, hint=hint)
    return Corpus(name, folder, files)


def licences_of_sources() -> dict[str, str]:
    """Return the licence of every source that a sound corpus has files of; several are joined."""
    found: dict[str, set[str]] = {}
    for name in known_corpora():
        for file in read_table(corpus_folder(name) / TABLE)[0]:
            found.setdefault(file.source, set()).add(file.licence)
    return {source: " and ".join(sorted(licences)) for source, licences in found.items()}


def read_table(path: Path) -> tuple[tuple[CorpusFile, ...], tuple[Problem, ...]]:
    """Return the sound rows of a table, and the faults of the others. Raise InputError if it is not CSV."""
    rows, problems = table_rows(path, COLUMNS)
    return ((), problems) if problems else _judged(rows)


def table_rows(path: Path, columns: Sequence[str]) -> tuple[list[tuple[int, list[str]]], tuple[Problem, ...]]:
    """Return the rows of a table with their lines, or what is wrong with its columns. Raises InputError: no CSV."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            if tuple(next(reader, [])) != tuple(columns):
                return [], (Problem(1, f"the columns must be {', '.join(columns)}"),)
            return [(reader.line_num, row) for row in reader], ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None


def sound_rows(path: Path, columns: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the rows of a table, each with its place. Raises InputError where columns or cells are wrong."""
    rows, problems = table_rows(path, columns)
    problems = problems or tuple(Problem(line, _cells(row, columns)) for line, row in rows if len(row) != len(columns))
    if problems:
        raise InputError(problems[0].what, where=f"{path}:{problems[0].line}")
    return [(f"{path}:{line}", row) for line, row in rows]


def places() -> tuple[Path, ...]:
    """Return the folders that may hold corpora: here, installed, in the source tree."""
    offline = Path(__file__).resolve().parents[2]
    return Path.cwd() / CORPORA, offline / CORPORA, offline.parents[1] / CORPORA


def _cells(row: list[str], columns: Sequence[str]) -> str:
    return f"{len(row)} cells instead of {len(columns)}"


def _judged(rows: list[tuple[int, list[str]]]) -> tuple[tuple[CorpusFile, ...], tuple[Problem, ...]]:
    files: list[CorpusFile] = []
    problems = [] if rows else [Problem(1, "the table has no rows")]
    names: dict[str, int] = {}
    contents: dict[str, int] = {}
    for line, row in rows:
        found = [_cells(row, COLUMNS)] if len(row) != len(COLUMNS) else list(_complaints(row))
        if not found:
            file = _file(row)
            # Case is ignored, as some file systems do: one of the two would overwrite the other.
            same_name = names.setdefault(file.local.casefold(), line)
            same_content = contents.setdefault(file.sha256, line)
            if same_name != line:
                found.append(f"{file.local} is in line {same_name} too")
            elif same_content != line:
                found.append(f"{file.local} has the content of line {same_content}: its runs would count twice")
            else:
                files.append(file)
        problems.extend(Problem(line, what) for what in found)
    return tuple(files), tuple(problems)


def _file(row: list[str]) -> CorpusFile:
    source, file, repository, commit, path, sha256, size, licence, reader, domain, agent = row
    return CorpusFile(source, file, repository, commit, path, sha256, int(size), licence, reader, domain, agent)


def _complaints(row: list[str]) -> Iterator[str]:
    source, file, repository, commit, path, sha256, size, licence, reader, domain, agent = row
    if not _NAME.fullmatch(source):
        yield f"source {source!r} is not a plain folder name"
    if any(part[:1] in ("", ".") for part in file.split("/")) or not _plain(file):
        yield f"file {file!r} must be a path below its source, without hidden parts"
    if any(part in ("", ".", "..") for part in path.split("/")) or not _plain(path):
        yield f"path {path!r} must be a path below its repository"
    if _PREFIX.fullmatch(repository):
        if commit:
            yield f"commit {commit!r} must be empty where the repository is a URL"
    elif not _REPOSITORY.fullmatch(repository):
        yield f"repository {repository!r} is neither owner/name nor a URL without user and query"
    elif not _COMMIT.fullmatch(commit):
        yield f"commit {commit!r} is not a full commit of 40 hexadecimal digits"
    if not _SHA256.fullmatch(sha256):
        yield f"sha256 {sha256!r} is not a hash of 64 hexadecimal digits"
    if not _BYTES.fullmatch(size):
        yield f"bytes {size!r} is not a whole number above 0"
    if not licence.strip():
        yield "licence is empty: name the licence that the repository gives, or leave the file out"
    if not _READER.fullmatch(reader):
        yield f"reader {reader!r} is not the name of a reader"
    if domain not in DOMAINS:
        yield f"domain {domain!r} is not one of {', '.join(DOMAINS)}"
    if not agent.strip():
        yield "agent is empty: name the framework and the model that made the runs"


def _plain(path: str) -> bool:
    return path.isprintable() and "\\" not in path
