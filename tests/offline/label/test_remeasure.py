"""Labels computed once more: agreement within what the dtype rounds, other samples by other seeds, parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Interaction, Label
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label import remeasure as remeasurement
from drsr.offline.label.harm import HARM_TOLERANCE, measure_harm
from drsr.offline.label.remeasure import Remeasured, remeasure
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Backbone
from drsr.request.view import Caps, caps_for
from tests.offline.chat_files import chat, task_in_split, write_json
from tests.tiny_backbones import ARCHITECTURES, tiny_backbone
from tests.tiny_models import Architecture

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)
STEPS, STATES = (5, 8, 9), 7
"""Of the runs."""


def labelled(
    catalog: Catalog, artifacts: ArtifactStore, folder: Path, backbone: Backbone, dtype: str, runs: int
) -> None:
    for seed, steps in enumerate(STEPS[:runs]):
        task = task_in_split("train" if seed else "test")
        write_json(folder / f"{seed}.json", chat(seed, steps=steps) | {"task": task})
    ingest(catalog, artifacts, str(folder), source="runs")
    caps = CAPS if backbone is BACKBONE else caps_for(backbone.window)
    freeze(catalog, artifacts, backbone.tokenizer, caps)
    scorer = TargetNll(backbone)
    label(catalog, artifacts, scorer, label_run(scorer, dtype, caps))


@pytest.fixture
def measured(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Catalog:
    labelled(catalog, artifacts, tmp_path / "runs", BACKBONE, "float32", len(STEPS))
    return catalog


def again(catalog: Catalog, artifacts: ArtifactStore, sample: int | None = None, **options: object) -> Remeasured:
    return remeasure(catalog, artifacts, BACKBONE, CAPS, 1, sample, **({"seed": 0} | options))  # type: ignore[arg-type]


def test_agreement_and_a_changed_label(measured: Catalog, artifacts: ArtifactStore) -> None:
    agreed = again(measured, artifacts)
    assert agreed.agrees
    assert (agreed.states, agreed.changed_unsafe, agreed.mismatches) == (STATES, 0, ())
    assert agreed.largest_difference < 1e-9
    with measured.writing() as connection:
        connection.execute(update(Label).where(Label.mask == 1).values(harm=Label.harm + 0.5))
    changed = again(measured, artifacts)
    assert changed.largest_difference == pytest.approx(0.5)
    assert not changed.agrees


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_label_that_is_missing_is_no_agreement(measured: Catalog, artifacts: ArtifactStore) -> None:
    with measured.writing() as connection:
        connection.execute(delete(Interaction))
        connection.execute(delete(Label).where(Label.mask == 3))
    found = again(measured, artifacts)
    assert not found.agrees
    assert len(found.mismatches) == STATES
    assert found.mismatches[0].endswith("other deletion sets")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_state_that_does_not_fit_is_named_and_the_others_compared(
    measured: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def sometimes(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise MemoryError("planted")
        return measure_harm(*arguments)

    monkeypatch.setattr(remeasurement, "measure_harm", sometimes)
    found = again(measured, artifacts)
    assert len({compared.state_key for compared in found.compared}) == STATES - 1
    (mismatch,) = found.mismatches
    assert "not enough memory" in mismatch


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_verdict_that_is_wrong_is_no_agreement(measured: Catalog, artifacts: ArtifactStore) -> None:
    """The number is right, and what it was taken for is not."""
    harms = [found.direct for found in again(measured, artifacts).compared if found.mask == 1]
    assert all(abs(harm - HARM_TOLERANCE) > 1e-3 for harm in harms)
    with measured.writing() as connection:
        connection.execute(update(Label).where(Label.mask == 1).values(unsafe=~Label.unsafe))
    found = again(measured, artifacts)
    assert (found.changed_unsafe, found.changed_near) == (STATES, 0)
    assert found.largest_difference < 1e-9
    assert not found.agrees


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_set_at_the_tolerance_may_fall_either_way(
    measured: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    harms = {abs(found.direct - HARM_TOLERANCE) for found in again(measured, artifacts).compared}
    monkeypatch.setattr("drsr.offline.label.remeasure.agreement_of", lambda backbone: sorted(harms)[len(harms) // 2])
    with measured.writing() as connection:
        connection.execute(update(Label).values(unsafe=~Label.unsafe))
    found = again(measured, artifacts)
    assert found.changed_near > 0
    assert found.changed_unsafe > 0
    assert found.changed_near + found.changed_unsafe == found.sets


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_other_seeds_draw_other_states(measured: Catalog, artifacts: ArtifactStore) -> None:
    def drawn(seed: int) -> frozenset[str]:
        return frozenset(found.state_key for found in again(measured, artifacts, 2, seed=seed).compared)

    assert drawn(3) == drawn(3)
    assert len({drawn(seed) for seed in range(6)}) > 1


def test_only_a_part(measured: Catalog, artifacts: ArtifactStore) -> None:
    counts = [again(measured, artifacts, part=Selection(split=split)).states for split in ("train", "test")]
    assert counts == [6, 1]
    assert again(measured, artifacts, part=Selection(source="elsewhere")).states == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_labels_in_half_precision_agree(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, architecture: Architecture
) -> None:
    backbone = tiny_backbone(architecture, "cpu", "bfloat16")
    labelled(catalog, artifacts, tmp_path / "runs", backbone, "bfloat16", runs=1)
    found = remeasure(catalog, artifacts, backbone, caps_for(backbone.window), 1, None, seed=0)
    assert found.states == 1
    assert found.largest_difference > 1e-4, "else there would be no need of a table"
    assert found.agrees, found.largest_difference
