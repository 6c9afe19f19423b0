"""An erased run is gone: from rows, stored files and what is kept, and it does not come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from drsr.cli import main
from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.erase import erase, find_runs, holding, sentences, versions_of
from drsr.offline.featurize.files import read_file
from drsr.offline.featurize.views import get_view
from drsr.offline.ingest import stage
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.withdrawals import take_back
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept
from tests.offline.chat_files import chat, write_json
from tests.offline.small_pipeline import Pipeline


def run_names(catalog: Catalog) -> list[str]:
    with catalog.reading() as connection:
        name = Source.name.concat("/").concat(Trajectory.external_id)
        query = select(name).join_from(Trajectory, Source, Source.id == Trajectory.source_id)
        return list(connection.execute(query.order_by(Trajectory.id)).scalars())


def count(catalog: Catalog, table: type) -> int:
    with catalog.reading() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_nothing_of_it_is_left_and_the_others_are_whole(pipeline: Pipeline) -> None:
    catalog, artifacts = pipeline.catalog, pipeline.artifacts
    name = run_names(catalog)[0]
    with catalog.reading() as connection:
        doomed = versions_of(connection, [name])
        texts = sentences(artifacts, doomed)
    states, labels = count(catalog, DecisionState), count(catalog, Label)
    assert len(texts) == 10
    assert holding(artifacts, texts)
    kept = Kept(pipeline.folder / "kept.sqlite")
    kept.keep("a question", {doomed[0].content_hash: b"answer", "another": b"answer"})

    erased = erase(catalog, artifacts, [name], "asked for", kept)

    assert (erased.runs, erased.policies) == ((name,), ())
    assert erased.states == states - count(catalog, DecisionState) > 0
    assert erased.labels == labels - count(catalog, Label) > 0
    assert holding(artifacts, texts) == []
    assert kept.find("a question", [doomed[0].content_hash, "another"]) == {"another": b"answer"}
    with catalog.reading() as connection:
        assert {row.blob for row in versions_of(connection, [name])} == {doomed[0].content_hash}
        stored = connection.execute(select(Trajectory.blob).where(Trajectory.has_text())).scalars().all()
        view = get_view(connection, "default")
        files = connection.execute(select(FeatureFile.blob).where(FeatureFile.view_id == view.id)).scalars().all()
    assert artifacts.missing(stored) == set()
    rows = sum(len(set(read_file(artifacts, view, blob).state_keys)) for blob in files)
    assert rows == count(catalog, StateFeatures) == count(catalog, StateMeasurement)
    assert leaked_pairs(catalog, artifacts) == []  # which reads every run that is left


def test_it_does_not_come_back(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    for seed in (1, 2):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    name = "runs/1.json#run-1"
    with catalog.reading() as connection:
        texts = sentences(artifacts, versions_of(connection, [name]))
    for _ in range(2):  # again changes nothing
        erase(catalog, artifacts, [name], "asked for")
    write_json(tmp_path / "runs" / "1.json", chat(1) | {"reward": 0.25}, long_ago=False)
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert holding(artifacts, texts) == []
    with catalog.writing() as connection:
        with pytest.raises(InputError, match="was erased"):
            take_back(connection, name)
        assert find_runs(connection, source="runs") == [name, "runs/2.json#run-2"]
        with pytest.raises(InputError, match="no run is meant"):
            find_runs(connection, task="unknown")
    with pytest.raises(InputError, match="without a reason"):
        erase(catalog, artifacts, [name], " ")


def test_the_command(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(pipeline.folder / "cache")}).items():
        monkeypatch.setenv(variable, value)
    name = run_names(pipeline.catalog)[0]
    assert main(["erase", name, "--reason", "asked for", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["left"]) == ([name], [])
    assert main(["erase", "--source", name.partition("/")[0], "--reason", "all of it"]) == 0
    assert "none of 10 texts" in capsys.readouterr().out
