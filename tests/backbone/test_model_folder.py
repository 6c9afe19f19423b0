"""The hash of a model is over its tensors, whatever file holds them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from drsr.backbone.model_folder import read_window, tensors_sha256, weight_files
from drsr.errors import BackboneCorrupt, BackboneError


def test_every_part_of_a_tensor_counts(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype=np.float32)
    base: dict[str, np.ndarray] = {"a": numbers, "b": np.zeros(2, dtype=np.int64)}
    variants = [
        base,
        {**base, "a": numbers + np.float32(1e-6)},
        {**base, "a": numbers.reshape(2, 3)},
        {**base, "a": numbers.view(np.int32)},
        {"a2": numbers, "b": base["b"]},
        {"a": numbers},
        {**base, "c": np.zeros(0, dtype=np.float32)},
    ]
    hashes = set()
    for number, tensors in enumerate(variants):
        path = tmp_path / f"{number}.safetensors"
        save_file(tensors, path)
        hashes.add(tensors_sha256(path))
    assert len(hashes) == len(variants)


@given(cut=st.integers(min_value=0, max_value=200), flip=st.integers(min_value=0, max_value=7))
def test_a_damaged_file_is_corrupt_or_has_another_hash(
    cut: int, flip: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = save({"a": np.arange(10, dtype=np.float32)})
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "whole").write_bytes(whole)
    damaged = bytearray(whole[: max(0, len(whole) - cut)])
    if len(damaged) > flip:
        damaged[flip] ^= 0x40  # in the length of the header
    (folder / "damaged").write_bytes(damaged)
    with pytest.raises(BackboneCorrupt, match="damaged: "):
        tensors_sha256(folder / "damaged")
    assert tensors_sha256(folder / "whole")


def test_an_index_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    with pytest.raises(BackboneCorrupt, match="not an index of weights"):
        weight_files(tmp_path)


def test_an_index_cannot_point_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.safetensors").write_bytes(save({"a": np.zeros(1)}))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../outside.safetensors"}}')
    with pytest.raises(BackboneCorrupt, match="names weights in another folder"):
        weight_files(folder)


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ('{"max_position_embeddings": 4096}', 4096),
        ('{"n_positions": 1024}', 1024),
        ('{"max_position_embeddings": 1, "text_config": {"max_position_embeddings": 262144}}', 262_144),
    ],
)
def test_the_window(tmp_path: Path, config: str, window: int) -> None:
    (tmp_path / "config.json").write_text(config)
    assert read_window(tmp_path) == window


def test_a_model_that_does_not_say_its_window(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(BackboneError, match="max_position_embeddings"):
        read_window(tmp_path)


@pytest.mark.parametrize("name", ["evil/model-00001.safetensors", "./model-00001.safetensors", "a\\b.safetensors"])
def test_weights_in_another_folder_are_refused(tmp_path: Path, name: str) -> None:
    """Only the name was hashed, and the path would have been loaded."""
    (tmp_path / "model-00001.safetensors").write_bytes(b"")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(BackboneCorrupt, match="names weights in another folder"):
        weight_files(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("config.json", '{"transformers_weights": "other.safetensors"}', "names its own file of weights"),
        ("adapter_config.json", "{}", "holds an adapter"),
    ],
)
def test_whatever_makes_transformers_load_other_weights_is_refused(
    tmp_path: Path, file: str, content: str, says: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / file).write_text(content)
    with pytest.raises(BackboneCorrupt, match=says):
        weight_files(tmp_path)
