"""Larger models from a file, from numbered parts or from the hub: the published bytes or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drsr.backbone import hub, installing, larger, load_backbone
from drsr.backbone.catalogue import CONVERTED, fetch
from drsr.backbone.file_hashes import file_sha256
from drsr.backbone.gguf_conversion import convert_gguf
from drsr.errors import BackboneCorrupt, BackboneError, BackboneNotFetched, InputError
from tests.backbone.small_gguf import write_small_gguf

NAME = "qwen2.5-coder-0.5b"
PARTS = 11
"""More than nine: in the order of their names the tenth would come second."""


@pytest.fixture
def whole(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small file in the place of the published one, pinned in the same way."""
    path = write_small_gguf(tmp_path / "small.gguf", "qwen2", "same")
    published = larger._PUBLISHED[NAME]._replace(size=path.stat().st_size)
    monkeypatch.setitem(larger._PUBLISHED, NAME, published)
    monkeypatch.setitem(CONVERTED, NAME, larger.MODELS[NAME]._replace(gguf_sha256=file_sha256(path), identity=None))
    return path


@pytest.fixture
def parts(whole: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    data = whole.read_bytes()
    step = -(-len(data) // PARTS)
    for number in range(PARTS):
        (folder / f"part{number + 1}.bin").write_bytes(data[number * step : (number + 1) * step])
    (folder / "README.txt").write_text("eleven parts")
    return folder


def nothing_is_left(own_cache: Path) -> bool:
    return not (own_cache / "backbones").exists() or list((own_cache / "backbones").iterdir()) == []


def test_parts_are_joined_in_the_order_of_their_numbers(whole: Path, parts: Path, tmp_path: Path) -> None:
    said: list[str] = []
    fetch(NAME, source=parts, report=said.append)
    assert said[0] == f"joining {PARTS} parts of {parts}"
    joined = load_backbone(NAME)
    convert_gguf(whole, tmp_path / "parts")
    assert joined.identity == load_backbone(f"path:{tmp_path / 'parts'}").identity
    assert joined.window == 256
    assert fetch(NAME, source=parts).where == str(CONVERTED[NAME].folder), "once it is there nothing is read"


def test_the_whole_file(whole: Path) -> None:
    fetch(NAME, source=whole)
    assert load_backbone(NAME).logits(np.arange(9, dtype=np.int32), [8]).shape[0] == 1


def test_the_hub_where_there_is_one(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def downloaded(repository: str, file: str) -> Path:
        asked.append((repository, file))
        return whole

    monkeypatch.setattr(hub, "fetch_file", downloaded)
    fetch(NAME)
    assert asked == [("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")]
    assert CONVERTED[NAME].is_fetched


def test_without_a_hub_the_error_says_what_to_do(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(BackboneError, match=r"(?s)could not download qwen2.*--from FILE-OR-FOLDER"):
        fetch("qwen2.5-coder-1.5b")
    assert nothing_is_left(own_cache)


@pytest.mark.parametrize(("gone", "named"), [((4,), "part 4 of"), ((1, 7, 8), "part 1, 7, 8 of")])
def test_missing_parts_are_named(own_cache: Path, parts: Path, gone: tuple[int, ...], named: str) -> None:
    for number in gone:
        (parts / f"part{number}.bin").unlink()
    with pytest.raises(InputError, match=f"{named} at least {PARTS} is missing"):
        fetch(NAME, source=parts)
    assert nothing_is_left(own_cache)


def test_the_last_part_is_missed_by_its_bytes(own_cache: Path, parts: Path) -> None:
    size = (parts / f"part{PARTS}.bin").stat().st_size
    (parts / f"part{PARTS}.bin").unlink()
    with pytest.raises(BackboneCorrupt, match=f"parts 1 to 10 with .*: {size:,} bytes are missing"):
        fetch(NAME, source=parts)
    assert nothing_is_left(own_cache)


def test_an_altered_part_is_refused_and_all_are_listed(own_cache: Path, parts: Path) -> None:
    altered = parts / "part5.bin"
    data = bytearray(altered.read_bytes())
    data[100] ^= 1
    altered.write_bytes(bytes(data))
    with pytest.raises(BackboneCorrupt, match=rf"altered.*part5\.bin {file_sha256(altered)[:16]}"):
        fetch(NAME, source=parts)
    assert nothing_is_left(own_cache)
    with pytest.raises(BackboneNotFetched):
        load_backbone(NAME)


def test_other_files_and_folders(own_cache: Path, whole: Path, parts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file here has a name that ends in a number"):
        fetch(NAME, source=tmp_path / "empty")
    with pytest.raises(InputError, match="there is no such file"):
        fetch(NAME, source=tmp_path / "nowhere")
    (parts / "copy05.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"two files have one number: copy05\.bin, part5\.bin"):
        fetch(NAME, source=parts)
    short = tmp_path / "short.gguf"
    short.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(BackboneCorrupt, match="1 bytes are missing"):
        fetch(NAME, source=short)
    long = tmp_path / "long.gguf"
    long.write_bytes(whole.read_bytes()[:-1] + b"!")
    with pytest.raises(BackboneCorrupt, match="SHA-256 is"):
        fetch(NAME, source=long)
    assert nothing_is_left(own_cache)


def test_a_crash_leaves_nothing(own_cache: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(gguf: Path, into: Path) -> None:
        (into / "model.safetensors").write_bytes(b"half of it")
        raise RuntimeError("out of memory")

    monkeypatch.setattr(installing, "convert_gguf", crash)
    with pytest.raises(RuntimeError, match="out of memory"):
        fetch(NAME, source=parts)
    assert nothing_is_left(own_cache)


def test_the_published_files_are_those_that_public_repositories_pin() -> None:
    """The two numbers of each that anybody can check against the publisher's page."""
    assert {name: (model.gguf_sha256, larger._PUBLISHED[name].size) for name, model in larger.MODELS.items()} == {
        "qwen2.5-coder-0.5b": ("1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491_400_064),
        "qwen2.5-coder-1.5b": ("cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", 1_117_320_768),
    }
