"""The audit of the future: it passes on an honest store, and finds a leak and a stale number where there is one."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, update

from drsr.backbone import embedded, installing, load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, Ineligible
from drsr.errors import FeatureViewError
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.features.view_layouts import Kind
from drsr.offline.audit.checks import future
from drsr.offline.audit.checks.future import audit_future, features_without_future
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.featurize.files import FeatureBlock, read_file, write_file
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.stage import freeze
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Tokenizer
from drsr.request.rendering import Rendering, render
from drsr.request.request import Request
from drsr.request.view import caps_for
from drsr.settings import DTYPES
from tests.offline.chat_files import chat, write_json
from tests.tiny_backbones import ARCHITECTURES, as_backbone, tiny_backbone
from tests.tiny_models import Architecture

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def filled(catalog: Catalog, artifacts: ArtifactStore, folder: Path, backbone: FrozenLM, steps: int = 7) -> None:
    caps = caps_for(backbone.window)
    write_json(folder / "runs" / "a.json", chat(3, steps=steps))
    ingest(catalog, artifacts, str(folder / "runs"))
    freeze(catalog, artifacts, backbone.tokenizer, caps)
    assert materialize(catalog, artifacts, backbone, featurize_run(backbone, backbone.precision, caps)).featurized >= 2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_honest_store_passes(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, architecture: Architecture
) -> None:
    backbone = tiny_backbone(architecture)
    filled(catalog, artifacts, tmp_path, backbone)
    found = audit_future(catalog, artifacts, backbone)
    assert found.passed
    assert found.states == 3
    assert found.largest_difference < 1e-5


def test_an_honest_store_of_the_embedded_model_passes(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    installing.fetch(embedded.MODEL)
    backbone = load_backbone("smollm2-135m")
    assert isinstance(backbone, FrozenLM)
    filled(catalog, artifacts, tmp_path, backbone, steps=6)
    found = audit_future(catalog, artifacts, backbone)
    assert (found.states, found.leaks, found.stale) == (2, (), ())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_garbage_is_really_there_and_nothing_of_it_is_seen(architecture: Architecture, database: str) -> None:
    """Bit for bit the same with the real future, with two kinds of garbage, and with no future at all."""
    backbone = tiny_backbone(architecture)
    caps = caps_for(backbone.window)
    run = Trajectory("run", "openai", {"messages": chat(5, steps=7)["messages"]}, "chat/1")
    for frozen in freeze_trajectory(run, backbone.tokenizer, caps).states:
        real = candidate_features(backbone, frozen.state)
        ended = Trajectory("run", "openai", {"messages": run.request["messages"][: frozen.decision]}, "chat/1")
        others = [
            features_without_future(backbone, run, frozen.decision, caps, seed=1),
            features_without_future(backbone, run, frozen.decision, caps, seed=2),
            features_without_future(backbone, ended, frozen.decision, caps, seed=3),
        ]
        for other in others:
            assert not isinstance(other, Ineligible)
            assert other.matrix.tobytes() == real.matrix.tobytes()
            assert other[1:] == real[1:]
    assert future._garbage(1) != future._garbage(2)


def test_a_computation_that_looks_ahead_is_found(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leak of a millionth, made by hand: one column knows how long the recorded run is."""
    backbone = tiny_backbone("llama")
    filled(catalog, artifacts, tmp_path, backbone)
    lengths = []

    def noted(request: Request, tokenizer: Tokenizer) -> Rendering:
        rendering = render(request, tokenizer)
        lengths.append(len(rendering))
        return rendering

    def leaking(model: FrozenLM, state: DecisionState, kind: Kind) -> CandidateFeatures:
        found = candidate_features(model, state, kind=kind)
        ahead = 1e-6 * lengths[-1] if lengths else 0.0
        return found._replace(matrix=found.matrix + np.float32(ahead))

    monkeypatch.setattr(future, "render", noted)
    monkeypatch.setattr(future, "candidate_features", leaking)
    found = audit_future(catalog, artifacts, backbone)
    assert len(found.leaks) == found.states
    assert not found.passed


