"""A manifest: the tasks to run, their suite and domains, and how their means are taken. A JSON or a CSV file.

    {"format": "drsr tasks/1", "name": "full260", "suite": "workbuddybench", "weighting": "tasks",
     "counts": {"code": 80, "office": 50, "security": 60, "web": 70},
     "tasks": [{"id": "...", "domain": "code"}, ...]}

A CSV file has the columns `task` and `domain`; its name is the manifest's name, and what is known of a manifest of that
name (suite, weighting, counts) is filled in. All claims of a manifest are checked, never corrected.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from drsr.errors import ManifestError

FORMAT = "drsr tasks/1"
Weighting = Literal["tasks", "domains"]
"""Weighting of the overall mean: every task counts the same, as in Full260, or every domain, as in Eval40."""
_WEIGHTINGS: tuple[Weighting, ...] = ("tasks", "domains")
_FIELDS = {"format", "name", "suite", "weighting", "counts", "tasks"}


class ManifestTask(NamedTuple):
    id: str
    """The suite's own name for it."""
    domain: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked list of tasks."""

    name: str
    suite: str
    weighting: Weighting
    counts: Mapping[str, int]
    """Tasks of each domain."""
    tasks: tuple[ManifestTask, ...]

    @property
    def identity(self) -> str:
        """SHA-256 of everything in it."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "suite": self.suite,
            "weighting": self.weighting,
            "counts": dict(self.counts),
            "tasks": [task._asdict() for task in self.tasks],
        }


class Claim(NamedTuple):
    """The known contents of a manifest of some name."""

    suite: str
    weighting: Weighting
    counts: Mapping[str, int]
    ids: frozenset[str] | None
    """Ids of the tasks; None if they are not published."""


def make_manifest(value: Any, known: Mapping[str, Claim], *, where: str) -> Manifest:
    """Return the manifest that a JSON value describes. Raises ManifestError; `known` are names with a fixed meaning."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ManifestError(f"is not a list of tasks: `format` is not {FORMAT!r}", where=where)
    if value.keys() != _FIELDS:
        wrong = sorted(value.keys() ^ _FIELDS)
        raise ManifestError(f"fields missing or unknown: {', '.join(wrong)}", where=where)
    name, suite = _text(value, "name", where), _text(value, "suite", where)
    if value["weighting"] not in _WEIGHTINGS:
        raise ManifestError(f"`weighting` is {value['weighting']!r}", where=where, hint="tasks or domains")
    counts = _counts(value["counts"], where)
    tasks = _tasks(value["tasks"], where)
    if not tasks:
        raise ManifestError(
            f"names no task; it claims {_spoken(counts)}",
            where=where,
            hint="it is a template: fill in the ids of the tasks that you have (docs/guides/measure-your-agent.md)",
        )
    repeated = [task for task, times in Counter(task.id for task in tasks).items() if times > 1]
    if repeated:
        raise ManifestError(f"task {repeated[0]!r} is in it more than once", where=where)
    found = Counter(task.domain for task in tasks)
    if dict(found) != counts:
        raise ManifestError(f"claims {_spoken(counts)} and has {_spoken(found)}", where=where)
    manifest = Manifest(name, suite, value["weighting"], counts, tasks)
    if name in known:
        _check_claim(manifest, known[name], where)
    return manifest


def read_manifest(path: Path, known: Mapping[str, Claim]) -> Manifest:
    """Read a manifest from a `.json` or a `.csv` file."""
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", where=where) from None
    if path.suffix == ".csv":
        return make_manifest(_from_csv(text, path, known), known, where=where)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"is not JSON: {error}", where=where, hint="a .json or a .csv file") from None
    return make_manifest(value, known, where=where)


def _from_csv(text: str, path: Path, known: Mapping[str, Claim]) -> dict[str, Any]:
    name = path.stem
    if name not in known:
        raise ManifestError(
            f"nothing is known of a list called {name!r}",
            where=str(path),
            hint=f"a CSV file is called {', '.join(f'{one}.csv' for one in known)}; write any other list as JSON",
        )
    rows = list(csv.DictReader(text.splitlines()))
    if rows and set(rows[0]) != {"task", "domain"}:
        raise ManifestError(f"columns {', '.join(map(str, rows[0]))}", where=str(path), hint="task,domain")
    claim = known[name]
    return {
        "format": FORMAT,
        "name": name,
        "suite": claim.suite,
        "weighting": claim.weighting,
        "counts": dict(claim.counts),
        "tasks": [{"id": row["task"], "domain": row["domain"]} for row in rows],
    }


def _check_claim(manifest: Manifest, claim: Claim, where: str) -> None:
    for name in ("suite", "weighting", "counts"):
        has, should = getattr(manifest, name), getattr(claim, name)
        if has != should:
            raise ManifestError(
                f"is called {manifest.name}, whose {name} is {should}, and has {has}",
                where=where,
                hint="give another list another name",
            )
    ids = frozenset(task.id for task in manifest.tasks)
    if claim.ids is not None and ids != claim.ids:
        odd = sorted(ids - claim.ids)
        raise ManifestError(
            f"is called {manifest.name} and names {len(odd)} other tasks: {', '.join(odd[:3])}",
            where=where,
            hint="give another list another name",
        )


def _text(value: Mapping[str, Any], field: str, where: str) -> str:
    found = value[field]
    if not isinstance(found, str) or not found.strip():
        raise ManifestError(f"`{field}` is {found!r}, not a name", where=where)
    return found


def _counts(value: Any, where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not value or not all(type(one) is int and one > 0 for one in value.values()):
        raise ManifestError(
            f"`counts` is {value!r}", where=where, hint='tasks of each domain: {"code": 80, "office": 50}'
        )
    return value


def _tasks(value: Any, where: str) -> tuple[ManifestTask, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ManifestError("`tasks` is not a list", where=where)
    for number, task in enumerate(value):
        good = isinstance(task, dict) and task.keys() == {"id", "domain"}
        if not good or not all(isinstance(one, str) and one.strip() for one in task.values()):
            raise ManifestError(
                f"task {number} is {str(task)[:80]}", where=where, hint='each is {"id": "...", "domain": "..."}'
            )
    return tuple(ManifestTask(**task) for task in value)


def _spoken(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {domain}" for domain, number in sorted(counts.items())) or "none"
