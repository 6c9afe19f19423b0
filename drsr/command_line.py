"""Commands as argparse knows them: each has a help, a function that runs it, and `--json`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from drsr.errors import SettingsError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Parser(argparse.ArgumentParser):
    """A parser that takes `-3,1,2,4` and `-3%` for values, as argparse takes -3: whoever reads them says what is wrong.

    argparse itself would miss a value. The parsers of commands are of the same class.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._negative_number_matcher = re.compile(r"-\.?\d")


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str | None = None,
    examples: str | None = None,
    json: str = "print JSON",
) -> argparse.ArgumentParser:
    """Add a command, or an action of one, that `run` carries out; returns its parser, for more options."""
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help=json)
    parser.set_defaults(run=run)
    return parser


def require_positive(options: argparse.Namespace, *names: str) -> None:
    """Raise SettingsError for the first of these options that is below 1. An option may be absent."""
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name.replace('_', '-')} must be at least 1, not {value}")


def states_or_all(least: int) -> Callable[[str], int | None]:
    """Parse an option that takes a number of states, or `all`, which gives None."""

    def parse(text: str) -> int | None:
        if text == "all":
            return None
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is neither a number of states nor all")
        return int(text)

    return parse
