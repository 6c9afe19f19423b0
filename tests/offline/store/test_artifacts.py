"""The artifact store: what is put comes back, and whatever happened to it is noticed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import ArtifactCorrupt, CatalogUnreachable, MissingExtra, SettingsError
from drsr.offline.store import artifacts as store_module
from drsr.offline.store.artifacts import Artifact, ArtifactStore


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(folder: Path) -> ArtifactStore:
    return ArtifactStore(str(folder))


@given(data=st.binary())
def test_what_is_put_comes_back(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = ArtifactStore(str(tmp_path_factory.getbasetemp() / "round-trip"))
    key = store.put(data)
    assert key == hashlib.sha256(data).hexdigest()
    assert store.exists(key)
    assert store.get(key) == data


@given(contents=st.lists(st.binary(max_size=200), max_size=8))
def test_every_artifact_of_a_pack_comes_back(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    store = ArtifactStore(str(tmp_path_factory.getbasetemp() / "packs"))
    keys = store.put_pack([Artifact.of(data) for data in contents])
    assert {store.get(key) for key in keys.values()} == set(contents)
    assert {sha256: hashlib.sha256(store.get(key)).hexdigest() for sha256, key in keys.items()} == {
        sha256: sha256 for sha256 in keys
    }


def test_a_pack_is_one_file_and_storing_it_again_changes_nothing(store: ArtifactStore, folder: Path) -> None:
    artifacts = [Artifact.of(f"trajectory {number}".encode()) for number in range(50)]
    keys = store.put_pack(artifacts)
    (pack,) = files_below(folder)
    before = pack.stat()
    assert store.put_pack(artifacts) == keys
    assert files_below(folder) == [pack]
    assert pack.stat() == before


def test_an_empty_pack_is_no_file(store: ArtifactStore, folder: Path) -> None:
    assert store.put_pack([]) == {}
    assert not folder.exists()


def test_memory_and_s3_hold_the_same(bucket: str, store: ArtifactStore) -> None:
    artifacts = [Artifact.of(f"trajectory {number}".encode()) for number in range(5)]
    keys = store.put_pack(artifacts)
    for root in (f"{bucket}/below", "memory://artifacts"):
        other = ArtifactStore(root)
        assert other.put_pack(artifacts) == keys
        assert other.put(b"alone") == store.put(b"alone")
        assert [other.get(keys[sha256]) for sha256, *_ in artifacts] == [one.data for one in artifacts]
        assert other.get(other.put(b"alone")) == b"alone"
        assert not other.exists("0" * 64)
        with pytest.raises(ArtifactCorrupt, match="is missing"):
            other.get("0" * 64)
    fsspec.filesystem("memory").rm("/artifacts", recursive=True)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("harm", ["removed", "cut", "emptied", "overwritten", "swapped"])
def test_harm_is_noticed(store: ArtifactStore, folder: Path, pack: bool, harm: str) -> None:
    data = b"what happened in run 17, step by step"
    key = next(iter(store.put_pack([Artifact.of(data)]).values())) if pack else store.put(data)
    (path,) = files_below(folder)
    stored = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "swapped":
        other = store.put(b"what happened in run 18, step by step")
        path.write_bytes((folder / other[:2] / other).read_bytes())
    else:
        path.write_bytes({"cut": stored[:-3], "emptied": b"", "overwritten": stored[:-3] + b"abc"}[harm])
    with pytest.raises(ArtifactCorrupt, match=f"artifact {key.replace('+', '[+]')} "):
        store.get(key)


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "flips"
    store = ArtifactStore(str(folder))
    data = b"some words that repeat, some words that repeat " * 5
    key = store.put(data)
    path = folder / key[:2] / key
    stored = bytearray(path.read_bytes())
    stored[position % len(stored)] ^= 1 << bit
    path.write_bytes(stored)
    try:
        assert store.get(key) == data
    except ArtifactCorrupt:
        pass
    finally:
        path.unlink()


@pytest.mark.parametrize("key", ["", "abc", "../" + "a" * 61, "A" * 64, f"{'a' * 64}@{'b' * 64}:1", "0" * 63])
def test_only_keys_are_looked_up(store: ArtifactStore, key: str) -> None:
    with pytest.raises(ArtifactCorrupt, match="is not the key of an artifact"):
        store.get(key)


def test_a_write_that_fails_leaves_nothing(store: ArtifactStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(CatalogUnreachable, match="No space left on device"):
        store.put(b"data")
    assert files_below(folder) == []


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CatalogUnreachable, match="DRSR_ARTIFACT_ROOT"):
        ArtifactStore(str(tmp_path / "taken")).put(b"data")


def test_an_unknown_kind_of_root_is_refused() -> None:
    with pytest.raises(SettingsError, match="nosuch"):
        ArtifactStore("nosuch://root")


def test_credentials_in_the_root_are_not_shown() -> None:
    for root in ("s3://user:hunter2@place", "s3://user:hunter2/with/slashes@place", "s3://user:hunter2@place/below"):
        assert "hunter2" not in ArtifactStore(root).location


def test_packs_written_by_another_compressor_do_not_mix(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another level or version gives other frames at other offsets: that is another file."""
    artifacts = [Artifact.of(f"trajectory {number}, step by step; ".encode() * 200) for number in range(20)]
    keys = [store.put_pack(artifacts)]
    monkeypatch.setattr(store_module, "_LEVEL", 19)
    keys.append(store.put_pack(artifacts))
    assert keys[0] != keys[1]
    for one in artifacts:
        assert [store.get(of[one.sha256]) for of in keys] == [one.data] * 2


