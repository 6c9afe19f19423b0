"""The `drsr` command. Offline sub-commands join through the entry-point group `drsr.commands`.

Exit codes: 0 done, 1 a check failed, 2 bad usage or input, 3 a fault of DRSR's own, or a database or
storage that does not answer at the moment: try again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from drsr import __version__
from drsr.command_line import Commands, Parser, add_command
from drsr.errors import DrsrError, InputError, MissingExtra
from drsr.tables import printable

_EXTRA_OF = {
    "torch": "backbone",
    "transformers": "backbone",
    "tokenizers": "backbone",
    "gguf": "backbone",
    "sqlalchemy": "offline",
    "alembic": "offline",
    "psycopg": "offline",
    "fsspec": "offline",
    "aiohttp": "offline",
    "orjson": "offline",
    "zstandard": "offline",
    "rich": "offline",
    "yaml": "offline",
    "pyarrow": "offline",
    "scipy": "offline",
    "sklearn": "offline",
    "datasketch": "offline",
    "matplotlib": "offline",
    "s3fs": "offline",
    "gcsfs": "offline",
    "huggingface_hub": "backbone",
    "starlette": "proxy",
    "prometheus_client": "proxy",
    "httpx": "proxy",
    "uvicorn": "proxy",
}
"""The extra that brings each third-party package, for the hint when it is missing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, call, print; returns the exit code."""
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets its code instead of a crash
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = options.run(options)
        return code
    except DrsrError as error:
        return _fail(error, exit_code(error), options.debug)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA_OF:
            raise
        return _fail(MissingExtra(package, _EXTRA_OF[package], needed_for=f"drsr {options.command}"), 2, options.debug)
    except KeyboardInterrupt:
        print("drsr: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            raise
        print(f"drsr: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  hint: this is a fault of drsr; run again with --debug and report the traceback", file=sys.stderr)
        return 3


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, the offline ones included; nothing heavy is imported for it."""
    from drsr.commands import doctor, policy, prune, receipts, wrap
    from drsr.commands.backbone import add_commands as add_backbone_commands
    from drsr.commands.overview import overview
    from drsr.proxy.cli import add_commands as add_proxy_commands

    parser: argparse.ArgumentParser = Parser(
        prog="drsr", description="Frozen pruning policies for language-model agents."
    )
    parser.add_argument("--version", action="version", version=f"drsr {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_inspect(commands)
    prune.add_commands(commands)
    receipts.add_commands(commands)
    policy.add_commands(commands)
    doctor.add_commands(commands)
    add_backbone_commands(commands)
    add_proxy_commands(commands)
    wrap.add_commands(commands)
    for entry in sorted(entry_points(group="drsr.commands"), key=lambda entry: entry.name):
        entry.load()(commands)
    _accept_debug_behind(commands)

    def show_overview(_: argparse.Namespace) -> int:
        print(overview(commands))
        return 0

    parser.set_defaults(run=show_overview)
    return parser


def _accept_debug_behind(commands: Commands) -> None:
    """`drsr COMMAND --debug` means the same as `drsr --debug COMMAND`: people add it to the line that just failed."""
    for command in commands.choices.values():
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                _accept_debug_behind(action)


def read_document(path: str) -> tuple[bytes, str]:
    """Return a file's bytes (standard input for `-`) and the name to show in complaints."""
    if path == "-":
        if sys.stdin is None:
            raise InputError("there is no standard input")
        return sys.stdin.buffer.read(), "standard input"
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from None


def _add_inspect(commands: Commands) -> None:
    parser = add_command(
        commands,
        "inspect",
        _inspect,
        help="show what DRSR sees in a request: Steps, Blocks, candidates, deletion sets",
        description="Shows prefix, Steps, Blocks with their tokens, Recent2, candidates and every deletion set with "
        "its saving, or why the request is not eligible. Example: drsr inspect request.json --json",
    )
    parser.add_argument("request", metavar="REQUEST.json", help="a request body or a list of messages; - reads stdin")
    parser.add_argument("--format", choices=("auto", "openai", "anthropic"), default="auto", help="wire form")
    parser.add_argument("--backbone", help="whose tokens are counted (default: DRSR_BACKBONE, drsr.toml, smollm2-135m)")


def _inspect(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.decide.inspection import inspect
    from drsr.request.json_values import parse_json
    from drsr.request.request import read_request
    from drsr.request.view import caps_for
    from drsr.settings import load_settings

    data, where = read_document(options.request)
    protocol = None if options.format == "auto" else options.format
    request = read_request(parse_json(data, where), protocol=protocol, where=where)
    tokenizer, window = load_tokenizer(options.backbone or load_settings().backbone)
    inspection = inspect(request, tokenizer, caps_for(window).context)
    print(json.dumps(inspection.to_json(), indent=2) if options.json else inspection.to_text())
    return 0


def exit_code(error: DrsrError) -> int:
    """Return 3 where the same may well succeed in a moment, else 2."""
    return 3 if getattr(error, "passing", False) else 2


def _fail(error: DrsrError, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print("drsr:", printable(str(error), keep="\n"), file=sys.stderr)
    if code == 3:
        print("  try again in a moment: nothing is wrong with what was asked", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
