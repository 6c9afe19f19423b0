"""Every way in which a folder can differ from its manifest is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drsr.backbone.installing import MANIFEST, check_manifest, write_manifest
from drsr.errors import BackboneCorrupt


@pytest.fixture
def folder(own_cache: Path, tmp_path: Path) -> Path:
    place = tmp_path / "model"
    place.mkdir()
    (place / "config.json").write_text("{}")
    (place / "weights").write_bytes(bytes(1000))
    write_manifest(place, {"name": "some-model"})
    return place


def test_an_intact_folder(folder: Path) -> None:
    check_manifest(folder, hint="fetch")
    written = json.loads((folder / MANIFEST).read_text())
    assert written["name"] == "some-model"
    assert written["files"]["weights"]["size"] == 1000
    assert set(written["files"]) == {"config.json", "weights"}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: flip(folder / "weights", 500), "weights: SHA-256 is"),
        (lambda folder: (folder / "weights").write_bytes(bytes(999)), "weights: 999 bytes, the manifest says 1000"),
        (lambda folder: (folder / "weights").unlink(), "weights: the file is missing"),
        (lambda folder: (folder / MANIFEST).unlink(), "there is no manifest"),
        (lambda folder: (folder / MANIFEST).write_text(""), "the manifest cannot be read"),
        (lambda folder: (folder / MANIFEST).write_bytes((folder / MANIFEST).read_bytes()[:90]), "cannot be read"),
        (lambda folder: (folder / MANIFEST).write_text('{"files": {"weights": {}}}'), "cannot be read"),
        (lambda folder: (folder / MANIFEST).write_text("[]"), "cannot be read"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe"), "cannot be read"),
    ],
)
def test_damage_is_found(folder: Path, damage: Callable[[Path], object], said: str) -> None:
    check_manifest(folder, hint="fetch")
    damage(folder)
    with pytest.raises(BackboneCorrupt, match=f"(?s){said}.*hint: fetch"):
        check_manifest(folder, hint="fetch")


def test_only_some_files(folder: Path) -> None:
    (folder / "weights").unlink()
    check_manifest(folder, hint="fetch", only=["config.json"])
    with pytest.raises(BackboneCorrupt, match="does not list tokenizer.json"):
        check_manifest(folder, hint="fetch", only=["tokenizer.json"])
