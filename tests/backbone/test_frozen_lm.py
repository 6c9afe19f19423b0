"""Models of three architectures behind the contract: exact logits, a stable identity, and nothing loaded half."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import BackboneCorrupt, BackboneError, MissingExtra, SettingsError, WindowExceeded
from drsr.request.contracts import Backbone
from tests.tiny_models import VOCABULARY, WINDOW, Architecture, tiny_config, tiny_model, tokenizer_json

TinyFolder = Callable[[Architecture], Path]
ARCHITECTURES = get_args(Architecture)


def load(folder: Path, **settings: str) -> FrozenLM:
    return FrozenLM.from_folder(folder, name="tiny", **settings)


@pytest.fixture
def llama(tiny_folder: TinyFolder, tmp_path: Path) -> Path:
    """A copy of the tiny Llama that a test may change."""
    return Path(shutil.copytree(tiny_folder("llama"), tmp_path / "llama"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_at_positions_equal_those_of_a_full_forward(tiny_folder: TinyFolder, architecture: Architecture) -> None:
    backbone: Backbone = load(tiny_folder(architecture))
    ids = np.random.default_rng(3).integers(0, VOCABULARY, size=150).astype(np.int32)
    with torch.no_grad():
        everywhere = tiny_model(architecture)(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
    positions = [149, 0, 70, 70]
    rows = backbone.logits(ids, positions)
    assert rows.dtype == np.float32
    assert np.ptp(everywhere[149]) > 0.5  # a model whose output does not vary would make the comparison empty
    np.testing.assert_allclose(rows, everywhere[positions], atol=1e-5)
    # Causal: what comes later changes nothing.
    np.testing.assert_allclose(backbone.logits(ids[:71], [70]), rows[2:3], atol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_frozen_and_says_what_it_is(tiny_folder: TinyFolder, architecture: Architecture) -> None:
    backbone = load(tiny_folder(architecture))
    assert (backbone.name, backbone.window) == ("tiny", WINDOW)
    assert not backbone.model.training
    assert not any(parameter.requires_grad for parameter in backbone.model.parameters())
    assert {parameter.dtype for parameter in backbone.model.parameters()} == {torch.float32}
    assert backbone.tokenizer.encode_frame("<|im_start|>").tolist() == [1]


def test_the_tiny_qwen_has_the_papers_geometry(tiny_folder: TinyFolder) -> None:
    settings = load(tiny_folder("qwen3_5")).model.config
    assert (settings.num_hidden_layers, settings.num_attention_heads, settings.num_key_value_heads) == (32, 16, 4)
    full = [number for number, kind in enumerate(settings.layer_types, start=1) if kind == "full_attention"]
    assert full == [4, 8, 12, 16, 20, 24, 28, 32]


def test_the_language_part_of_a_model_that_also_sees(tmp_path: Path) -> None:
    """The paper's backbone is published with a vision tower; only its language model is loaded."""
    import transformers

    library: Any = transformers

    vision = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": 32}
    text = {**tiny_config("qwen3_5").to_dict(), "num_hidden_layers": 4, "layer_types": None}
    whole = library.Qwen3_5ForConditionalGeneration(library.Qwen3_5Config(text_config=text, vision_config=vision))
    whole.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    backbone = load(tmp_path)
    assert (backbone.window, type(backbone.model).__name__) == (WINDOW, "Qwen3_5ForCausalLM")
    ids = np.arange(40, dtype=np.int32)
    with torch.no_grad():
        expected = whole.eval()(input_ids=torch.arange(40)[None]).logits[0, -1:].numpy()
    np.testing.assert_allclose(backbone.logits(ids, [39]), expected, atol=1e-5)


def test_bounds(tiny_folder: TinyFolder) -> None:
    backbone = load(tiny_folder("llama"))
    assert backbone.logits(np.zeros(WINDOW, dtype=np.int32), [WINDOW - 1]).shape == (1, VOCABULARY)
    assert backbone.logits(np.zeros(3, dtype=np.int32), []).shape == (0, VOCABULARY)
    with pytest.raises(WindowExceeded, match="^tiny: 2049 tokens, the window holds 2048"):
        backbone.logits(np.zeros(WINDOW + 1, dtype=np.int32), [0])
    for positions in ([3], [-1]):
        with pytest.raises(IndexError, match="positions must be from 0 to 2"):
            backbone.logits(np.zeros(3, dtype=np.int32), positions)
    for token in (-1, VOCABULARY):
        with pytest.raises(ValueError, match="token ids must be from 0 to 511"):
            backbone.logits(np.array([token], dtype=np.int32), [0])


