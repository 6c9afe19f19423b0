"""An erased run is gone: from rows, stored files and what is kept, and it does not come back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from drsr.cli import main
from drsr.errors import InputError
from drsr.flows.recording import changed, record
from drsr.offline.audit.checks import withdrawals
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.erase import erase, find_runs, holding, sentences, state_keys, versions_of
from drsr.offline.erased_exports import Keys, clean_exports, keys_of
from drsr.offline.featurize.files import read_file
from drsr.offline.featurize.views import get_view
from drsr.offline.ingest import stage
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.withdrawals import take_back
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import Artifact, ArtifactStore
from drsr.offline.store.claims import Claims
from drsr.offline.store.dvc_calls import with_dvc
from drsr.offline.store.kept import Kept
from tests.flows.dvc_repositories import new_repository
from tests.offline.audit.published import ALL_BUT_RULES, PublishedPipeline, audited, failures, trained_again
from tests.offline.chat_files import chat, write_json
from tests.offline.small_pipeline import Pipeline, quick_params


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


def everything_below(*places: Path) -> dict[Path, bytes]:
    """Every file as it lies, and unpacked where Zstandard can."""
    found = {}
    for path in (path for place in places for path in sorted(place.rglob("*")) if path.is_file()):
        found[path] = path.read_bytes()
        if found[path].startswith(b"\x28\xb5\x2f\xfd"):
            found[path] += ArtifactStore(str(path.parent.parent)).unpacked(path.name)
    return found


def parts_with(keys: Keys, files: dict[Path, bytes]) -> list[Path]:
    return [path for path, data in files.items() if keys.found_in(data)]


def test_catalog_store_exports_and_dvc_lose_it_and_the_successor_passes(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline, repository = release.pipeline, new_repository(tmp_path / "repository")
    monkeypatch.chdir(repository)
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(variable, value)
    for stage_name in ("ingest", "freeze", "label", "featurize"):
        record(stage_name)
    (repository / ".dvc" / "config.local").write_text(
        f"[core]\nremote = ours\n['remote \"ours\"']\nurl = {tmp_path}/far\n"
    )
    with_dvc(repository, lambda repo: repo.push())
    places = (pipeline.folder, repository / "exports", repository / ".dvc", tmp_path / "far", tmp_path / "cache")
    with pipeline.catalog.reading() as connection:
        query = select(Trajectory.id).join(DecisionState).where(Trajectory.split == "train").limit(1)
        chosen = connection.execute(query).scalar_one()
        columns = (Source.name, Trajectory.external_id, Trajectory.task)
        source, external_id, task = connection.execute(
            select(*columns).join_from(Trajectory, Source).where(Trajectory.id == chosen)
        ).one()
        doomed = versions_of(connection, [f"{source}/{external_id}"])
        texts = sentences(pipeline.artifacts, doomed)
        keys = Keys(frozenset(version.export_key for version in doomed), frozenset(state_keys(connection, doomed)))
    shutil.rmtree(pipeline.folder / "runs")  # the recorded files are their owner's
    before = everything_below(*places)
    assert len(texts) == 10
    assert keys.states
    assert len(parts_with(keys, before)) == 3 * 4  # of each stage, here, in the cache and in the remote
    words = [*(text.encode() for text in texts), f"task:{task}".encode()]
    assert all(any(word in data for data in before.values()) for word in words)

    assert main(["erase", f"{source}/{external_id}", "--reason", "asked for"]) == 0

    said = capsys.readouterr().out
    assert "4 exported parts written anew, 16 objects of DVC deleted" in said  # parts and lists, in cache and remote
    assert "drsr train && drsr calibrate" in said
    assert "made with them: 20" in said
    after = everything_below(*places)
    assert [(word, path) for word in words for path, data in after.items() if word in data] == []
    assert parts_with(keys, after) == []
    assert not changed().keys() & {"ingest", "freeze", "label", "featurize"}  # nothing else was recorded
    with_dvc(repository, lambda repo: repo.push())
    successor = trained_again(pipeline, release.packages)
    audit = audited(successor, ALL_BUT_RULES)
    assert failures(audit) == {}


def test_the_audit_finds_an_erased_run_that_somebody_put_back(
    release: PublishedPipeline,
) -> None:
    pipeline = release.pipeline
    name = run_names(pipeline.catalog)[0]
    with pipeline.catalog.reading() as connection:
        (doomed,) = versions_of(connection, [name])
    data = pipeline.artifacts.get(doomed.blob)
    erase(pipeline.catalog, pipeline.artifacts, [name], "asked for")
    successor = trained_again(pipeline, release.packages)
    assert failures(audited(successor, [withdrawals.CHECK])) == {}
    keys = pipeline.artifacts.put_pack([Artifact.of(b"another run"), Artifact.of(data)])
    pack = keys[doomed.content_hash].partition("@")[2].partition(":")[0]
    found = failures(audited(successor, [withdrawals.CHECK]))
    assert found == {"withdrawn runs": f"stored file {pack} still holds a run that was erased"}


def test_an_erasure_that_was_killed_after_the_rows_were_gone_goes_on(pipeline: Pipeline, tmp_path: Path) -> None:
    exports, name = tmp_path / "exports", run_names(pipeline.catalog)[0]
    exporter = Exporter(pipeline.catalog, pipeline.artifacts, quick_params(), exports)
    for stage_name in ("ingest", "freeze", "label", "featurize"):
        exporter.export(stage_name)
    with pipeline.catalog.reading() as connection:
        doomed = versions_of(connection, [name])
        states = frozenset(state_keys(connection, doomed))
    erase(pipeline.catalog, pipeline.artifacts, [name], "asked for")
    keys = keys_of([version.export_key for version in doomed], [], exports)
    assert keys.states == states
    assert clean_exports(exports, keys) == {"ingest", "freeze", "label", "featurize"}
    assert clean_exports(exports, keys) == set()
    assert {exporter.export(one).added.states for one in ("ingest", "freeze", "label", "featurize")} == {0}  # type: ignore[union-attr]


def test_an_erasure_that_was_killed_before_the_files_were_deleted_goes_on(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The catalog does not lead to the run's text any more. What was found out until then is said before."""
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(pipeline.folder / "cache")}).items():
        monkeypatch.setenv(variable, value)
    name = run_names(pipeline.catalog)[0]
    with pipeline.catalog.reading() as connection:
        texts = sentences(pipeline.artifacts, versions_of(connection, [name]))

    def double_of_a_kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(ArtifactStore, "delete", double_of_a_kill)
        assert main(["erase", name, "--reason", "asked for"]) == 130
    assert holding(pipeline.artifacts, texts) != []
    with monkeypatch.context() as killed:
        killed.setattr(Catalog, "compact", double_of_a_kill)
        assert main(["erase", name, "--reason", "asked for"]) == 130
    assert holding(pipeline.artifacts, texts) == []
    assert "1 run erased" in capsys.readouterr().out
    assert main(["erase", name, "--reason", "asked for"]) == 0
    assert "of their text was left before" in capsys.readouterr().out


