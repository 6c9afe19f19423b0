"""The plan of the house (docs/map.md): imports between rooms go one way, folders stay small, every room has a door."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import drsr

PACKAGE = Path(drsr.__file__).parent
OFFLINE = (
    ("params", "samples", "stages", "verdicts"),  # plain data and values
    *((room,) for room in ("catalog", "store", "ingest", "freeze", "featurize", "label", "train", "calibrate")),
    *((room,) for room in ("evaluate", "publish", "dashboard", "expectations", "audit", "sandbox", "bench")),
    ("erase", "erased_exports", "plan", "query", "run", "stage_exports", "status"),
    ("cost", "notices"),
    ("commands", "flows"),
    ("cli",),
)
"""Rooms and single modules that know the future, from the ground up: each imports only those below its line.
Expectations judge what the stages wrote, and the audit judges by them. Labelling writes features on its way, so this is
not the order of a run."""
CORE = (
    ("errors", "version", "files"),
    ("command_line", "pages", "redaction", "tables"),
    ("settings",),
    ("request",),
    ("backbone", "scorer"),
    ("features", "decide"),  # features are of candidates, and deciding needs features
    ("receipts", "sessions", "policy"),  # a policy opens sessions and writes receipts; both speak of its decisions
    ("golden", "installed_policy"),  # names under which policies published before import
    ("adapters",),
    ("proxy",),
    ("commands", "cli"),  # `drsr.cli` makes the parser of every command, and reads their documents
    ("__main__",),
)
"""Rooms and single modules of the light install, in the same way. On one line, rooms may import each other."""
MOST_FILES = 16
UNBOUNDED = ("offline/ingest/formats", "offline/bench/comparators")
"""Folders with one file per format or method."""


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; links to `flows` and `expectations` are followed."""
    found = {}
    for top in (PACKAGE, PACKAGE / "flows", PACKAGE / "expectations"):
        for path in top.rglob("*.py"):
            parts = [*path.relative_to(PACKAGE).with_suffix("").parts]
            found[".".join(["drsr", *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """Modules of ours that a file imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                yield name


def room(module: str) -> str:
    """Return the room or single module that a module belongs to; the package's own doors belong to none."""
    parts = module.split(".")
    if parts[1:2] in (["flows"], ["expectations"]):
        return parts[1]
    if parts[1:2] == ["offline"]:
        return "commands" if "commands" in parts else "".join(parts[2:3])
    return "".join(parts[1:2])


def is_offline(module: str) -> bool:
    return module.split(".")[1:2] in (["flows"], ["expectations"], ["offline"])


def upward(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return each import of a room by one that lies below it, and each module that no line of the plan names."""
    wrong = []
    for house, levels in ((True, OFFLINE), (False, CORE)):
        level = {name: number for number, names in enumerate(levels) for name in names}
        here = [module for module in imports if is_offline(module) == house and room(module)]
        wrong += [f"{module} is on no line" for module in here if room(module) not in level]
        wrong += [
            f"{module} imports {target}"
            for module in here
            for target in imports[module]
            if is_offline(target) == house and level.get(room(target), 0) > level.get(room(module), len(levels))
        ]
    return wrong


def test_rooms_import_in_one_direction() -> None:
    assert upward({module: list(imported(path)) for module, path in MODULES.items()}) == []


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("drsr.offline.ingest.stage", "drsr.offline.label.stage"),
        ("drsr.offline.publish.stage", "drsr.expectations.judging"),
        ("drsr.offline.stages", "drsr.offline.run"),
        ("drsr.offline.bench.replay.stage", "drsr.offline.commands.status"),
        ("drsr.request.request", "drsr.policy.policy"),
        ("drsr.tables", "drsr.settings"),
    ],
)
def test_an_import_upwards_is_found(module: str, target: str) -> None:
    assert upward({module: [target]}) == [f"{module} imports {target}"]
    assert upward({target: [module]}) == []


def test_a_module_without_a_place_is_found() -> None:
    assert upward({"drsr.offline.corridor": []}) == ["drsr.offline.corridor is on no line"]


def folders() -> list[Path]:
    return sorted({path.parent for path in MODULES.values()})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_is_small_and_has_a_door(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".pyc"]
    name = str(folder.relative_to(PACKAGE))
    assert len(files) <= MOST_FILES or name in UNBOUNDED, sorted(path.name for path in files)
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
