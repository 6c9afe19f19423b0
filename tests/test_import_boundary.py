"""The information boundary is the import boundary: nothing outside drsr/offline imports it, not even in a function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import drsr

PACKAGE = Path(drsr.__file__).parent
OFFLINE_ONLY = {"prefect", "dvc", "great_expectations", "sqlalchemy", "alembic"}
KNOWS_THE_FUTURE = ("offline", "flows", "expectations")
FORBIDDEN = tuple(f"drsr.{room}" for room in KNOWS_THE_FUTURE)
"""Rooms of the package that may; `flows` and `expectations` run and judge what `offline` does."""
OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in KNOWS_THE_FUTURE)


def leaks(source: str) -> list[str]:
    """Every import of a forbidden module anywhere in the source, also by name through importlib."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "drsr." if node.level else ""  # relative ones are not used here; all of them are taken for the worst
            names = [f"{base}{node.module + '.' if node.module else ''}{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            names = [str(value.value) for value in given if isinstance(value, ast.Constant)]
        for name in names:
            if name.split(".")[0] in OFFLINE_ONLY or name.startswith(FORBIDDEN):
                found.append(f"line {node.lineno}: {name}")
    return found


def test_there_is_something_to_look_at() -> None:
    names = {path.name for path in OUTSIDE}
    assert {"request.py", "candidates.py", "cli.py", "frozen_lm.py"} <= names


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_outside_offline_imports_it(path: Path) -> None:
    assert leaks(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import drsr.offline.label.harm",
        "from drsr.offline import harm",
        "from drsr.expectations.judging import judge",
        "from drsr import offline",
        "def later():\n    from drsr.offline.label.harm import measure_harm",
        "def later():\n    import sqlalchemy.orm",
        "import importlib\nimportlib.import_module('drsr.offline.label.harm')",
        "__import__('prefect')",
        "from .offline import harm",
        "from . import offline",
        "importlib.import_module(name='drsr.offline')",
    ],
)
def test_the_check_sees_a_planted_leak(source: str) -> None:
    assert leaks(source) != []
