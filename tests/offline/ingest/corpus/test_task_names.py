"""Tables of task names: loaded, refused, recorded with the runs, and derived from the recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.corpus.task_names import COLUMNS, NamedTask, TaskNames, all_task_names, load_task_names
from drsr.offline.ingest.splits import assign_split
from drsr.offline.ingest.stage import admit_named, ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from scripts.name_public_tasks import found_runs, named_tasks
from tests.offline.chat_files import chat, write_json, write_text
from tests.trajectory_files import trajectories_folder

HEAD = ",".join(COLUMNS) + "\n"


def table(folder: Path, rows: str, corpus: str = "small") -> None:
    write_text(folder / "corpora" / corpus / "tasks.csv", HEAD + rows)


def test_a_runs_own_row_goes_before_that_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "shop,17,shop/17,customer/ada,\nshop,run-b,shop/18,customer/bob,test\n")
    names = load_task_names("small")
    assert names.find("shop", "run-a", "17") == ("shop", "17", "shop/17", "customer/ada", None)
    assert names.find("shop", "run-b", "17") == ("shop", "run-b", "shop/18", "customer/bob", "test")
    assert names.find("elsewhere", "run-a", "17") is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("shop,17,shop/17,\n", "4 cells instead of 5"),
        ("shop,,shop/17,customer/ada,\n", "read_as is empty"),
        ("shop,17,shop/17,customer/ada,later\n", "split 'later' is not one of"),
        ("shop,17,shop/17,a,\nshop,17,shop/18,a,\n", "'17' of shop is named twice"),
        ("shop,17,shop/17,a,test\nshop,18,shop/18,a,\n", "group a is placed in two splits"),
    ],
)
def test_an_unsound_table_is_refused(rows: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path, rows)
    with pytest.raises(InputError, match=says):
        load_task_names("small")


def test_a_table_of_other_columns_and_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "corpora" / "small" / "tasks.csv", "source,task\n")
    with pytest.raises(InputError, match="the columns must be source, read_as"):
        load_task_names("small")
    with pytest.raises(InputError, match="corpus 'none' has no"):
        load_task_names("none")


def test_all_tables_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "shop,17,shop/17,a,\n", "one")
    table(tmp_path, "desk,17,desk/17,b,\n", "two")
    names = all_task_names()
    assert [names.find(source, "x", "17") for source in ("shop", "desk")] == [
        ("shop", "17", "shop/17", "a", None),
        ("desk", "17", "desk/17", "b", None),
    ]
    assert len(names) == 2 + len(load_task_names("public")), "the tables of this repository are there from anywhere"


def test_names_are_recorded_and_bytes_stay_as_read(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_json(tmp_path / "runs" / f"{number}.json", {**chat(number), "task": str(number)})
    rows = [
        NamedTask("runs", "1", "shop/1", "customer/ada", "test"),
        NamedTask("runs", "2", "shop/2", "customer/ada", "test"),
    ]
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs", admit=admit_named(TaskNames(rows)))
    columns = (TrajectoryRow.task, TrajectoryRow.group_key, TrajectoryRow.split, TrajectoryRow.blob)
    with catalog.reading() as connection:
        found = connection.execute(select(*columns).order_by(TrajectoryRow.external_id)).all()
    assert [row[:3] for row in found] == [
        ("shop/1", "task:customer/ada", "test"),
        ("shop/2", "task:customer/ada", "test"),
        ("3", "task:3", assign_split("task:3")),
    ]
    assert [Trajectory.from_json(artifacts.get(row.blob)).task for row in found] == ["1", "2", "3"]


def test_the_public_tables_hold_what_was_measured() -> None:
    names = load_task_names("public")
    for source, task, group in (
        ("tau2-adaptive-airline", "0", "tau/customer/emma_kim_9957"),
        ("tau2-bench-airline-retail", "tau2/airline/0", "tau/customer/emma_kim_9957"),
        ("docent-inspect-ctf", "inspect_evals/luce_intercode_ctf/59", "intercode/ctf/59"),
    ):
        row = names.find(source, "x", task)
        assert row is not None
        assert row.group == group
    instance = names.find("mini-swe-agent-gemini3", "x", "django__django-10097")
    assert instance is not None
    assert instance[2:4] == ("swebench/django__django-10097", "django__django-10097")


def test_the_public_table_is_what_the_runs_give() -> None:
    folder = trajectories_folder()
    if folder is None:
        pytest.skip("the recorded runs are not on this machine")
    derived = named_tasks(found_runs(str(folder)))
    names = load_task_names("public")
    assert len(names) == len(derived)
    wrong = [row for row in derived if names.find(row.source, row.read_as, None) != row]
    assert wrong == []