def test_a_number_that_was_changed_in_the_store_is_found(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    backbone = tiny_backbone("llama")
    filled(catalog, artifacts, tmp_path, backbone)
    with catalog.reading() as connection:
        view = get_view(connection, "default")
        blob = connection.execute(select(FeatureFile.blob)).scalar_one()
    rows = read_file(artifacts, view, blob)
    rows.matrix[0, 100] += 1e-3
    blocks = []
    for key in dict.fromkeys(rows.state_keys):
        mine = [number for number, found in enumerate(rows.state_keys) if found == key]
        prefix = rows.prefix_hashes[mine[0]]
        blocks.append(FeatureBlock(key, prefix, view.identity.layout_hash, rows.matrix[mine]))
    with catalog.writing() as connection:
        connection.execute(update(FeatureFile).values(blob=write_file(artifacts, view, blocks)))
    audited = audit_future(catalog, artifacts, backbone)
    assert audited.stale == (rows.state_keys[0],)
    assert audited.largest_difference == pytest.approx(1e-3, rel=0.01)
    assert not audited.passed


def test_an_empty_sample_is_no_verdict(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    backbone = tiny_backbone("llama")
    filled(catalog, artifacts, tmp_path, backbone)
    with catalog.writing() as connection:
        connection.execute(StateFeatures.__table__.delete())  # type: ignore[attr-defined]
    assert not audit_future(catalog, artifacts, backbone).passed


def test_another_language_model_cannot_judge(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    filled(catalog, artifacts, tmp_path, tiny_backbone("llama"))
    with pytest.raises(FeatureViewError, match="was read from 'tiny-llama'"):
        audit_future(catalog, artifacts, tiny_backbone("qwen3"))


def test_rounding_is_little_beside_the_deviation_of_a_column(database: str) -> None:
    """A label hidden below the old tolerance in a column that hardly varies; and one bit in a column from text."""
    honest = np.full((4, 2), 0.5, np.float32)
    from_text, deviation = np.array([True, False]), np.array([0.1, 5e-6])
    hidden = honest + np.array([[0, 5e-6], [0, -5e-6]] * 2, np.float32)
    assert future._difference(hidden, honest) <= future.AGREEMENT["float32"]
    assert not future._agree(hidden, honest, from_text, deviation)
    assert future._agree(honest + np.array([[0, 5e-7]], np.float32), honest, from_text, deviation)
    assert future._agree(hidden, honest, from_text, np.array([0.1, 0.1]))
    last_bit = honest.copy()
    last_bit[0, 0] = np.nextafter(last_bit[0, 0], np.float32(1))
    assert not future._agree(last_bit, honest, from_text, None)


def test_half_precision_has_limits_of_its_own(database: str) -> None:
    """Two ways of cutting a text into forwards differ by 8e-3 in bfloat16: in float32 a number so far off is wrong."""
    honest = np.full((4, 2), 0.5, np.float32)
    from_text, deviation = np.array([True, False]), np.array([0.1, 0.1])
    rounded = honest + np.array([[0, 8e-3]], np.float32)
    assert future._agree(rounded, honest, from_text, deviation, "bfloat16")
    assert not future._agree(rounded, honest, from_text, deviation, "float32")
    assert not future._agree(rounded, honest, from_text, deviation, "float16-mixed")
    assert not future._agree(honest + np.array([[0, 0.1]], np.float32), honest, from_text, deviation, "bfloat16")
    text_changed = honest + np.array([[8e-3, 0]], np.float32)
    assert not future._agree(text_changed, honest, from_text, deviation, "bfloat16")
    assert set(future.AGREEMENT) == set(DTYPES)


def test_features_in_bfloat16_pass_the_audit(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """Labelling read them in other forwards than the audit does."""
    backbone = as_backbone(copy.deepcopy(tiny_backbone("llama").model).bfloat16())
    filled(catalog, artifacts, tmp_path, backbone)
    found = audit_future(catalog, artifacts, backbone)
    assert found.passed
