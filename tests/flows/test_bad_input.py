"""What bad input gets from a flow: the run stops, says which item and what to do, publishes nothing; the next goes on.

In this process, on a Prefect server that all tests of this kind share.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from drsr.errors import (
    CatalogRevisionMismatch,
    CatalogUnreachable,
    DrsrError,
    ExpectationFailed,
    SettingsError,
)
from drsr.flows.nightly import nightly
from drsr.flows.stages.calibrate import calibrate
from drsr.flows.stages.evaluate import evaluate
from drsr.flows.stages.featurize import featurize
from drsr.flows.stages.freeze import freeze
from drsr.flows.stages.ingest import ingest
from drsr.flows.stages.label import label
from drsr.flows.stages.publish import publish
from drsr.flows.stages.train import train
from drsr.offline.catalog.label_tables import Label
from drsr.offline.catalog.migrations import downgrade_catalog, open_catalog, upgrade_catalog
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.limits import FEEDS_FILE
from drsr.offline.publish.records import latest_releases
from drsr.offline.store import artifacts
from tests.flows.made_up_runs import write_params
from tests.flows.prefect_runs import attempts_of, last_run, refused
from tests.flows.sites import RUNS, settle
from tests.offline.small_pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("prefect_server")


def released() -> list[str]:
    """Versions that were published, by the catalog of the working folder; and there is no index beside it."""
    with open_catalog("sqlite:///catalog.sqlite") as catalog, catalog.reading() as connection:
        found = [record.version for record in latest_releases(connection, 9)]
    assert bool(found) is Path("var", "index").exists()
    return found


LATER: dict[str, Callable[[], Any]] = {
    "label": label,
    "featurize": featurize,
    "train": train,
    "calibrate": calibrate,
    "evaluate": evaluate,
    "publish": publish,
}


def test_a_stage_that_is_started_out_of_order(site: Path) -> None:
    error = refused("freeze", freeze)
    assert "there is no catalog yet" in error.what
    assert "drsr ingest" in str(error.hint)
    ingest(RUNS)
    said = {stage: refused(stage, flow) for stage, flow in LATER.items()}
    assert all(isinstance(error, DrsrError) for error in said.values())
    assert "8 trajectories wait, and none is frozen yet" in said["label"].what
    assert said["featurize"].what == said["label"].what
    assert {
        stage: str(error.hint).removeprefix("there is none yet: ").split(",")[0] for stage, error in said.items()
    } == {
        "label": "drsr freeze",
        "featurize": "drsr freeze",
        "train": "drsr featurize",
        "calibrate": "drsr featurize",
        "evaluate": "drsr featurize",
        "publish": "drsr train",
    }
    assert released() == []
    freeze()
    assert label(limit=2)["states"] >= 2
    assert last_run("label").state == "Completed"


def test_a_poisoned_file_is_named_and_the_rest_goes_on(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = site / "runs" / "poisoned.json"
    poisoned.write_text('{"messages": [{"role": "user", "content": "cut off')
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)  # a file that changed a moment ago is read again
    done = ingest([*RUNS, RUNS[0].model_copy(update={"uri": "runs/poisoned.json", "source": "again"})])
    assert done["added"] == 8
    assert [Path(item["where"]).name for item in done["left_out"]] == ["poisoned.json"] * 2, "once by each location"
    assert all(item["detail"] for item in done["left_out"])
    assert ingest(RUNS)["left_out"] == [], "it was not read again"


def test_rules_of_a_source_hold_in_a_night_and_a_misspelt_one_is_named(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (site / "redact.toml").write_text("[patterns]\nword = 'socket'\n")
    (site / "feeds.toml").write_text(f"[{RUNS[0].source}]\nredact = 'redact.toml'\n[agnets]\nruns = 0\n")
    assert ingest(RUNS)["redacted"]["word"] > 0
    assert f"{FEEDS_FILE}: [agnets]: nothing was ever read of a source of that name" in caplog.text


def test_a_catalog_at_another_migration(site: Path) -> None:
    ingest([RUNS[0].model_copy(update={"uri": "runs/train-*"})])
    downgrade_catalog("sqlite:///catalog.sqlite", "-1", may_lose_rows=True)  # the journal
    error = refused("nightly", lambda: nightly(RUNS))
    assert isinstance(error, CatalogRevisionMismatch)
    assert "drsr catalog upgrade" in str(error.hint)
    assert attempts_of("ingest") == {"ingest runs": 1}, "it is not tried again"
    upgrade_catalog("sqlite:///catalog.sqlite")
    assert ingest(RUNS)["added"] == 4, "the other four are there"


def test_storage_that_is_full(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def double_of_a_full_disk(path: Path, stored: bytes, **how: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "write_atomically", double_of_a_full_disk)
        error = refused("nightly", lambda: nightly(RUNS))
    assert isinstance(error, CatalogUnreachable)
    assert (error.where, error.what) == (str(site / "artifacts"), "cannot be used: No space left on device")
    assert "make room" in str(error.hint)
    assert attempts_of("ingest") == {"ingest runs": 1}, "it is not tried again"
    assert released() == []
    assert ingest(RUNS)["added"] == 8


def test_storage_that_is_read_only(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ingest([RUNS[0].model_copy(update={"uri": "runs/train-*"})])["added"] == 4
    with monkeypatch.context() as patch:
        patch.setenv("DRSR_CATALOG_URL", f"sqlite:///file:{site}/catalog.sqlite?mode=ro&uri=true")
        error = refused("nightly", lambda: nightly(RUNS))
        assert "the catalog is read-only" in error.what
        assert "right to write" in str(error.hint)
    with monkeypatch.context() as patch:
        patch.setenv("DRSR_ARTIFACT_ROOT", "/sys/drsr")  # where not even root can make a folder
        error = refused("nightly", lambda: nightly(RUNS))
        assert error.where == "/sys/drsr"
        assert "right to write" in str(error.hint)
    assert attempts_of("ingest") == {"ingest runs": 1}, "it is not tried again"
    assert released() == []
    assert ingest(RUNS)["added"] == 4


def test_a_broken_parameter_file(site: Path) -> None:
    path = site / "params.yaml"
    sound = path.read_text()
    path.write_text(sound.replace("max_epochs", "most_epochs"))
    error = refused("nightly", lambda: nightly(RUNS))
    assert isinstance(error, SettingsError)
    assert (error.where, error.what) == (str(path), "unknown key train.most_epochs")
    assert "max_epochs" in str(error.hint)
    assert not (site / "catalog.sqlite").exists(), "nothing was begun"
    path.write_text(sound)
    assert ingest(RUNS)["added"] == 8


def test_an_expectation_that_fails_half_way(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but publishing was done before; somebody has changed a label since."""
    write_params(pipeline.folder)
    settle(pipeline.folder, monkeypatch, **pipeline.settings)
    harmless = Label.harm < 0
    with pipeline.catalog.writing() as connection:
        connection.execute(update(Label).values(unsafe=True).where(harmless))
    error = refused("nightly", lambda: nightly(RUNS))
    assert isinstance(error, ExpectationFailed)
    assert error.where == "dataset labels"
    assert "unsafe" in error.what
    assert set(attempts_of("nightly").values()) == {1}, "nothing is tried again"
    assert released() == []
    with pipeline.catalog.writing() as connection:
        connection.execute(update(Label).values(unsafe=False).where(harmless))
    done = nightly(RUNS)
    assert done["stages"]["label"]["said"] == "0 states labelled"
    assert len(released()) == 1
