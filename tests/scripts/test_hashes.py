"""Requirements with hashes: as pip reads them, complete, and without drsr itself."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.requirements import Requirement

from scripts.hashes import requirements


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


def test_a_file_without_a_hash() -> None:
    with pytest.raises(ValueError, match="no SHA-256 of numpy"):
        requirements({"install": [found("numpy", "2.4.0", None)]})
    folder = {"metadata": {"name": "x", "version": "1"}, "download_info": {"url": "file:///x", "dir_info": {}}}
    with pytest.raises(ValueError, match="no SHA-256 of x"):
        requirements({"install": [folder]})
