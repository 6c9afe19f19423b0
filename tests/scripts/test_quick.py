"""Which tests `make quick` runs for a change, and that it says what it left out."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from scripts.quick import ROOT, Minute, changed_files, concerned, imports_of_tests, module_name, starts_processes


@cache
def imports() -> dict[str, set[str]]:
    """Read once, when the first test asks and not while tests are collected."""
    return imports_of_tests(ROOT)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("drsr/decide/selection.py", "drsr.decide.selection"),
        ("drsr/decide/__init__.py", "drsr.decide"),
        ("flows/nightly.py", "drsr.flows.nightly"),
        ("tests/decide/test_selection.py", "tests.decide.test_selection"),
    ],
)
def test_a_file_has_the_name_it_is_imported_by(path: str, name: str) -> None:
    assert module_name(path) == name


def test_the_mirror_of_a_change_comes_first_and_its_importers_follow() -> None:
    found = concerned(["drsr/decide/selection.py"], imports())
    assert found[0] == "tests/decide/test_selection.py"
    importers = [test for test, names in imports().items() if "drsr.decide.selection" in names and "/test_" in test]
    assert set(importers) <= set(found)


def test_a_changed_test_is_run_itself() -> None:
    assert concerned(["tests/test_tables.py"], imports())[0] == "tests/test_tables.py"


def test_a_file_that_nothing_tests_concerns_nothing() -> None:
    assert concerned(["scripts/nowhere.py"], imports()) == []


def test_a_change_in_a_file_of_the_tests_reaches_the_tests_that_use_it() -> None:
    found = concerned(["tests/messages.py"], imports())
    assert "tests/messages.py" not in found
    assert {test for test, names in imports().items() if "tests.messages" in names and "/test_" in test} <= set(found)


def test_servers_are_found_through_the_files_that_a_imports_of_tests() -> None:
    small = {
        "tests/test_near.py": {"subprocess"},
        "tests/test_far.py": {"tests.between"},
        "tests/between.py": {"tests.runs_things", "tests.test_far"},
        "tests/runs_things.py": {"moto"},
        "tests/test_plain.py": {"drsr.request.request"},
    }
    assert starts_processes("tests/test_near.py", small)
    assert starts_processes("tests/test_far.py", small)
    assert not starts_processes("tests/test_plain.py", small)


def test_a_change_is_seen_before_it_is_committed_and_after(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("")
        git("add", name)
        git("commit", "--message", name)
    assert changed_files(tmp_path) == ["two.py"]
    (tmp_path / "three.py").write_text("")
    (tmp_path / "one.py").write_text("changed = 1\n")
    assert changed_files(tmp_path) == ["one.py", "three.py", "two.py"]
    git("checkout", "-b", "branch")
    git("add", ".")
    git("commit", "--message", "more")
    (tmp_path / "two.py").unlink()
    assert changed_files(tmp_path) == ["one.py", "three.py"]


def test_what_has_no_time_is_counted_and_not_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(): pass
        def test_two(): pass
        def test_browser(browser): pass
        """
    )
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef browser(): raise AssertionError('never asked for')\n")
    enough, none = Minute(60), Minute(-1)
    pytester.inline_run("-p", "no:cacheprovider", plugins=[enough]).assertoutcome(passed=2)
    assert (enough.left_out, enough.waiting) == (1, 0)
    result = pytester.inline_run("-p", "no:cacheprovider", plugins=[none])
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert none.waiting > 0
