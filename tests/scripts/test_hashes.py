"""Requirements with hashes: as pip reads them, complete, and without drsr itself."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from scripts import hashes
from scripts.hashes import requirements
from tests.policy_wheels import versioned, wheel_of


def found(name: str, version: str, sha256: str | None) -> dict[str, Any]:
    hashes = {} if sha256 is None else {"sha256": sha256}
    return {
        "metadata": {"name": name, "version": version},
        "download_info": {"url": "https://index.example/x.whl", "archive_info": {"hashes": hashes}},
    }


def test_a_line_per_package() -> None:
    report = {"install": [found("Numpy", "2.4.0", "b" * 64), found("drsr", "0.1.0", None), found("a", "1", "a" * 64)]}
    lines = requirements(report)
    assert lines == [f"a==1 --hash=sha256:{'a' * 64}", f"numpy==2.4.0 --hash=sha256:{'b' * 64}"]
    assert str(Requirement(lines[1].split(" --hash")[0])) == "numpy==2.4.0"


def test_pip_reads_the_file_and_refuses_another_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(versioned("1.0"), tmp_path)
    for sha256, code in ((sha256_of(wheel), 0), ("0" * 64, 1)):
        report = {"install": [found("drsr-policy", "1.0", sha256)]}
        monkeypatch.setattr(hashes, "resolved", lambda extras, report=report: report)
        assert hashes.main(["light", "--to", str(tmp_path)]) == 0
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-index", "--find-links", str(tmp_path)]
        command += ["--require-hashes", "-r", str(tmp_path / "requirements-light.txt"), "-d", str(tmp_path / "got")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("DO NOT MATCH THE HASHES" in done.stderr) == bool(code)
        shutil.rmtree(tmp_path / "got", ignore_errors=True)


def sha256_of(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_a_file_without_a_hash() -> None:
    with pytest.raises(ValueError, match="no SHA-256 of numpy"):
        requirements({"install": [found("numpy", "2.4.0", None)]})
    folder = {"metadata": {"name": "x", "version": "1"}, "download_info": {"url": "file:///x", "dir_info": {}}}
    with pytest.raises(ValueError, match="no SHA-256 of x"):
        requirements({"install": [folder]})
