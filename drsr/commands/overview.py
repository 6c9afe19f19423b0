"""`drsr` alone: a short help that lists the commands that use policies first, and those that make them only if
installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from drsr.command_line import Commands

USING = {
    "Save with a policy": ("wrap", "serve", "prune", "policy", "doctor"),
    "See what it decided": ("receipts", "explain", "diff", "restore", "inspect"),
    "What it reads with": ("backbone",),
}
"""The commands for running an agent. Those that are not registered are not shown."""
MAKING_NEEDS = "sqlalchemy"
"""Package without which the other commands cannot work: the extra `offline` brings it."""


def overview(commands: Commands) -> str:
    """Return the help of `drsr` without a command."""
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    lines = ["drsr: frozen pruning policies for language-model agents", ""]
    for title, names in USING.items():
        known = [name for name in names if name in helps]
        lines += [title, *(f"  drsr {name:<9} {helps[name]}" for name in known), ""] if known else []
    others = [name for name in helps if not any(name in names for names in USING.values())]
    if others and find_spec(MAKING_NEEDS) is not None:
        lines += ["Make a policy from recorded runs", *_wrapped(others), ""]
    return "\n".join([*lines, "drsr COMMAND --help says more; drsr --help lists every command."])


def _wrapped(names: Iterable[str], width: int = 76) -> list[str]:
    lines = [" "]
    for name in names:
        if len(lines[-1]) + len(name) + 1 > width:
            lines.append(" ")
        lines[-1] += f" {name}"
    return lines
