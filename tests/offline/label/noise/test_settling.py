"""A labeler in half precision: one way of computing for all its labels, and a noise floor before the first."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import BackboneError, SettingsError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Labeler, StateMeasurement
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.noise.floor import NoiseFloor
from drsr.offline.label.noise.settling import STATES, settled
from drsr.offline.label.records import recorded_floor, recorded_identity
from drsr.offline.label.stage import LabelRun, label, label_run
from drsr.offline.label.status import label_status
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import caps_for
from tests.offline.chat_files import chat, write_json
from tests.tiny_backbones import as_backbone, tiny_backbone


@pytest.fixture
def exact() -> FrozenLM:
    return tiny_backbone("llama")


@pytest.fixture
def half(exact: FrozenLM) -> FrozenLM:
    return as_backbone(copy.deepcopy(exact.model).bfloat16())


@pytest.fixture
def frozen(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, exact: FrozenLM) -> Catalog:
    for seed, steps in enumerate((5, 8)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, exact.tokenizer, caps_for(exact.window))
    return catalog


def planned(backbone: FrozenLM, **options: Any) -> tuple[TargetNll, LabelRun]:
    scorer = TargetNll(backbone)
    return scorer, label_run(scorer, backbone.precision, caps_for(backbone.window), **options)


def methods(catalog: Catalog) -> list[str]:
    with catalog.reading() as connection:
        return list(connection.execute(select(StateMeasurement.method)).scalars())


def test_the_floor_is_measured_before_the_first_label_and_recorded(
    frozen: Catalog, artifacts: ArtifactStore, exact: FrozenLM, half: FrozenLM
) -> None:
    scorer, run = planned(half)
    run = settled(frozen, artifacts, scorer, run, lambda: TargetNll(exact), accept_noise=True)
    assert run.noise_floor is not None
    floor = NoiseFloor(**run.noise_floor)
    assert (floor.reference, floor.states) == ("float32", min(STATES, 3))
    assert floor.mean > 0
    assert methods(frozen) == []
    label(frozen, artifacts, scorer, run)
    with frozen.reading() as connection:
        assert recorded_floor(connection, "default") == run.noise_floor
        (status,) = label_status(connection, run.freezing)
        found = recorded_identity(connection, "default")
    assert status.noise_floor == run.noise_floor
    assert found is not None
    assert found[1].method == run.identity.method == scorer.method.value

    def never() -> TargetNll:
        raise AssertionError("measured again")

    settled(frozen, artifacts, *planned(half), never)


def test_a_noisy_labeler_is_refused_unless_asked_for(
    frozen: Catalog, artifacts: ArtifactStore, exact: FrozenLM, half: FrozenLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = NoiseFloor("float32", 3, 21, 0.009, 0.018, 0.032, 0.002)
    monkeypatch.setattr("drsr.offline.label.noise.settling.noise_floor", lambda *asked: noisy)
    with pytest.raises(SettingsError, match=r"in bfloat16 one harm in ten is off by more than 0\.0180"):
        settled(frozen, artifacts, *planned(half), lambda: TargetNll(exact))
    assert methods(frozen) == []
    scorer, run = planned(half)
    run = settled(frozen, artifacts, scorer, run, lambda: TargetNll(exact), accept_noise=True)
    assert run.noise_floor == noisy._asdict()
    monkeypatch.setattr("drsr.offline.label.noise.settling.noise_floor", lambda *asked: None)
    with pytest.raises(BackboneError, match="cannot be measured: none of the first"):
        settled(frozen, artifacts, *planned(half), lambda: TargetNll(exact))


def test_float32_has_nothing_to_settle_and_no_second_model(
    frozen: Catalog, artifacts: ArtifactStore, exact: FrozenLM
) -> None:
    def never() -> TargetNll:
        raise AssertionError("a second language model was loaded")

    scorer, run = planned(exact)
    assert settled(frozen, artifacts, scorer, run, never) is run
    label(frozen, artifacts, scorer, run)
    with frozen.reading() as connection:
        recorded = recorded_floor(connection, "default")
        found = recorded_identity(connection, "default")
    assert recorded is not None
    assert NoiseFloor(**recorded).reference == "direct"
    assert NoiseFloor(**recorded).largest == scorer.difference
    assert found is not None
    assert found[1].method is None


def test_one_labeler_never_mixes_two_methods(frozen: Catalog, artifacts: ArtifactStore, half: FrozenLM) -> None:
    """A first worker labels by shared prefixes; a second, whose own check fails, must not go on directly."""
    label(frozen, artifacts, *planned(half, limit=1))
    assert set(methods(frozen)) == {"shared_prefix"}
    scorer, run = planned(half)
    scorer._compute_directly("a simulated fault of this worker's GPU")
    with pytest.raises(BackboneError, match="cannot be kept to: a simulated fault") as refusal:
        label(frozen, artifacts, scorer, run)
    assert "--labeler NAME" in str(refusal.value.hint)
    assert set(methods(frozen)) == {"shared_prefix"}


def test_a_labeler_that_computes_directly_goes_on_so(frozen: Catalog, artifacts: ArtifactStore, half: FrozenLM) -> None:
    first, run = planned(half, limit=1)
    first._compute_directly("as on a first machine")
    label(frozen, artifacts, first, run)
    second, run = planned(half)
    assert second.method is Method.SHARED_PREFIX
    label(frozen, artifacts, second, run)
    assert set(methods(frozen)) == {"direct"}
    assert len(methods(frozen)) > 1


def test_a_labeler_that_has_mixed_two_methods_before_is_refused(
    frozen: Catalog, artifacts: ArtifactStore, half: FrozenLM
) -> None:
    label(frozen, artifacts, *planned(half, limit=1))
    with frozen.writing() as connection:
        connection.execute(update(Labeler).values(method=None))
    with pytest.raises(SettingsError, match="measures with method None, these settings with 'shared_prefix'"):
        label(frozen, artifacts, *planned(half))


def test_a_method_that_is_kept_to_is_not_changed_by_a_later_state(half: FrozenLM) -> None:
    scorer = TargetNll(half)
    scorer.keep_to(Method.SHARED_PREFIX)
    with pytest.raises(BackboneError, match="cannot be kept to"):
        scorer._compute_directly("a state on which both ways differ")
    scorer = TargetNll(half)
    scorer.keep_to(Method.DIRECT)
    assert scorer.method is Method.DIRECT
