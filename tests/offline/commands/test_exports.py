"""`drsr export` and `drsr import`: measured once, taken over by a second catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from tests.offline.chat_files import chat, write_json
from tests.tiny_models import build_tiny


def drsr(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_one_catalog_measured_another_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "runs" / "0.json", chat(0, steps=5))
    monkeypatch.setenv("DRSR_BACKBONE", f"path:{build_tiny('llama', tmp_path / 'model')}")
    for name in ("one", "two"):
        monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path / name / 'catalog.sqlite'}")
        monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / name / "artifacts"))
        drsr(capsys, "ingest", str(tmp_path / "runs"))
        drsr(capsys, "freeze")
        if name == "one":
            drsr(capsys, "label")
            drsr(capsys, "featurize")
            exported = drsr(capsys, "export", str(tmp_path / "out"))
            assert exported["label"]["added"]["states"] == exported["featurize"]["added"]["states"] == 1
    imported = drsr(capsys, "import", str(tmp_path / "out"))
    assert imported["labels"] == imported["features"] == {"taken": 1, "there": 0, "unknown": 0}
    assert drsr(capsys, "label") == {"states": 0}
    assert drsr(capsys, "featurize") == {"states": 0}
    assert main(["import", str(tmp_path / "out")]) == 0
    assert "0 states taken over, 1 were there" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "nowhere")]) == 2
    assert "there is no export here" in capsys.readouterr().err
