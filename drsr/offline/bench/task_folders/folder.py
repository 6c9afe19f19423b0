"""A task as a folder in Harbor's layout, in which WorkBuddyBench publishes its tasks.

<root>/wb-bench-code-v1.0/tasks/<id>/
    instruction.md             what the agent is asked to do
    task.toml                  image, limits of time, memory and processors, whether the network is open
    environment/Dockerfile     the recipe of the container, unless task.toml names an image
    tests/test.sh              judges the container; writes /logs/verifier/reward.txt or reward.json
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import ManifestError

SECONDS_OF_TESTS, SECONDS_OF_BUILDING = 600.0, 600.0
"""Limits if a task names none."""


class TaskFolder(NamedTuple):
    """One task, as far as running it needs."""

    path: Path
    instruction: str
    image: str | None
    """A ready image; None if the container is built."""
    test_seconds: float
    build_seconds: float
    processors: float | None
    memory_mb: int | None
    network: bool


def find_task(root: Path, task: str) -> TaskFolder:
    """Return the task with that id, directly in the folder or in one of its subsets. Raise ManifestError if there is
    none."""
    parts = Path(task).parts
    if len(parts) != 1 or task in (".", ".."):
        raise ManifestError(f"{task!r} cannot be the id of a task: it is the name of a folder")
    found = [path for path in (root / task, *sorted(root.glob(f"*/tasks/{_literal(task)}"))) if path.is_dir()]
    if len(found) != 1:
        raise ManifestError(
            f"{len(found) or 'no'} folders are called {task!r}",
            where=str(root),
            hint="the folder holds tasks, or subsets such as wb-bench-code-v1.0 with a folder `tasks` in each",
        )
    return read_task(found[0])


def read_task(path: Path) -> TaskFolder:
    """Read a task from its folder. Raise ManifestError if something of the layout is missing."""
    for name in ("instruction.md", "task.toml", "tests/test.sh"):
        if not (path / name).is_file():
            raise ManifestError(f"has no {name}", where=str(path), hint="fetch the tasks again")
    try:
        settings = tomllib.loads((path / "task.toml").read_text(encoding="utf-8"))
        instruction = (path / "instruction.md").read_text(encoding="utf-8")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", where=str(path)) from None
    verifier, environment = _table(settings, "verifier", path), _table(settings, "environment", path)
    image = environment.get("docker_image")
    if image is None and not (path / "environment" / "Dockerfile").is_file():
        raise ManifestError("has neither an image nor environment/Dockerfile", where=str(path))
    if image is not None and (not isinstance(image, str) or not image or image.startswith("-")):
        raise ManifestError(f"docker_image {image!r} is not an image's name", where=str(path / "task.toml"))
    memory = _number(environment, "memory_mb", path)
    return TaskFolder(
        path=path,
        instruction=instruction,
        image=image,
        test_seconds=_number(verifier, "timeout_sec", path) or SECONDS_OF_TESTS,
        build_seconds=_number(environment, "build_timeout_sec", path) or SECONDS_OF_BUILDING,
        processors=_number(environment, "cpus", path),
        memory_mb=None if memory is None else int(memory),
        network=environment.get("allow_internet", True) is not False,
    )


def _literal(name: str) -> str:
    """Return the name as a pattern that only it matches."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _table(settings: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = settings.get(name, {})
    if not isinstance(found, dict):
        raise ManifestError(f"`{name}` is not a table", where=str(path / "task.toml"))
    return found


def _number(table: Mapping[str, Any], name: str, path: Path) -> float | None:
    found = table.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1e9:
        raise ManifestError(f"{name} is {found!r}, not a number above 0", where=str(path / "task.toml"))
    return float(found)