def test_other_dtypes_round_but_keep_the_identity(tiny_folder: TinyFolder) -> None:
    exact, rounded = load(tiny_folder("llama")), load(tiny_folder("llama"), dtype="bfloat16")
    assert rounded.model.dtype == torch.bfloat16
    assert rounded.identity == exact.identity
    ids = np.arange(20, dtype=np.int32)
    assert rounded.logits(ids, [19]).dtype == np.float32
    np.testing.assert_allclose(rounded.logits(ids, [19]), exact.logits(ids, [19]), atol=0.3)


def test_settings_that_cannot_be(tiny_folder: TinyFolder) -> None:
    with pytest.raises(SettingsError, match="unknown dtype 'float8'"):
        load(tiny_folder("llama"), dtype="float8")
    with pytest.raises(SettingsError, match="the device 'nonsense' cannot be used"):
        load(tiny_folder("llama"), device="nonsense")


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_identity_survives_what_does_not_matter(tiny_folder: TinyFolder, llama: Path) -> None:
    identity = load(tiny_folder("llama")).identity
    assert load(llama).identity == identity
    change_config(llama, transformers_version="9.9", _name_or_path="/elsewhere", use_cache=False)
    tensors = load_file(llama / "model.safetensors")
    save_file(dict(reversed(tensors.items())), llama / "model.safetensors", {"format": "pt", "written": "again"})
    (llama / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer_json()), indent=3))
    (llama / "README.md").write_text("a model")
    assert load(llama).identity == identity


def flip_one_weight(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][5] += 1e-3
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    "change",
    [
        flip_one_weight,
        lambda folder: change_config(folder, rms_norm_eps=1e-3),
        lambda folder: (folder / "tokenizer.json").write_text(tokenizer_json().replace('"<think>"', '"<thought>"')),
    ],
)
def test_identity_notices_what_matters(tiny_folder: TinyFolder, llama: Path, change: Callable[[Path], Any]) -> None:
    assert load(llama).identity == load(tiny_folder("llama")).identity
    change(llama)
    assert load(llama).identity != load(tiny_folder("llama")).identity


def test_weights_in_several_files(llama: Path) -> None:
    whole = load(llama)
    whole.model.save_pretrained(llama, max_shard_size="40KB")
    (llama / "model.safetensors").unlink()
    assert len(list(llama.glob("model-*.safetensors"))) > 1
    ids = np.arange(30, dtype=np.int32)
    # Not bit for bit: how the weights lie in memory decides which of the processor's instructions are used.
    np.testing.assert_allclose(load(llama).logits(ids, [29]), whole.logits(ids, [29]), atol=1e-5)
    next(llama.glob("model-00002-*.safetensors")).unlink()
    with pytest.raises(BackboneCorrupt, match="these are missing: .'model-00002-"):
        load(llama)


def test_a_missing_tensor_is_never_filled_with_random_numbers(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, llama / "model.safetensors", {"format": "pt"})
    with pytest.raises(BackboneCorrupt, match="1 tensors are missing, such as model.layers.2.mlp.up_proj.weight"):
        load(llama)


def test_a_tensor_of_another_shape(llama: Path) -> None:
    change_config(llama, intermediate_size=65)
    with pytest.raises(BackboneError, match="transformers cannot load it"):
        load(llama)


@pytest.mark.parametrize("kept", [0, 4, 8, 500, 60_000])
def test_weights_cut_short(llama: Path, kept: int) -> None:
    path = llama / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BackboneCorrupt, match="model.safetensors: "):
        load(llama)


def test_pickled_weights_are_not_even_opened(llama: Path) -> None:
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    with pytest.raises(BackboneError, match="never pickled .bin files"):
        load(llama)


def test_code_that_comes_with_a_model_is_not_run(llama: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (llama / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Config: pass\nclass Model: pass\n")
    change_config(
        llama, model_type="evil", auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    )
    with pytest.raises(BackboneError, match="transformers cannot load it"):
        load(llama)
    assert not ran.exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(llama: Path, file: str) -> None:
    (llama / file).unlink()
    with pytest.raises(BackboneError, match=file):
        load(llama)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "llama"}'])
def test_a_broken_config(llama: Path, text: str) -> None:
    (llama / "config.json").write_text(text)
    with pytest.raises(BackboneError, match="config.json: "):
        load(llama)


def test_the_tokenizer_of_another_model(llama: Path) -> None:
    larger = Tokenizer.from_str(tokenizer_json())
    larger.add_tokens([f"<extra_{number}>" for number in range(VOCABULARY + 1 - larger.get_vocab_size())])
    larger.save(str(llama / "tokenizer.json"))
    with pytest.raises(BackboneError, match="ids up to 512, the model only 512 embeddings"):
        load(llama)


def test_without_transformers_the_error_names_the_extra(
    tiny_folder: TinyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder("llama")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"'transformers'.*\n.*pip install 'drsr\[backbone\]'"):
        load(folder)


def test_loading_opens_no_connection(tiny_folder: TinyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_folder("qwen3")

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert load(folder).window == WINDOW
