from __future__ import annotations

from pathlib import Path

import pytest

from drsr.errors import ManifestError, SuiteNotInstalled
from drsr.offline.bench.harness.sandbox_suite import SandboxSuite
from drsr.offline.bench.harness.suite import find_suite


def installed(folder: Path, package: str) -> None:
    """A package on the path that brings a suite, as pip would leave it."""
    (folder / f"{package}.py").write_text(
        "from contextlib import contextmanager\n"
        "class Runner:\n"
        "    executes_here = False\n"
        "    @contextmanager\n"
        "    def open(self, task):\n"
        "        yield task\n"
        "def suite():\n"
        "    return Runner()\n"
    )
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[drsr.suites]\nworkbuddybench = {package}:suite\n")


def test_our_own() -> None:
    assert isinstance(find_suite("sandbox"), SandboxSuite)


def test_what_is_not_installed_is_refused_with_what_to_do() -> None:
    with pytest.raises(SuiteNotInstalled, match="nothing here can run tasks of 'workbuddybench'") as found:
        find_suite("workbuddybench")
    assert "measure-your-agent.md" in str(found.value.hint)


def test_a_package_brings_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(tmp_path, "a_runner_of_tests")
    suite = find_suite("workbuddybench")
    assert suite.executes_here is False
    with suite.open("some-task") as environment:
        assert str(environment) == "some-task"
    installed(tmp_path, "another_runner_of_tests")
    with pytest.raises(ManifestError, match="2 packages bring the suite"):
        find_suite("workbuddybench")
