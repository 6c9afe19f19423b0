"""A withdrawn run takes part in nothing, whatever is ingested afterwards, until it is taken back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import func, select

import drsr
from drsr.backbone.scripted import ScriptedTokenizer
from drsr.cli import main
from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze.records import count_current
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.withdrawals import take_back, taken_back_runs, withdraw, withdrawn_runs, without_duplicates
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import Caps
from tests.offline.chat_files import chat, task_in_split, write_json

NAME = "runs/a.json#run-1"


@pytest.fixture
def runs(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Path:
    for seed, name in enumerate(("a", "b"), start=1):
        write_json(tmp_path / "runs" / f"{name}.json", chat(seed, steps=6))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    return tmp_path / "runs"


def current(catalog: Catalog) -> int:
    with catalog.reading() as connection:
        return count_current(connection)


def test_withdrawn_listed_and_taken_back(catalog: Catalog, runs: Path) -> None:
    with catalog.writing() as connection:
        found = withdraw(connection, NAME, "  a copy of runs/b  ")
    assert (found.name, found.reason, found.states) == (NAME, "a copy of runs/b", 0)
    assert current(catalog) == 1
    with catalog.reading() as connection:
        assert withdrawn_runs(connection) == [found]
        assert taken_back_runs(connection) == []
    with catalog.writing() as connection:
        back = take_back(connection, NAME)
        assert withdrawn_runs(connection) == []
    assert back._replace(taken_back_at=None) == found
    assert back.taken_back_at is not None
    assert back.taken_back_at >= back.withdrawn_at
    assert current(catalog) == 2


def test_what_is_taken_back_stays_on_record_and_may_be_withdrawn_again(catalog: Catalog, runs: Path) -> None:
    with catalog.writing() as connection:
        withdraw(connection, NAME, "inconvenient")
        first = take_back(connection, NAME)
        second = withdraw(connection, NAME, "a copy after all")
        with pytest.raises(InputError, match="withdrawn already: a copy after all"):
            withdraw(connection, NAME, "another")
    assert current(catalog) == 1
    with catalog.reading() as connection:
        assert (withdrawn_runs(connection), taken_back_runs(connection)) == ([second], [first])
    with catalog.writing() as connection:
        again = take_back(connection, NAME)
        with pytest.raises(InputError, match="is not withdrawn"):
            take_back(connection, NAME)
    with catalog.reading() as connection:
        assert (withdrawn_runs(connection), taken_back_runs(connection)) == ([], [first, again])
    assert current(catalog) == 2


def test_its_states_stay_and_no_new_ones_come(catalog: Catalog, artifacts: ArtifactStore, runs: Path) -> None:
    freeze(catalog, artifacts, ScriptedTokenizer(), Caps(10_000, 1_000))
    count = select(func.count()).select_from(DecisionState)
    with catalog.writing() as connection:
        before = connection.execute(count).scalar_one()
        assert withdraw(connection, NAME, "secret").states > 0
        assert connection.execute(count).scalar_one() == before
        assert connection.execute(count.join(Trajectory).where(Trajectory.is_current())).scalar_one() < before
    freeze(catalog, artifacts, ScriptedTokenizer(), Caps(9_000, 1_000))
    other_rule = count.join(Trajectory).where(Trajectory.is_withdrawn())
    with catalog.reading() as connection:
        assert connection.execute(other_rule).scalar_one() == withdrawn_runs(connection)[0].states < before


def test_it_stays_withdrawn_whatever_is_ingested(catalog: Catalog, artifacts: ArtifactStore, runs: Path) -> None:
    with catalog.writing() as connection:
        withdraw(connection, NAME, "secret")
    (runs / "a.json").touch()
    ingest(catalog, artifacts, str(runs), source="runs")
    assert current(catalog) == 1
    write_json(runs / "a.json", chat(1, steps=8), long_ago=False)
    assert ingest(catalog, artifacts, str(runs), source="runs").superseded == 1
    assert current(catalog) == 1
    with catalog.writing() as connection:
        take_back(connection, NAME)
    assert current(catalog) == 2


def test_what_cannot_be_withdrawn_changes_nothing(catalog: Catalog, runs: Path) -> None:
    with catalog.writing() as connection:
        for name, reason, says in (
            ("runs/z.json#1", "why", "no run is called that"),
            ("a.json#run-1", "why", "no run is called that"),
            ("", "why", "no run is called that"),
            (NAME, " ", "not withdrawn without a reason"),
        ):
            with pytest.raises(InputError, match=says):
                withdraw(connection, name, reason)
        with pytest.raises(InputError, match="is not withdrawn"):
            take_back(connection, NAME)
        withdraw(connection, NAME, "the first reason")
        with pytest.raises(InputError, match="withdrawn already: the first reason"):
            withdraw(connection, NAME, "another")
    assert current(catalog) == 1


def test_nothing_asks_for_current_rows_past_the_withdrawals() -> None:
    """Whoever asks for what is current asks `Trajectory.is_current`; the tables and the versions are what it is of."""
    folder = Path(drsr.__file__).parents[1]
    allowed = {"drsr/offline/catalog/tables.py", "drsr/offline/ingest/versions.py"}
    files = [path for part in ("drsr", "expectations", "flows") for path in (folder / part).rglob("*.py")]
    found = {
        str(path.relative_to(folder)) for path in files if re.search(r"superseded_by\.is_\(None\)", path.read_text())
    }
    assert len(files) > 100
    assert found <= allowed


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_command(
    catalog: Catalog,
    catalog_url: str,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", catalog_url)
    assert main(["withdraw", NAME]) == 2
    assert "--reason TEXT" in capsys.readouterr().err
    assert main(["withdraw", NAME, "--reason", "a copy"]) == 0
    assert f"drsr withdraw --undo {NAME}" in capsys.readouterr().out
    assert main(["withdraw", "--list"]) == 0
    assert "a copy" in capsys.readouterr().out
    assert main(["withdraw", "--list", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["withdrawn"]
    assert (shown["name"], shown["reason"], shown["taken_back_at"]) == (NAME, "a copy", None)
    assert main(["withdraw", "--undo", NAME]) == 0
    assert "takes part again" in capsys.readouterr().out
    assert main(["withdraw", "--list"]) == 0
    listed = capsys.readouterr().out
    assert re.search(rf"^nothing is withdrawn\n\n *taken back +split(.|\n)+{NAME} .+ a copy\n", listed)
    assert main(["withdraw", "--list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["withdrawn"], [run["name"] for run in found["taken_back"]]) == ([], [NAME])
    assert found["taken_back"][0]["taken_back_at"] >= shown["withdrawn_at"]
    with pytest.raises(SystemExit):
        main(["withdraw"])


def test_one_of_each_pair_of_duplicates_goes(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    messages = chat(1, steps=6)["messages"]
    for split in ("train", "validation", "test"):
        write_json(tmp_path / "copies" / f"{split}.json", {"messages": messages, "task": task_in_split(split)})
    ingest(catalog, artifacts, str(tmp_path / "copies"))
    chosen = without_duplicates(leaked_pairs(catalog, artifacts))
    assert set(chosen) == {"copies/train.json#0", "copies/validation.json#0"}
    with catalog.writing() as connection:
        for name, reason in chosen.items():
            withdraw(connection, name, reason)
    assert leaked_pairs(catalog, artifacts) == []
