"""Runs and states without texts: what is taken, what is refused, and what comes of it when the runs are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from sqlalchemy import func, select

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.statements import insert_all
from drsr.offline.catalog.tables import DecisionState, SplitGroup, Trajectory
from drsr.offline.freeze.exports import KEY, export_states, export_trajectories
from drsr.offline.freeze.imports import ImportedRuns, import_runs
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.ingest.absent_texts import absent_texts, states_without_text
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import add_part, read_parts
from drsr.request.view import Caps
from tests.offline.chat_files import chat, write_json
from tests.offline.logical_content import content_hash_of_catalog

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)
RULE = freezing_rule(BACKBONE.tokenizer, CAPS)
RUNS = 3


@pytest.fixture
def folders(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> tuple[Path, Path]:
    """What a catalog exports that read three runs, and one more that is too short for a state."""
    for number in range(RUNS):
        run = chat(number, steps=7) | {"id": f"run-{number}", "task": f"task-{number}", "reward": 1.0}
        write_json(tmp_path / "runs" / f"{number}.json", run)
    write_json(tmp_path / "runs" / "short.json", chat(9, steps=2) | {"id": "short"})
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="s")
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    export_trajectories(catalog, tmp_path / "trajectories")
    export_states(catalog, tmp_path / "states")
    return tmp_path / "trajectories", tmp_path / "states"


@pytest.fixture
def empty(tmp_path: Path) -> Any:
    with open_catalog(f"sqlite:///{tmp_path / 'empty.sqlite'}", create=True) as found:
        yield found


def changed(folder: Path, name: str, change: Any) -> Path:
    """The same export with other rows, in a folder of its own."""
    (part,) = read_parts(folder)
    rows = [change(row) for row in part.table.to_pylist()]
    other = folder.with_name(name)
    add_part(other, part.about, pyarrow.Table.from_pylist(rows, part.table.schema), 0)
    return other


def content(catalog: Catalog) -> str:
    with catalog.reading() as connection:
        return content_hash_of_catalog(connection)


def test_runs_with_states_are_taken_once(empty: Catalog, folders: tuple[Path, Path]) -> None:
    taken = import_runs(empty, *folders, RULE)
    assert (taken.taken, taken.there, taken.other) == (RUNS, 0, 0)
    assert taken.states == sum(part.table.num_rows for part in read_parts(folders[1]))
    before = content(empty)
    assert import_runs(empty, *folders, RULE) == ImportedRuns(0, RUNS, 0, 0)
    assert content(empty) == before
    with empty.reading() as connection:
        assert absent_texts(connection).said == f"{RUNS} of {RUNS} runs are here without their texts"
        assert states_without_text(connection, None) == taken.states


def test_reading_the_runs_makes_the_same_catalog(
    catalog: Catalog, empty: Catalog, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Whichever came first, with rewards and files; the bytes are stored, and can be frozen to the same states."""
    import_runs(empty, *folders, RULE)
    artifacts = ArtifactStore(str(tmp_path / "others"))
    summary = ingest(empty, artifacts, str(tmp_path / "runs"), source="s")
    assert (summary.added, summary.unchanged, summary.superseded) == (1, RUNS, 0)
    with empty.reading() as connection:
        assert not absent_texts(connection)
        blobs = connection.execute(select(Trajectory.content_hash, Trajectory.blob)).all()
    assert artifacts.missing(blob for _, blob in blobs) == set()
    freeze(empty, artifacts, BACKBONE.tokenizer, CAPS)
    assert content(empty) == content(catalog)


def test_a_run_with_other_content_stays_and_is_counted(
    empty: Catalog, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    other = chat(7, steps=7) | {"id": "run-0", "task": "task-0"}
    write_json(tmp_path / "other" / "0.json", other)
    artifacts = ArtifactStore(str(tmp_path / "others"))
    ingest(empty, artifacts, str(tmp_path / "other"), source="s")
    taken = import_runs(empty, *folders, RULE)
    assert (taken.taken, taken.other) == (RUNS - 1, 1)


def test_what_a_file_says_supersedes_what_was_only_imported(
    empty: Catalog, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    import_runs(empty, *folders, RULE)
    write_json(tmp_path / "other" / "0.json", chat(7, steps=7) | {"id": "run-0", "task": "task-0"})
    summary = ingest(empty, ArtifactStore(str(tmp_path / "others")), str(tmp_path / "other"), source="s")
    assert (summary.superseded, summary.quarantined) == (1, {})


def test_a_group_on_another_side_is_refused_and_nothing_changes(empty: Catalog, folders: tuple[Path, Path]) -> None:
    (part,) = read_parts(folders[0])
    row = next(row for row in part.table.to_pylist() if row["task"] == "task-1")
    side = "test" if row["split"] == "train" else "train"
    with empty.writing() as connection:
        insert_all(connection, SplitGroup, [{"group_key": row["group_key"], "split": side}])
    before = content(empty)
    with pytest.raises(InputError, match=f"is in {row['split']}, and in {side} here"):
        import_runs(empty, *folders, RULE)
    assert content(empty) == before


def test_states_frozen_otherwise_or_damaged_are_refused(empty: Catalog, folders: tuple[Path, Path]) -> None:
    trajectories, states = folders
    with pytest.raises(InputError, match="was made with rule_hash"):
        import_runs(empty, trajectories, states, RULE._replace(rule_hash="f" * 64))
    older = changed(states, "older", lambda row: row | {"eligible_decisions": None})
    with pytest.raises(InputError, match="without what a catalog needs"):
        import_runs(empty, trajectories, older, RULE)
    unknown = changed(trajectories, "unknown", lambda row: row | {KEY: "f" * 64})
    with pytest.raises(ArtifactCorrupt, match="states are not in"):
        import_runs(empty, unknown, states, RULE)
    forged = changed(trajectories, "forged", lambda row: row | {"content_hash": "e" * 64})
    with pytest.raises(ArtifactCorrupt, match="does not have the key of its run"):
        import_runs(empty, forged, states, RULE)
    with empty.reading() as connection:
        assert connection.execute(select(func.count()).select_from(DecisionState)).scalar_one() == 0
