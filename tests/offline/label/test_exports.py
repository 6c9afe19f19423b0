"""Labels exported from one catalog and taken over by another: the same facts, once, or a named refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Labeler
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.exports import export_labels, import_labels
from drsr.offline.label.noise.floor import NoiseFloor
from drsr.offline.label.records import record_floor, recorded_floor
from drsr.offline.label.stage import LabelRun, label, label_run
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import Imported, part_without, said_beside
from drsr.request.view import Caps
from tests.offline.chat_files import chat, write_json
from tests.offline.databases import fresh_database
from tests.offline.logical_content import logical_rows

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)
TABLES = ("labeler", "state_measurement", "label", "label_exclusion", "interaction")


def prepare(catalog: Catalog, artifacts: ArtifactStore, folder: Path, sizes: tuple[int, ...] = (5, 8)) -> None:
    for seed, steps in enumerate(sizes):
        write_json(folder / f"{seed}.json", chat(seed, steps=steps))
    ingest(catalog, artifacts, str(folder), source="runs")
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)


def measure(catalog: Catalog, artifacts: ArtifactStore) -> LabelRun:
    scorer = TargetNll(BACKBONE)
    run = label_run(scorer, "float32", CAPS)
    label(catalog, artifacts, scorer, run)
    return run


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Catalog]:
    """A second catalog that has frozen the same runs and measured nothing."""
    folder = tmp_path / "other"
    folder.mkdir()
    with fresh_database("sqlite", folder, migrated=True) as url, open_catalog(url) as catalog:
        prepare(catalog, ArtifactStore(str(folder / "artifacts")), tmp_path / "runs")
        yield catalog


@pytest.fixture
def run(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> LabelRun:
    prepare(catalog, artifacts, tmp_path / "runs")
    return measure(catalog, artifacts)


def facts(catalog: Catalog) -> dict[str, list[str]]:
    with catalog.reading() as connection:
        rows = logical_rows(connection)
    return {name: rows[name] for name in TABLES}


def test_another_catalog_gets_the_same_facts_once(
    run: LabelRun, catalog: Catalog, other: Catalog, tmp_path: Path
) -> None:
    exported = export_labels(catalog, tmp_path / "out")
    assert (exported.states, exported.there) == (4, 0)
    assert import_labels(other, tmp_path / "out", run.identity) == Imported(taken=4, there=0, unknown=0)
    assert facts(other) == facts(catalog)
    assert import_labels(other, tmp_path / "out", run.identity) == Imported(taken=0, there=4, unknown=0)
    assert facts(other) == facts(catalog)


def test_a_second_export_adds_what_is_new_and_changes_no_part(
    run: LabelRun, catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    first = export_labels(catalog, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert export_labels(catalog, tmp_path / "out")._asdict() == {"part": None, "states": 0, "there": 4}
    prepare(catalog, artifacts, tmp_path / "runs", (5, 8, 6))
    measure(catalog, artifacts)
    second = export_labels(catalog, tmp_path / "out")
    assert second.states > 0
    assert second.there == first.states
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert after.keys() == {first.part, second.part}
    assert after | before == after


def test_the_noise_floor_of_half_precision_travels_with_the_labels(
    run: LabelRun, catalog: Catalog, other: Catalog, tmp_path: Path
) -> None:
    """So a catalog that only took labels over says what rounding does to them. In float32 parts are as they were."""
    floor = NoiseFloor("float32", 4, 28, 0.002, 0.004, 0.009, 0.001)._asdict()
    export_labels(catalog, tmp_path / "exact")
    assert said_beside(tmp_path / "exact") == []
    with catalog.writing() as connection:
        changes = {"dtype": "bfloat16", "method": Method.DIRECT, "noise_floor": floor}
        connection.execute(update(Labeler).values(**changes))
    export_labels(catalog, tmp_path / "half")
    (part,) = (tmp_path / "half").glob("*.parquet")
    part_without(part, {"state_key": ["of no state"]})
    assert import_labels(other, tmp_path / "half", run.identity._replace(dtype="bfloat16")).taken == 4
    with other.reading() as connection:
        assert recorded_floor(connection, "default") == floor
    with other.writing() as connection:
        record_floor(connection, 1, floor | {"p90": 9.0})
        assert recorded_floor(connection, "default") == floor, "what was there first counts"


def test_the_same_labels_give_the_same_bytes(run: LabelRun, catalog: Catalog, tmp_path: Path) -> None:
    assert export_labels(catalog, tmp_path / "one").part == export_labels(catalog, tmp_path / "two").part


def test_states_that_were_not_frozen_here_are_counted(run: LabelRun, catalog: Catalog, tmp_path: Path) -> None:
    export_labels(catalog, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with fresh_database("sqlite", tmp_path / "empty", migrated=True) as url, open_catalog(url) as empty:
        assert import_labels(empty, tmp_path / "out", run.identity) == Imported(taken=0, there=0, unknown=4)


def test_numbers_of_another_language_model_are_refused(
    run: LabelRun, catalog: Catalog, other: Catalog, tmp_path: Path
) -> None:
    export_labels(catalog, tmp_path / "out")
    before = facts(other)
    with pytest.raises(InputError, match="backbone_identity"):
        import_labels(other, tmp_path / "out", run.identity._replace(backbone_identity="f" * 64))
    with pytest.raises(InputError, match="harm_tolerance"):
        import_labels(other, tmp_path / "out", run.identity._replace(harm_tolerance=0.5))
    assert facts(other) == before


def test_a_changed_byte_is_found(run: LabelRun, catalog: Catalog, other: Catalog, tmp_path: Path) -> None:
    part = tmp_path / "out" / str(export_labels(catalog, tmp_path / "out").part)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    before = facts(other)
    with pytest.raises(ArtifactCorrupt, match="not those it is named by"):
        import_labels(other, tmp_path / "out", run.identity)
    part.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArtifactCorrupt, match="cannot be read"):
        export_labels(catalog, tmp_path / "out")
    assert facts(other) == before


def test_nothing_to_export_or_import_is_said(catalog: Catalog, run: LabelRun, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="measured nothing yet"):
        export_labels(catalog, tmp_path / "out", labeler="nobody")
    with pytest.raises(InputError, match="no export here"):
        import_labels(catalog, tmp_path / "nowhere", run.identity)
    export_labels(catalog, tmp_path / "out")
    again = import_labels(catalog, tmp_path / "out", run.identity._replace(backbone="the same under another name"))
    assert again.taken == 0
    assert again.there > 0
    with pytest.raises(InputError, match="was made with backbone_identity"):
        import_labels(catalog, tmp_path / "out", run.identity._replace(backbone_identity="another"))
