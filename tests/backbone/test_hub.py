"""Models of the hub are read from its cache on this machine, without a network."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest

from drsr.backbone import hub, load_backbone, load_tokenizer
from drsr.backbone.catalogue import fetch
from drsr.errors import BackboneError, BackboneNotFetched, UnknownBackbone
from tests.tiny_models import WINDOW, Architecture

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def snapshot(tiny_folder: Callable[[Architecture], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache as its library lays it out, with one model at one commit, and no network."""
    repository = tmp_path / "hub" / "models--acme--tiny"
    folder = repository / "snapshots" / COMMIT
    (repository / "blobs").mkdir(parents=True)
    folder.mkdir(parents=True)
    for file in tiny_folder("qwen3").iterdir():
        shutil.copy(file, repository / "blobs" / file.name)
        (folder / file.name).symlink_to(Path("..") / ".." / "blobs" / file.name)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return folder


@pytest.mark.parametrize("revision", [f"@{COMMIT}", "@main", ""])
def test_a_cached_model_is_loaded_without_a_connection(snapshot: Path, revision: str) -> None:
    name = f"hf:acme/tiny{revision}"
    backbone = load_backbone(name)
    assert (backbone.name, backbone.window) == (name, WINDOW)
    assert backbone.logits(np.arange(9, dtype=np.int32), [8]).shape == (1, 512)
    assert load_tokenizer(name).tokenizer.identity == backbone.tokenizer.identity
    assert fetch(name).where == str(snapshot)


def test_the_name_does_not_enter_the_identity(snapshot: Path) -> None:
    assert load_backbone("hf:acme/tiny").identity == load_backbone(f"path:{snapshot}").identity


@pytest.mark.parametrize("name", ["hf:acme/other", "hf:acme/tiny@v2", f"hf:acme/tiny@{COMMIT[::-1]}"])
def test_what_is_not_cached_says_how_to_fetch_it(snapshot: Path, name: str) -> None:
    for load in (load_backbone, load_tokenizer):
        with pytest.raises(BackboneNotFetched, match=f"hint: drsr backbone fetch {name}$"):
            load(name)


def test_a_download_that_was_broken_off(snapshot: Path) -> None:
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(BackboneNotFetched, match="hint: drsr backbone fetch hf:acme/tiny$"):
        load_backbone("hf:acme/tiny")
    assert load_tokenizer("hf:acme/tiny").window == WINDOW
    (snapshot / "tokenizer.json").unlink()
    with pytest.raises(BackboneNotFetched, match="hint: drsr backbone fetch hf:acme/tiny$"):
        load_tokenizer("hf:acme/tiny")


def test_a_fetch_that_fails_says_why(snapshot: Path) -> None:
    with pytest.raises(BackboneError, match="(?s)could not download hf:acme/other from the hub: .*hint: path:"):
        fetch("hf:acme/other")


def test_a_repository_without_safetensors(snapshot: Path) -> None:
    (snapshot / "model.safetensors").rename(snapshot / "pytorch_model.bin")
    with pytest.raises(BackboneError, match="does not hold all of config.json, tokenizer.json and safetensors"):
        fetch("hf:acme/tiny")


@pytest.mark.parametrize("name", ["hf:", "hf:a/b/c", "hf:acme/tiny@", "hf:acme tiny", "hf:a/b@c d", "hf:a--b/..c"])
def test_names_that_cannot_be(snapshot: Path, name: str) -> None:
    with pytest.raises(UnknownBackbone):
        load_backbone(name)


def test_parts_of_a_name() -> None:
    assert hub.parse("hf:Qwen/Qwen3.5-9B") == ("Qwen/Qwen3.5-9B", "main")
    assert hub.parse("hf:gpt2@refs/pr/3") == ("gpt2", "refs/pr/3")
