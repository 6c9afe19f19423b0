"""`drsr ingest URI`: read recorded trajectories from anywhere into the catalog."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command
from drsr.offline.ingest.format_names import FORMATS, package_of, plug_in_entries

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.ingest.stage import Admit, ReaderOf


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "ingest",
        run,
        help="read recorded trajectories into the catalog",
        description="Reads a file, a folder, a glob, an archive or a bucket (any fsspec URI). The format of every file "
        "is detected by content; what cannot be read is quarantined with a reason. What did not change is not read "
        "again. Without a URI the bundled sample corpus is read, if the catalog holds nothing else. Example: drsr "
        "ingest s3://runs/2026-11/",
    )
    parser.add_argument("uri", nargs="?", metavar="URI", help="default: the bundled sample corpus")
    parser.add_argument("--source", help="name of the origin (default: the first folder below the URI)")
    named = f"read everything as this format instead of detecting it: {', '.join(FORMATS)}"
    brought = "; ".join(f"{entry.name} (of the package {package_of(entry)})" for entry in plug_in_entries())
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--format", help=(f"{named}; and {brought}" if brought else named).replace("%", "%%"))
    how.add_argument(
        "--mapping",
        metavar="FILE",
        help="read JSON of your own, one run per object: this TOML file says where its messages, task, id and reward "
        "are (docs/guides/formats.md)",
    )
    parser.add_argument(
        "--day",
        type=_day,
        metavar="YYYY-MM-DD",
        help="the location holds this day's runs: a file of the same name on another day is a different file",
    )
    parser.add_argument(
        "--corpus",
        metavar="NAME",
        help="read the chosen runs of a fetched corpus, each file verified, under its names for tasks and groups; "
        "URI is a folder, by default the one that drsr corpus fetch NAME fills",
    )
    parser.add_argument(
        "--tasks",
        metavar="NAME",
        help="name tasks and groups by the table corpora/NAME/tasks.csv (docs/guides/name-your-tasks.md)",
    )
    parser.add_argument(
        "--redact",
        metavar="FILE",
        help="replace e-mail addresses, keys, card numbers and patterns of your own by placeholders before anything is "
        "stored, as this TOML file says (docs/guides/nightly.md)",
    )
    parser.add_argument(
        "--show",
        type=_how_many,
        metavar="N",
        help="show what was understood of the first N runs of every format: task, request, first call with its result, "
        "last message (default: the first call and result of one run; 0: nothing)",
    )


def _day(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-11-17") from None


def _how_many(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs such as 3")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from drsr.offline import samples
    from drsr.offline.ingest.corpus.fetch import default_folder, require_whole
    from drsr.offline.ingest.corpus.table import load_corpus
    from drsr.offline.ingest.feeds.limits import load_limits, load_redactions, load_words, unread_sections, warning_of
    from drsr.offline.ingest.feeds.redaction import load_redaction
    from drsr.offline.ingest.stage import ingest
    from drsr.offline.ingest.understood import Samples
    from drsr.offline.store.place import opened
    from drsr.offline.store.progress import progress

    uri, source = options.uri, options.source
    admission, reader = _admission(options), _reader(options)
    if options.corpus is not None:
        folder = Path(uri) if uri else default_folder(options.corpus)
        require_whole(load_corpus(options.corpus), folder)
        uri = str(folder)
    elif uri is None:
        uri, source = str(samples.CORPUS), source or "sandbox"
    redaction = load_redactions() if options.redact is None else load_redaction(options.redact)
    samples_of = Samples(1 if options.show is None else options.show)
    with opened(create=True) as place, progress("ingest", "files") as report:
        if options.uri is None and options.corpus is None:
            _require_no_other_source(place.catalog, source or "")
        summary = ingest(
            place.catalog,
            place.artifacts,
            uri,
            source=source,
            reader=reader,
            day=options.day,
            admit=admission and admission[0],
            admitted_by=admission[1] if admission else "",
            look=samples_of,
            redact=redaction,
            words_of=load_words(),
            progress=lambda so_far: report(so_far.files, None),
        )
        with place.catalog.reading() as connection:
            unread = unread_sections(connection, load_limits())
    if unread:
        print(f"drsr: {warning_of(unread)}", file=sys.stderr)
    if options.json:
        shown = {} if options.show is None else {"understood": [sample._asdict() for sample in samples_of.taken]}
        print(json.dumps(summary.to_json() | shown))
        return 1 if summary.nothing_readable else 0
    if summary.files == summary.unchanged_files:
        print(f"nothing new: all {summary.files:,} files are as they were")
        return 0
    files = "1 file" if summary.files == 1 else f"{summary.files:,} files"
    runs = "1 run" if summary.added == 1 else f"{summary.added:,} runs"
    print(
        f"{files}, {summary.unchanged_files:,} of them unchanged: {runs} added, "
        f"{summary.superseded:,} superseded, {summary.unchanged:,} as recorded ({summary.seconds:.1f} s)"
    )
    for sample in samples_of.taken:
        print("\n".join(sample.lines()) if options.show is not None else f"  read as {sample.brief()}")
    if summary.without_task:
        runs = "1 run" if summary.without_task == 1 else f"{summary.without_task:,} runs"
        known = f" ({summary.only_session:,} with only a session's id)" if summary.only_session else ""
        print(f"  {runs} without a task{known}: each is a separate group (docs/guides/name-your-tasks.md)")
    if summary.hidden:
        print(f"  skipped: {summary.hidden:,} hidden (their names begin with a dot)")
    for rule, count in sorted(summary.redacted.items()):
        print(f"  redacted: {count:,} {rule}")
    for reason, count in sorted(summary.quarantined.items()):
        print(f"  quarantined: {count:,} {reason}")
    if summary.quarantined:
        print("  drsr status --quarantined shows each with what to do")
    return 1 if summary.nothing_readable else 0


def _require_no_other_source(catalog: Catalog, source: str) -> None:
    """Refuse to read the bundled samples into a catalog of other runs: a policy of theirs would rest on both."""
    from sqlalchemy import select

    from drsr.errors import InputError
    from drsr.offline.catalog.tables import Source

    with catalog.reading() as connection:
        others = connection.execute(select(Source.name).where(Source.name != source).limit(1)).scalars().all()
    if others:
        raise InputError(
            f"no place to read recorded runs from is named, and the catalog holds other runs ({others[0]})",
            hint="drsr ingest URI; the bundled samples are read by default only where nothing else is",
        )


def _reader(options: argparse.Namespace) -> str | ReaderOf:
    """Return the reader that the options name, or else that of each source in `feeds.toml`."""
    from drsr.offline.ingest.feeds.limits import load_mappings
    from drsr.offline.ingest.formats.mapping import load_mapping

    if options.mapping is not None:
        mapping = load_mapping(options.mapping)
        return lambda source: mapping
    return options.format or load_mappings()


def _admission(options: argparse.Namespace) -> tuple[Admit, str] | None:
    """Return who decides which runs are taken under which names, and a stamp of the tables behind it."""
    from drsr.errors import SettingsError
    from drsr.offline.catalog.logical_content import content_key
    from drsr.offline.ingest.corpus.choice import load_chosen
    from drsr.offline.ingest.corpus.table import load_corpus
    from drsr.offline.ingest.corpus.task_names import load_task_names, task_names_of
    from drsr.offline.ingest.stage import admit_chosen, admit_named

    if options.corpus is None and options.tasks is None:
        return None
    if options.corpus is not None and (options.tasks or options.source):
        raise SettingsError("--corpus names tasks and sources itself", hint="leave --tasks and --source out")
    if options.corpus is None:
        names = load_task_names(options.tasks)
        return admit_named(names), content_key({"tasks": names.stamp})[:8]
    corpus = load_corpus(options.corpus)
    names, chosen = task_names_of(corpus), load_chosen(corpus)
    stamp = content_key({"tasks": names.stamp, "runs": sorted(map(list, chosen.values()))})[:8]
    return admit_chosen(names, chosen), stamp
