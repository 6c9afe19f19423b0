from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drsr.errors import MissingExtra, SettingsError
from drsr.offline.sandbox.workshop.shell import run_command


def test_programs_read_what_the_one_before_printed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b\na\nb\n")
    assert run_command("sort a.txt | uniq -c", tmp_path) == "1 a\n2 b"
    assert run_command("grep -n 'a' a.txt", tmp_path) == "2:a"
    assert run_command("wc -l a.txt", tmp_path) == "3 a.txt"
    assert run_command("pwd", tmp_path) == "/workspace"


def test_failures_are_shown_with_their_exit_code(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    assert run_command("grep y a.txt", tmp_path) == "(exit code 1)"
    assert run_command("cat absent.txt", tmp_path) == "cat: absent.txt: No such file or directory\n(exit code 1)"
    assert run_command("cp a.txt b.txt", tmp_path) == "(no output)"
    assert (tmp_path / "b.txt").read_text() == "x\n"


@pytest.mark.parametrize("command", ["rm -r .", "sh -c ls", "make", "cat a | rm b", "/bin/cat a"])
def test_other_programs_do_not_exist(command: str, tmp_path: Path) -> None:
    assert run_command(command, tmp_path).endswith("command not found")


@pytest.mark.parametrize("command", ["", "cat 'a", "cat a |", "| cat"])
def test_what_is_no_command_line(command: str, tmp_path: Path) -> None:
    assert run_command(command, tmp_path).startswith("error: cannot read the command")


def test_nothing_is_expanded_by_a_shell(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("$HOME; ls > b.txt\n")
    assert run_command("grep '$HOME; ls > b.txt' a.txt", tmp_path) == "$HOME; ls > b.txt"
    run_command("cat a.txt > b.txt", tmp_path)
    assert not (tmp_path / "b.txt").exists()


def test_tracebacks_show_neither_folder_nor_carets(tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text("table = {}\nprint('before')\nprint(table['key'] + 1)\n")
    assert run_command("python boom.py", tmp_path).splitlines() == [
        "before",
        "Traceback (most recent call last):",
        '  File "/workspace/boom.py", line 3, in <module>',
        "    print(table['key'] + 1)",
        "KeyError: 'key'",
        "(exit code 1)",
    ]


def test_addresses_and_the_interpreter_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import sys\nprint(object(), sys.executable)\n")
    shown = run_command("python a.py", tmp_path)
    assert "at 0x...>" in shown
    assert sys.executable not in shown


def test_the_users_environment_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("SECRET_OF_THE_USER", "x")
    (tmp_path / "a.py").write_text("import os\nprint(sorted(os.environ)[:3], 'SECRET_OF_THE_USER' in os.environ)\n")
    assert run_command("python a.py", tmp_path) == "['COLUMNS', 'HOME', 'LC_ALL'] False"


def test_pytest_reports_the_same_wherever_it_runs(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_right():\n    pass\n\n\ndef test_wrong():\n    assert abs(-2) == 3\n")
    shown = run_command("pytest -q test_a.py", tmp_path)
    assert shown.splitlines() == [
        ".F",
        "test_wrong",
        "test_a.py:6: in test_wrong",
        "    assert abs(-2) == 3",
        "E   assert 2 == 3",
        "FAILED test_a.py::test_wrong - assert 2 == 3",
        "1 failed, 1 passed",
        "(exit code 1)",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test_a.py"]


def test_a_missing_program_is_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SettingsError, match="'cat' is not on PATH"):
        run_command("cat a", tmp_path)


def test_without_pytest_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"drsr\[dev\]"):
        run_command("pytest -q", tmp_path)
