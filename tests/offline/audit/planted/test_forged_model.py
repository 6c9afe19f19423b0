"""Another language model under the identity of the recorded one: an audit believes no remembered hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from drsr.backbone.file_hashes import remembered
from drsr.backbone.model_folder import WEIGHTS_FILE, tensors_sha256
from drsr.offline.audit.checks import weight_files
from drsr.offline.audit.running import run_audit
from drsr.offline.publish.subject import Order, Subject
from tests.offline.small_pipeline import Pipeline


@pytest.fixture
def other_model(pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded model with one other weight. This machine's memory says that nothing changed."""
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    shutil.copytree(pipeline.backbone.removeprefix("path:"), folder)
    weights = folder / WEIGHTS_FILE
    recorded = tensors_sha256(weights)
    tensors = load_file(weights)
    first = min(tensors)
    tensors[first] = tensors[first] + 1
    save_file(tensors, weights, metadata={"format": "pt"})
    state = weights.stat()
    memory = {
        "path": str(weights.resolve()),
        "state": [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino],
        "hashes": {"tensors": recorded},
    }
    name = hashlib.sha256(os.fsencode(weights.resolve())).hexdigest()
    place = tmp_path / "cache" / "hashes" / f"{name}.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(memory))
    assert remembered(weights, tensors_sha256, what="tensors") == recorded != tensors_sha256(weights)
    return folder


def test_another_model(pipeline: Pipeline, other_model: Path) -> None:
    order = Order(backbone=f"path:{other_model}")
    (verdict,) = run_audit(Subject(pipeline.catalog, pipeline.artifacts, order), [weight_files.CHECK]).verdicts
    assert not verdict.passed
    assert verdict.detail.startswith("language model of the features, ")


def test_the_recorded_model(pipeline: Pipeline) -> None:
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order(backbone=pipeline.backbone))
    assert run_audit(subject, [weight_files.CHECK]).passed
