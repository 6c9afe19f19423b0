"""What waits is counted without the language model: its geometry is remembered by its config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drsr.backbone.catalogue import load_config
from drsr.errors import BackboneError
from drsr.features.geometry import geometry_from
from drsr.features.view_layouts import Kind, kind_of, layout_from
from drsr.offline.featurize import stage
from drsr.offline.featurize.stage import layout_without_weights
from tests.tiny_models import build_tiny

VIEWS = ("default", "window", "wide")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a language model; nothing is remembered yet."""
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    return build_tiny("llama", tmp_path / "model")


def not_asked(name: str) -> None:
    raise AssertionError(f"transformers is asked for {name}")


def test_transformers_is_asked_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"path:{model}"
    expected = [layout_from(kind_of(view), load_config(name), name) for view in VIEWS]
    assert layout_without_weights(name) == expected[0]
    monkeypatch.setattr(stage, "load_config", not_asked)
    assert [layout_without_weights(name, view) for view in VIEWS] == expected


def test_other_settings_are_another_language_model(model: Path) -> None:
    name, path = f"path:{model}", model / "config.json"
    before = layout_without_weights(name)
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"num_hidden_layers": settings["num_hidden_layers"] + 4}))
    after = layout_without_weights(name)
    assert after != before
    assert after == layout_from(Kind.FULL, load_config(name), name)
    assert geometry_from(load_config(name), name).layers == settings["num_hidden_layers"] + 4


def test_a_cache_folder_that_cannot_be_written_to_costs_only_time(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "a-file" / "below"))
    name = f"path:{model}"
    assert layout_without_weights(name) == layout_without_weights(name)


def test_a_failure_is_not_remembered(model: Path) -> None:
    path = model / "config.json"
    sound = path.read_text()
    path.write_text('{"model_type": "nobody-knows-it", "max_position_embeddings": 512}')
    for _ in range(2):
        with pytest.raises(BackboneError, match="transformers cannot read its settings"):
            layout_without_weights(f"path:{model}")
    path.write_text(sound)
    assert layout_without_weights(f"path:{model}").columns
