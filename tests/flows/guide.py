"""The commands of docs/guides/nightly.md, section by section, with what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "nightly.md").read_text()


class Command(NamedTuple):
    words: tuple[str, ...]
    shown: str
    """What it prints; `...` stands for anything."""


def commands(section: str) -> list[Command]:
    """Every `$` line of a section's console blocks, in order."""
    text = re.split(r"^## ", GUIDE, flags=re.MULTILINE)
    (mine,) = [part for part in text if part.startswith(f"{section}\n")]
    blocks = "".join(re.findall(r"```console\n(.*?)```", mine, re.DOTALL))
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", blocks, re.MULTILINE)
    return [Command(tuple(shlex.split(words)), shown) for words, shown in found]


def server_settings() -> dict[str, str]:
    """The settings of Prefect's server that the guide names with their values."""
    return dict(re.findall(r"`(PREFECT_SERVER_[A-Z_]+)=([\w.]+)`", GUIDE))


def prints(shown: str, said: str) -> bool:
    """Whether a command said what the guide shows."""
    pattern = "".join(re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n" for line in shown.splitlines())
    return re.fullmatch(pattern, said) is not None