def test_bytes_in_pieces_lie_in_a_pack_beside_others(store: ArtifactStore) -> None:
    pieces = [b"a piece, ", b"", "größer, ".encode() * 100_000, b"the end"]
    large = Artifact.in_pieces(lambda: iter(pieces))
    assert large.is_compressed
    assert large.sha256 == Artifact.of(b"".join(pieces)).sha256
    small = [Artifact.of(b"one"), Artifact.of(b"two")]
    keys = store.put_pack([small[0], large, small[1]])
    assert store.get(keys[large.sha256]) == b"".join(pieces)
    assert [store.get(keys[one.sha256]) for one in small] == [b"one", b"two"]
    assert store.unpacked(keys[large.sha256].partition("@")[2][:64]) == b"one" + b"".join(pieces) + b"two"


def test_a_pack_is_named_by_its_stored_bytes(store: ArtifactStore, folder: Path) -> None:
    store.put_pack([Artifact.of(b"one"), Artifact.of(b"two")])
    (pack,) = files_below(folder)
    assert pack.name == hashlib.sha256(pack.read_bytes()).hexdigest()


def test_missing_files_are_told(bucket: str, store: ArtifactStore, folder: Path) -> None:
    for one in (store, ArtifactStore(f"{bucket}/below")):
        assert one.missing([]) == set()
        assert one.missing(["0" * 64]) == {"0" * 64}
        keys = list(one.put_pack([Artifact.of(b"one"), Artifact.of(b"two")]).values())
        assert one.missing([*keys, "0" * 64]) == {"0" * 64}
    files_below(folder)[0].unlink()
    assert store.missing(keys) == set(keys)


def test_credentials_in_a_bucket_s_url_are_used(bucket: str) -> None:
    store = ArtifactStore(bucket.replace("s3://", "s3://someone:hunter%2F2@") + "/below")
    assert store.get(store.put(b"data")) == b"data"
    assert "hunter" not in store.location
    assert "someone" not in store.location


@pytest.mark.parametrize("name", ["not_a_bucket_", "no-such-bucket-anywhere"])
def test_storage_that_fails_is_told_without_secrets(bucket: str, name: str) -> None:
    store = ArtifactStore(f"s3://someone:hunter2@{name}/below")
    with pytest.raises(CatalogUnreachable, match="cannot be used") as refusal:
        store.put(b"data")
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    if name == "no-such-bucket-anywhere":
        assert not refusal.value.passing, "waiting makes no bucket"
        assert "the bucket's name" in str(refusal.value.hint)


def test_any_exception_of_a_filesystem_is_storage_that_fails(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtifactStore("memory://anywhere")

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("of its own kind")

    for name in ("exists", "cat_file", "pipe_file", "find"):
        monkeypatch.setattr(type(store._filesystem), name, fail)
    for use in (store.put, lambda data: store.get("0" * 64), lambda data: store.exists("0" * 64)):
        with pytest.raises(CatalogUnreachable, match="RuntimeError: of its own kind"):
            use(b"data")
    with pytest.raises(CatalogUnreachable, match="RuntimeError: of its own kind"):
        store.missing(["0" * 64])


@pytest.mark.parametrize(("root", "package"), [("s3://bucket", "s3fs"), ("gs://bucket", "gcsfs")])
def test_a_missing_package_is_named(root: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ImportError("Install something")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(MissingExtra, match=f"'{package}'(.|\n)*drsr\\[offline\\]"):
        ArtifactStore(root)
    with pytest.raises(SettingsError, match="no package for sftp:// is installed"):
        ArtifactStore("sftp://host/place")


def test_the_advice_for_a_lost_artifact_is_to_ingest_again(store: ArtifactStore) -> None:
    with pytest.raises(ArtifactCorrupt, match="touch the run's file and drsr ingest it again"):
        store.get("0" * 64)


def test_others_may_read_an_artifact_only_if_they_may_read_the_folder(tmp_path: Path) -> None:
    """Runs hold whatever an agent has seen. A team that shares the folder shares them."""
    for name, mode, wanted in (("private", None, 0o600), ("team", 0o750, 0o640)):
        root = tmp_path / name
        if mode is not None:
            root.mkdir()
            root.chmod(mode)
        key = ArtifactStore(str(root)).put(b"a run")
        assert (root / key[:2] / key).stat().st_mode & 0o777 == wanted
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700


def test_what_could_not_be_had_when_it_was_expected_is_asked_for_again() -> None:
    """Between the two a run is measured, which may take minutes: storage may be back."""
    store = ArtifactStore("memory://expected-too-early")
    key = hashlib.sha256(b"a run").hexdigest()
    store.expect(key)
    assert store._expected is not None
    assert isinstance(store._expected[1].exception(), ArtifactCorrupt)
    store.put(b"a run")
    assert store.get(key) == b"a run"
