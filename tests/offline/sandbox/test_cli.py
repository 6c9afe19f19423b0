from __future__ import annotations

import json
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.sandbox.corpus import read_lines, write_corpus


def test_record_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    choice = ["--out", str(path), "--count", "3", "--seed", "5"]
    assert main(["sandbox", "record", *choice, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["trajectories"], len(read_lines(path))) == (3, 3)
    assert main(["sandbox", "record", *choice, "--check"]) == 0
    assert "is what recording gives" in capsys.readouterr().out
    before = path.read_bytes()
    assert main(["sandbox", "record", "--out", str(path), "--count", "2", "--seed", "5", "--check"]) == 1
    assert "line 3 differs" in capsys.readouterr().out
    assert path.read_bytes() == before


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    write_corpus([], path)
    assert main(["sandbox", "record", "--out", str(path), "--count", "1", "--check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["difference"]["line"], found["difference"]["committed"]) == (False, 1, None)


def test_a_missing_file_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "record", "--out", str(tmp_path / "no.gz"), "--count", "1", "--check"]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-3", "many"])
def test_a_wrong_count(count: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sandbox", "record", "--count", count])
    assert ended.value.code == 2
