"""The shell tool: pipelines of a few well-known programs, run for real, whose output is the same on every machine.

No shell is involved: a command line is split into argument lists, and each program reads what the one before printed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from drsr.errors import MissingExtra, SettingsError

PROGRAMS = frozenset({"cat", "cksum", "cp", "cut", "diff", "grep", "head", "ls", "pwd", "sort", "tail", "uniq", "wc"})
"""POSIX programs that print the same everywhere once LC_ALL is C and paddings are collapsed."""

TIMEOUT_SECONDS = 60.0
SHOWN_ROOT = "/workspace"
"""Name of the temporary folder in everything the agent sees."""

_PYTEST = ("-m", "pytest", "--tb=short", "--no-header", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.")
_CARETS = re.compile(r"^\s*[~^]+\s*$")
_RULE = re.compile(r"^[=_]{3,} ?(.*?) ?[=_]*$")
_PYTEST_DURATION = re.compile(r" in \d+\.\d+s\b")
_PROGRESS = re.compile(r"^([.FEsx]+) +\[ *\d+%\]$")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_PADDED_COUNT = re.compile(r"^ +(?=\d)", re.MULTILINE)


def run_command(command: str, root: Path) -> str:
    """Run a command line such as `grep -n total a.csv | head -n 3` in `root`; what a person would see, normalised."""
    try:
        pipeline = _split_pipeline(command)
    except ValueError as error:
        return f"error: cannot read the command: {error}"
    for argv in pipeline:
        if argv[0] not in PROGRAMS | {"python", "pytest"}:
            return f"error: {argv[0]}: command not found"
    outputs: list[str] = []
    fed = ""
    code = 0
    for argv in pipeline:
        done = _run_program(argv, root, fed)
        fed, code = _normalise(done.stdout, argv[0], root), done.returncode
        outputs.append(_normalise(done.stderr, argv[0], root))
    shown = "".join([fed, *outputs]).rstrip("\n")
    if code:
        shown += f"\n(exit code {code})"
    return shown.lstrip("\n") or "(no output)"


def _split_pipeline(command: str) -> list[list[str]]:
    """`a b | c` as [[a, b], [c]]; ValueError on open quotes or an empty part."""
    pipeline: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word == "|":
            pipeline.append([])
        else:
            pipeline[-1].append(word)
    if not all(pipeline):
        raise ValueError("a part of the pipeline is empty")
    return pipeline


def _run_program(argv: list[str], root: Path, fed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _resolve(argv),
        cwd=root,
        env=_environment(root),
        input=fed,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def _resolve(argv: list[str]) -> list[str]:
    """The argument list that is really run."""
    if argv[0] == "python":
        return [sys.executable, *argv[1:]]
    if argv[0] == "pytest":
        if not _has_pytest():
            raise MissingExtra("pytest", "dev", needed_for="recording the sandbox's code tasks")
        return [sys.executable, *_PYTEST, *argv[1:]]
    if shutil.which(argv[0]) is None:
        raise SettingsError(f"the program {argv[0]!r} is not on PATH", hint="the sandbox needs the POSIX text programs")
    # Not the full path: programs put the name they were called by in front of their messages.
    return argv


def _has_pytest() -> bool:
    from importlib.util import find_spec

    return find_spec("pytest") is not None


def _environment(root: Path) -> dict[str, str]:
    """A small fixed environment: nothing of the user's settings may change what a program prints."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root),
        "LC_ALL": "C",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def _normalise(output: str, program: str, root: Path) -> str:
    """The output without anything that differs between machines: folder, timings, addresses, paddings."""
    # The resolved form first: on some systems the temporary folder is a link, and one form contains the other.
    for form in sorted({str(root.resolve()), str(root)}, key=len, reverse=True):
        output = output.replace(form, SHOWN_ROOT)
    output = _ADDRESS.sub("0x...", output.replace(sys.executable, "python"))
    if program in {"wc", "uniq"}:
        output = _PADDED_COUNT.sub("", output)
    if program == "pytest":
        output = "\n".join(filter(None, map(_pytest_line, output.splitlines())))
    # Newer Pythons underline the failing expression, older ones do not.
    lines = [line.rstrip() for line in output.splitlines() if not _CARETS.match(line)]
    return "".join(f"{line}\n" for line in lines)


def _pytest_line(line: str) -> str:
    """One line of pytest's report without rulers, percentages and durations; empty if nothing is left."""
    if line.startswith("E    +"):
        # How intermediate values are explained changes from version to version.
        return ""
    ruler = _RULE.match(line)
    if ruler:
        line = ruler[1]
        if line in {"FAILURES", "short test summary info"}:
            return ""
    return _PYTEST_DURATION.sub("", _PROGRESS.sub(r"\1", line)).strip("\n")
