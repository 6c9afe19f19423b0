"""The plan of the house (docs/map.md): imports between rooms go one way, folders stay small, every room has a door."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import drsr

PACKAGE = Path(drsr.__file__).parent
STAGES = ("catalog", "store", "ingest", "freeze", "featurize", "label", "train", "calibrate", "evaluate", "publish")
OFFLINE = (*STAGES, "dashboard", "expectations", "audit", "sandbox", "bench")
"""Rooms that know the future, from the ground up: a room imports those before it. Expectations judge what the stages
wrote, and the audit judges by them. Labelling writes features on its way, so this is not the order of a run."""
ABOVE = ("commands", "flows", "plan", "cost", "status", "stage_exports", "cli")
"""What stands on top of the rooms; `params` and `samples` are plain data below all of them."""
CORE = (
    ("request",),
    ("backbone",),
    ("features", "scorer", "decide"),  # features are of candidates, and deciding needs features
    ("receipts", "sessions", "policy"),  # a policy opens sessions and writes receipts; both speak of its decisions
    ("adapters", "proxy", "commands"),
)
"""Rooms of the light install, from the ground up."""
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


def offline_room(module: str) -> str | None:
    parts = module.split(".")
    if parts[1:2] in (["flows"], ["expectations"]):
        return parts[1]
    if "commands" in parts:
        return "commands"
    return parts[2] if parts[1:2] == ["offline"] and len(parts) > 2 else None


def core_level(module: str) -> int | None:
    room = module.split(".")[1] if module.count(".") else ""
    return next((level for level, rooms in enumerate(CORE) if room in rooms), None)


@pytest.mark.parametrize("room", OFFLINE)
def test_a_room_imports_only_the_rooms_before_it(room: str) -> None:
    forbidden = {*OFFLINE[OFFLINE.index(room) + 1 :], *ABOVE}
    wrong = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        if offline_room(module) == room
        for target in imported(path)
        if offline_room(target) in forbidden
    ]
    assert wrong == []


def test_the_light_install_imports_one_way_too() -> None:
    wrong = []
    for module, path in MODULES.items():
        level = core_level(module)
        if level is None:
            continue
        wrong += [f"{module} imports {target}" for target in imported(path) if (core_level(target) or 0) > level]
    assert wrong == []


def folders() -> list[Path]:
    return sorted({path.parent for path in MODULES.values()})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_is_small_and_has_a_door(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".pyc"]
    name = str(folder.relative_to(PACKAGE))
    assert len(files) <= MOST_FILES or name in UNBOUNDED, sorted(path.name for path in files)
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
