"""What is kept is found for the same question, bytes and code, and for nothing else."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drsr
from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.store.artifacts import Artifact, ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, code_hash, readings


def test_only_the_same_question_bytes_and_code(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "kept.sqlite"
    kept = Kept(path, "code 1")
    assert kept.find("words", ["a"]) == {}
    assert not path.exists(), "whoever only asks writes nothing"
    kept.keep("words", {"a": b"1", "b": b"2"})
    assert kept.find("words", ["a", "b", "c"]) == {"a": b"1", "b": b"2"}
    assert kept.find("letters", ["a"]) == {}
    assert Kept(path, "code 2").find("words", ["a"]) == {}
    kept.keep("words", {"a": b"3"})
    assert kept.find("words", ["a"]) == {"a": b"3"}


def test_what_other_code_kept_goes_and_so_does_what_stood_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    Kept(path, "old").keep("words", {"a": b"1"})
    new = Kept(path, "new")
    new.keep("verdicts", {"before": b"1"}, alone=True)
    new.keep("verdicts", {"now": b"2"}, alone=True)
    assert new.find("verdicts", ["before", "now"]) == {"now": b"2"}
    assert Kept(path, "old").find("words", ["a"]) == {}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="delete the file"):
        Kept(tmp_path / "kept.sqlite", "code").find("words", ["a"])


def test_the_code_is_every_module_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("__init__.py", "rules/one.py"):
        (tmp_path / name).write_text("A = 1\n")
    (tmp_path / "linked").symlink_to(tmp_path / "rules")
    monkeypatch.setattr(drsr, "__file__", str(tmp_path / "__init__.py"))

    def now() -> str:
        code_hash.cache_clear()
        return code_hash()

    try:
        first = now()
        assert now() == first
        (tmp_path / "notes.txt").write_text("not code")
        assert now() == first
        (tmp_path / "rules" / "one.py").write_text("A = 2\n")
        changed = now()
        assert changed != first
        monkeypatch.setattr(importlib.metadata, "version", lambda library: "0")
        assert now() not in (first, changed)
    finally:
        code_hash.cache_clear()


@given(
    texts=st.lists(st.binary(max_size=20), unique=True, max_size=8),
    known=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_readings_are_those_of_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], known: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    artifacts, kept = ArtifactStore(str(folder / "artifacts")), Kept(folder / "kept.sqlite", "code")
    keys = artifacts.put_pack(map(Artifact.of, texts))
    blobs = {bytes_named(blob): blob for blob in keys.values()}
    read: list[str] = []

    def reverse(name: str, data: bytes) -> bytes:
        read.append(name)
        return data[::-1]

    slow = readings(artifacts, None, "reversed", blobs, reverse)
    assert sorted(read) == sorted(blobs)
    before = {name: blob for (name, blob), is_known in zip(blobs.items(), known, strict=False) if is_known}
    readings(artifacts, kept, "reversed", before, reverse)
    read.clear()
    assert readings(artifacts, kept, "reversed", blobs, reverse) == slow
    assert sorted(read) == sorted(blobs.keys() - before.keys())
    read.clear()
    assert readings(artifacts, kept, "reversed", blobs, reverse) == slow
    assert read == []


def test_a_file_that_is_gone_is_missed_although_its_reading_is_kept(tmp_path: Path) -> None:
    artifacts, kept = ArtifactStore(str(tmp_path / "artifacts")), Kept(tmp_path / "kept.sqlite", "code")
    blob = artifacts.put(b"a run")
    assert readings(artifacts, kept, "reversed", {blob: blob}, lambda _, data: data[::-1]) == {blob: b"nur a"}
    next(path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()).unlink()
    with pytest.raises(ArtifactCorrupt, match="is missing"):
        readings(artifacts, kept, "reversed", {blob: blob}, lambda _, data: data[::-1])
