"""Every name leads to its backbone, or to an error that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from drsr.backbone import list_backbones, load_backbone, load_tokenizer
from drsr.backbone.catalogue import KNOWN_NAMES, fetch, identity_of, load_config
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone, ScriptedTokenizer
from drsr.errors import BackboneError, InputError, UnknownBackbone
from drsr.features.geometry import geometry_from, geometry_of
from tests.tiny_models import WINDOW, Architecture


def test_the_scripted_double_needs_no_files(own_cache: Path) -> None:
    assert isinstance(load_backbone("scripted"), ScriptedBackbone)
    tokenizer, window = load_tokenizer("scripted")
    assert isinstance(tokenizer, ScriptedTokenizer)
    assert window == load_backbone("scripted").window
    assert fetch("scripted").size == 0


def test_a_path(tiny_folder: Callable[[Architecture], Path]) -> None:
    folder = tiny_folder("llama")
    backbone = load_backbone(f"path:{folder}", device="cpu", dtype="float32")
    assert (backbone.name, backbone.window) == (f"path:{folder}", WINDOW)
    tokenizer, window = load_tokenizer(f"path:{folder}")
    assert (tokenizer.identity, window) == (backbone.tokenizer.identity, backbone.window)
    assert fetch(f"path:{folder}").size > 10_000


@pytest.mark.parametrize("name", ["", "smollm2", "gpt-4", "Scripted", "http://example.org/model", "PATH:/models"])
@pytest.mark.parametrize("use", [load_backbone, load_tokenizer, fetch])
def test_an_unknown_name_lists_the_known_ones(name: str, use: Callable[[str], object]) -> None:
    with pytest.raises(UnknownBackbone) as caught:
        use(name)
    assert all(known in str(caught.value) for known in KNOWN_NAMES)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        load_backbone(f"path:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("name", ["scripted", "hf:acme/tiny"])
def test_a_source_file_is_only_for_models_that_are_converted(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only for smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b"):
        fetch(name, source=tmp_path)
    with pytest.raises(InputError, match="only for smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b"):
        fetch(name, force=True)


def test_the_list_with_nothing_fetched(own_cache: Path) -> None:
    rows = {row.name: row for row in list_backbones()}
    assert {"smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "hf:Qwen/Qwen3.5-9B", "scripted"} < set(rows)
    assert rows["smollm2-135m"].fetched is False
    assert rows["smollm2-135m"].size is None
    assert rows["smollm2-135m"].licence == "Apache-2.0"
    assert rows["path:<dir>"].fetched is None


def test_the_list_with_the_embedded_model(smollm2: Path) -> None:
    row = next(row for row in list_backbones() if row.name == "smollm2-135m")
    assert row.fetched is True
    assert row.where == str(smollm2)
    assert row.size is not None
    assert row.size > 500_000_000


def test_a_tokenizer_comes_without_torch_and_importing_comes_without_anything(smollm2: Path) -> None:
    script = """
import json, sys
heavy = lambda: sorted({name.split(".")[0] for name in sys.modules} & {"torch", "transformers", "tokenizers", "gguf"})
import drsr.backbone, drsr.backbone.frozen_lm, drsr.backbone.scripted
imported = heavy()
tokenizer, window = drsr.backbone.load_tokenizer("smollm2-135m")
print(json.dumps([imported, heavy(), window, len(tokenizer.encode_contents(["some text"])[0])]))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], ["tokenizers"], 8192, 2]


def test_the_identity_is_known_without_loading(tiny_folder: Callable[[Architecture], Path]) -> None:
    name = f"path:{tiny_folder('llama')}"
    assert identity_of(name) == load_backbone(name).identity
    assert identity_of("scripted") == load_backbone("scripted").identity


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "qwen3_5"])
def test_the_geometry_is_known_without_loading(
    tiny_folder: Callable[[Architecture], Path], architecture: Architecture
) -> None:
    """So that what waits to be featurized can be counted without reading the weights."""
    name = f"path:{tiny_folder(architecture)}"
    backbone = load_backbone(name)
    assert isinstance(backbone, FrozenLM)
    assert geometry_from(load_config(name), name) == geometry_of(backbone)
    assert load_config("scripted") is None


def test_settings_that_transformers_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nobody-knows-it"}')
    with pytest.raises(BackboneError, match="transformers cannot read its settings"):
        load_config(f"path:{tmp_path}")
