"""Labels computed once more: agreement within what the dtype rounds, other samples by other seeds, parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Interaction, Label
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label import remeasure as remeasurement
from drsr.offline.label.harm import HARM_TOLERANCE, MeasuredHarm, measure_harm
from drsr.offline.label.remeasure import Remeasured, remeasure
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept
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


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The masks that are measured from here on."""
    masks: list[int] = []

    def counting(*arguments: Any) -> Iterator[MeasuredHarm]:
        for found in measure_harm(*arguments):
            masks.append(found.deletion_set.mask)
            yield found

    monkeypatch.setattr(remeasurement, "measure_harm", counting)
    return masks


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_is_only_named_is_measured_once_and_compared_every_time(
    measured: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, kept = counted(monkeypatch), Kept(tmp_path / "kept.sqlite", "code")
    keys = sorted({found.state_key for found in again(measured, artifacts).compared})
    named = {key: {1} for key in keys}
    masks.clear()
    fresh = again(measured, artifacts, 0, named=named)
    assert again(measured, artifacts, 0, named=named, kept=kept) == fresh
    assert masks == [1] * (2 * len(keys))
    assert again(measured, artifacts, 0, named=named, kept=kept) == fresh
    assert len(masks) == 2 * len(keys), "kept"
    other = named | {keys[0]: {2}}
    for _ in range(2):
        assert again(measured, artifacts, 0, named=other, kept=kept) == again(measured, artifacts, 0, named=other)
    assert again(measured, artifacts, 0, named=named, kept=kept) == fresh
    assert len(masks) == 4 * len(keys) + 1, "the other set once; twice all of them by the calls without"
    masks.clear()
    assert again(measured, artifacts, None, kept=kept) == again(measured, artifacts)
    assert len(masks) == 2 * fresh_sets(measured), "what is drawn is always measured"
    masks.clear()
    assert again(measured, artifacts, 0, named=named, kept=Kept(tmp_path / "kept.sqlite", "other code")) == fresh
    assert len(masks) == len(keys)
    again(measured, artifacts, 0, named=named, kept=kept)
    masks.clear()
    with measured.writing() as connection:
        connection.execute(update(Label).where(Label.mask == 1).values(harm=Label.harm + 0.5))
    for _ in range(2):
        changed = again(measured, artifacts, 0, named=named, kept=kept)
        assert changed.largest_difference == pytest.approx(0.5), "a changed label is found by what was kept"
    assert changed == again(measured, artifacts, 0, named=named)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_does_not_agree_and_what_is_gone_are_not_kept(
    measured: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path / "kept.sqlite", "code")
    named = {found.state_key: {1} for found in again(measured, artifacts).compared}
    masks = counted(monkeypatch)
    with measured.writing() as connection:
        connection.execute(update(Label).where(Label.mask == 1).values(harm=Label.harm + 0.5))
    for times in (1, 2):
        again(measured, artifacts, 0, named=named, kept=kept)
        assert len(masks) == times * len(named)
    with measured.writing() as connection:
        connection.execute(update(Label).where(Label.mask == 1).values(harm=Label.harm - 0.5))
    again(measured, artifacts, 0, named=named, kept=kept)
    for name in artifacts.stored():
        artifacts.delete(name)
    with pytest.raises(ArtifactCorrupt):
        again(measured, artifacts, 0, named=named, kept=kept)


def fresh_sets(catalog: Catalog) -> int:
    with catalog.reading() as connection:
        return connection.execute(select(func.count()).select_from(Label)).scalar_one()


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
