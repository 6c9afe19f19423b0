"""`drsr corpus list | fetch NAME | check NAME`: public runs that anyone can fetch, as tables of files."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.offline.ingest.corpus.fetch import Fetched
    from drsr.offline.ingest.corpus.origins import Origin
    from drsr.offline.ingest.corpus.table import Corpus, CorpusFile

_SHOWN = 20
"""Files that are named one by one on a terminal; `--json` names them all."""


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "corpus",
        help="fetch public corpora of recorded runs",
        description="A corpus is a table of public files, corpora/NAME/files.csv, with repository, commit, hash and "
        "licence of each. Its runs are fetched from where they were published. Example: drsr corpus fetch public",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "list", run_list, help="show the corpora: files, licences, domains, and what is fetched")
    fetch = add_command(
        actions,
        "fetch",
        run_fetch,
        help="download the files of a corpus, each verified by its hash",
        description="Files that are already present are kept, so an interrupted fetch goes on where it stopped. A file "
        "that is missing or altered is named and refused, and the others are fetched; the exit code is then 1.",
    )
    fetch.add_argument("--mirror", type=Path, metavar="FOLDER", help="take the files from this folder, not the network")
    fetch.add_argument("--host", metavar="URL", help="where OWNER/NAME/COMMIT/PATH is served (default: github.com)")
    check = add_command(
        actions,
        "check",
        run_check,
        help="check a corpus's tables, and the hash and reader of every file that was fetched",
        description="Exit code 1 if a table is not sound (say, a licence is missing or a task is in two groups), or if "
        "a file is missing, altered, or not in the format that its row names.",
    )
    choose = add_command(
        actions,
        "choose",
        run_choose,
        help="choose runs of a fetched corpus by its rule, and write them to its runs.csv",
        description="The rule looks at sizes, tasks and agents, never at an outcome. Run it after adding files to a "
        "corpus. With --check the exit code is 1 if runs.csv names other runs than the rule chooses.",
    )
    choose.add_argument("--check", action="store_true", help="compare with runs.csv and write nothing")
    for action in (fetch, check, choose):
        action.add_argument("name", metavar="NAME", help="drsr corpus list shows the names")
        action.add_argument("--to", type=Path, metavar="FOLDER", help="where the files are (default: var/corpora/NAME)")
    for action in (fetch, check):
        action.add_argument("--source", nargs="+", default=(), metavar="S", help="only these sources (default: all)")


def run_list(options: argparse.Namespace) -> int:
    from drsr.errors import InputError
    from drsr.offline.ingest.corpus.table import known_corpora, load_corpus

    corpora, unsound = [], []
    for name in known_corpora():
        try:
            corpora.append(load_corpus(name))
        except InputError as error:  # the others are listed all the same
            unsound.append(error)
    if options.json:
        print(json.dumps([_described(corpus) for corpus in corpora]))
    else:
        for corpus in corpora:
            _show(corpus)
    if unsound:
        raise unsound[0]
    return 0


def _described(corpus: Corpus) -> dict[str, Any]:
    from drsr.offline.ingest.corpus.fetch import default_folder

    folder = default_folder(corpus.name)
    return {
        "corpus": corpus.name,
        "files": len(corpus.files),
        "bytes": corpus.bytes,
        "sources": corpus.sources,
        "licences": corpus.licences,
        "domains": corpus.domains,
        "folder": str(folder),
        "here": sum(_there(file, folder) for file in corpus.files),
    }


def _there(file: CorpusFile, folder: Path) -> bool:
    """A glance at its size; `check` reads it."""
    path = folder / file.local
    return path.is_file() and os.stat(path).st_size == file.bytes


def _show(corpus: Corpus) -> None:
    from drsr.tables import table

    found = _described(corpus)
    here = f"{found['here']:,} of {found['files']:,} files are in {found['folder']}"
    print(f"{corpus.name}: {found['files']:,} files, {_megabytes(corpus.bytes)}; {here}")
    rows = []
    for source, count in corpus.sources.items():
        files = corpus.of_sources([source])
        licences, domains = _names(file.licence for file in files), _names(file.domain for file in files)
        rows.append((source, count, sum(file.bytes for file in files), licences, domains))
    print(table(("source", "files", "bytes", "licence", "domain"), rows))


def run_fetch(options: argparse.Namespace) -> int:
    from drsr.errors import InputError
    from drsr.offline.ingest.corpus.fetch import default_folder, fetch_corpus
    from drsr.offline.ingest.corpus.table import load_corpus
    from drsr.offline.store.progress import progress

    if options.mirror and options.host:
        raise InputError("--mirror and --host exclude each other", hint="a mirror is a folder, and asks no host")
    corpus = load_corpus(options.name)
    folder = options.to or default_folder(corpus.name)
    origin = _origin(options)
    with progress(f"fetch {corpus.name}", "files") as report:
        done = fetch_corpus(
            corpus,
            folder,
            origin,
            sources=options.source,
            progress=lambda files, total, size: report(files, total, _megabytes(size)),
        )
    if options.json:
        print(json.dumps(done.to_json()))
    else:
        _tell(done)
    return 1 if done.refused else 0


def _origin(options: argparse.Namespace) -> Origin:
    from drsr.offline.ingest.corpus.origins import Mirror

    if options.mirror:
        return Mirror(options.mirror)
    from drsr.offline.ingest.corpus.download import (
        Published,  # which a mirror does without: it needs the network's packages
    )

    return Published(options.host) if options.host else Published()


def _tell(done: Fetched) -> None:
    print(f"{done.folder}: {done.fetched:,} files fetched ({_megabytes(done.bytes)}), {done.kept:,} were there already")
    _name_each(
        [f"{found.reason}: {found.file.local}, from {found.file.origin}: {found.detail}" for found in done.refused]
    )
    if done.refused:
        print(f"{len(done.refused):,} of {done.files:,} files refused: nothing of them is in the folder")


def run_check(options: argparse.Namespace) -> int:
    from drsr.errors import NothingThere
    from drsr.offline.ingest.corpus.check import check_corpus
    from drsr.offline.ingest.corpus.fetch import default_folder

    folder = options.to or default_folder(options.name)
    fetched = folder.is_dir()
    if options.to and not fetched:
        raise NothingThere("there is no such folder", where=str(folder), hint=f"drsr corpus fetch {options.name}")
    found = check_corpus(options.name, folder if fetched else None, sources=options.source)
    if options.json:
        print(json.dumps(found.to_json()))
        return 0 if found.passed else 1
    for table, rows in ((found.files, "files"), *((table, "rows") for table in found.others)):
        print(f"{table.path}: {'NOT SOUND' if table.problems else 'sound'}, {table.rows:,} {rows}")
        _name_each([f"line {problem.line}: {problem.what}" for problem in table.problems])
    if not fetched:
        print(f"{folder}: nothing fetched yet (drsr corpus fetch {options.name})")
    else:
        wrong = [("missing", file) for file in found.missing] + [("altered", file) for file in found.altered]
        print(f"{folder}: {found.here:,} of {found.here + len(wrong):,} files as the table says")
        _name_each([f"{state}: {file.local}, from {file.origin}" for state, file in wrong])
        _name_each([_misread(*misread) for misread in found.misread])
    return 0 if found.passed else 1


def _misread(file: CorpusFile, readers: Sequence[str]) -> str:
    return f"reader: {file.local} is not {file.reader}, as its row says, but {' and '.join(readers) or 'unknown'}"


def _name_each(lines: Sequence[str]) -> None:
    from drsr.tables import printable

    for line in lines[:_SHOWN]:
        print(f"  {printable(line)}")
    if len(lines) > _SHOWN:
        print(f"  and {len(lines) - _SHOWN:,} more: --json names them all")


def _names(values: Any) -> str:
    return ", ".join(sorted(set(values)))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def run_choose(options: argparse.Namespace) -> int:
    from drsr.offline.ingest.corpus.choice import CHOSEN, candidates, choose, load_chosen, write_chosen
    from drsr.offline.ingest.corpus.fetch import default_folder, require_whole
    from drsr.offline.ingest.corpus.table import load_corpus
    from drsr.offline.ingest.corpus.task_names import task_names_of

    corpus = load_corpus(options.name)
    folder = options.to or default_folder(options.name)
    require_whole(corpus, folder)
    chosen = choose(candidates(corpus, task_names_of(corpus), folder))
    same = options.check and list(load_chosen(corpus).values()) == chosen
    if not options.check:
        write_chosen(corpus.folder / CHOSEN, chosen)
    tasks, domains = len({run.task for run in chosen}), sorted({run.domain for run in chosen})
    if options.json:
        print(json.dumps({"runs": len(chosen), "tasks": tasks, "domains": domains, "same": same}))
    else:
        compared = "" if not options.check else ": as in runs.csv" if same else ": runs.csv has others"
        print(f"{len(chosen):,} runs of {tasks:,} tasks in {len(domains)} domains{compared}")
    return 0 if same or not options.check else 1