def test_exports_that_were_cleaned_and_not_recorded_are_recorded_by_the_next_try(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else dvc.lock would name objects that are deleted."""
    repository = new_repository(tmp_path / "repository")
    monkeypatch.chdir(repository)
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(variable, value)
    stages = ("ingest", "freeze", "label", "featurize")
    for stage_name in stages:
        record(stage_name)
    name, exports = run_names(pipeline.catalog)[0], Path("exports")
    with pipeline.catalog.reading() as connection:
        doomed = versions_of(connection, [name])
        runs, states = [version.export_key for version in doomed], state_keys(connection, doomed)
    assert clean_exports(exports, keys_of(runs, states, exports)) == set(stages)  # and was killed
    assert main(["erase", name, "--reason", "asked for"]) == 0
    assert not changed().keys() & set(stages)


def test_exports_outside_of_the_repository_are_cleaned_though_its_own_are_not_here(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a fresh clone, whose dvc.lock names outputs that nobody has checked out."""
    repository, elsewhere = new_repository(tmp_path / "repository"), tmp_path / "elsewhere"
    monkeypatch.chdir(repository)
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(variable, value)
    for stage_name in ("ingest", "freeze", "label", "featurize"):
        record(stage_name)
    name = run_names(pipeline.catalog)[0]
    with pipeline.catalog.reading() as connection:
        doomed = versions_of(connection, [name])
        runs, states = [version.export_key for version in doomed], state_keys(connection, doomed)
    (repository / "exports").rename(elsewhere)
    keys = keys_of(runs, states, elsewhere)
    assert main(["erase", name, "--reason", "asked for", "--exports", str(elsewhere)]) == 0
    assert parts_with(keys, everything_below(elsewhere, repository / ".dvc")) == []


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
        with pytest.raises(InputError, match="no run matches"):
            find_runs(connection, task="unknown")
    with pytest.raises(InputError, match="without a reason"):
        erase(catalog, artifacts, [name], " ")


def test_nothing_is_erased_while_somebody_is_at_work(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A night would write what it has read before, and miss files that it has stored and not named yet."""
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(pipeline.folder / "cache")}).items():
        monkeypatch.setenv(variable, value)
    states, name = count(pipeline.catalog, DecisionState), run_names(pipeline.catalog)[0]
    with Claims(pipeline.catalog, "label") as claims:
        with pipeline.catalog.writing() as connection:
            claims.take(connection, "a run")
        assert main(["erase", name, "--reason", "asked for"]) == 3
    assert "is at work on this catalog\n  hint: try again when it has ended" in capsys.readouterr().err
    assert count(pipeline.catalog, DecisionState) == states


def test_the_command(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variable, value in (pipeline.settings | {"DRSR_CACHE": str(pipeline.folder / "cache")}).items():
        monkeypatch.setenv(variable, value)
    name = run_names(pipeline.catalog)[0]
    assert main(["erase", name, "--reason", "asked for", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["left"]) == ([name], [])
    others = run_names(pipeline.catalog)[1:3]
    listed = pipeline.folder / "runs.txt"
    listed.write_text("\n".join([*others, "", "nobody/knows"]))
    assert main(["erase", "--list", str(listed), "--reason", "asked for"]) == 2
    assert "nobody/knows: no run matches\n  hint: nothing was erased" in capsys.readouterr().err
    listed.write_text("\n".join(others))
    assert main(["erase", "--list", str(listed), "--reason", "asked for", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == sorted(others)
    listed.write_text("\n")
    assert main(["erase", "--list", str(listed), "--reason", "asked for"]) == 2
    assert "names no run" in capsys.readouterr().err
    assert main(["erase", "--source", name.partition("/")[0], "--reason", "all of it"]) == 0
    assert "none of 10 texts" in capsys.readouterr().out
