"""Two files about one run: later and earlier exports, forks, and facts that come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Trajectory, TrajectoryReward
from drsr.offline.ingest import stage
from drsr.offline.ingest.same_run import Relation, relation
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as Recorded
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, session, write_json, write_text


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)


def exported(turns: int, *, other: str = "") -> str:
    """A session of the pi agent, exported after some turns."""
    first, user, answer = session("same", 1).splitlines(keepends=True)
    lines = [first]
    for turn in range(turns):
        lines += [user.replace("number 1", f"turn {turn}"), answer.replace("number 1", f"turn {turn}{other}")]
    return "".join(lines)


def current(catalog: Catalog) -> list[tuple[str, int, int, str]]:
    """(run, version, messages, split) of the current rows."""
    columns = (Trajectory.external_id, Trajectory.version, Trajectory.messages, Trajectory.split)
    with catalog.reading() as connection:
        query = select(*columns).where(Trajectory.is_current()).order_by(Trajectory.external_id)
        return list(connection.execute(query).tuples())


@pytest.mark.parametrize("names", [("1/a.jsonl", "2/a.jsonl"), ("2/a.jsonl", "1/a.jsonl")])
def test_the_longer_export_of_a_run_is_the_run_whichever_comes_first(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, names: tuple[str, str]
) -> None:
    write_text(tmp_path / "runs" / names[0], exported(1))
    write_text(tmp_path / "runs" / names[1], exported(3))
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"), source="s")
    assert summary.quarantined == {}
    ((name, _, messages, _),) = current(catalog)
    assert (name, messages) == ("same", 6)
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="s").unchanged_files == 2


def test_the_export_of_a_second_day_supersedes_the_first(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    for day, turns in (("2026-11-01", 1), ("2026-11-02", 2)):
        write_text(tmp_path / day / "a.jsonl", exported(turns))
        ingest(catalog, artifacts, str(tmp_path / day), source="s", day=day)
    ((_, version, messages, _),) = current(catalog)
    assert (version, messages) == (2, 4)


def test_a_fork_is_a_run_of_its_own_in_the_same_group_and_keeps_its_name_as_it_grows(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_text(tmp_path / "runs" / "a.jsonl", exported(2))
    write_text(tmp_path / "runs" / "b.jsonl", exported(2, other=" otherwise"))
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="s").added == 2
    (first, _, _, split), (fork, _, _, same_split) = current(catalog)
    assert first == "same"
    assert fork.startswith("same~")
    assert split == same_split
    with catalog.reading() as connection:
        assert len(set(connection.execute(select(Trajectory.group_key)).scalars())) == 1
    write_text(tmp_path / "runs" / "b.jsonl", exported(3, other=" otherwise"))
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="s").superseded == 1
    assert [(name, version) for name, version, _, _ in current(catalog)] == [("same", 1), (fork, 2)]


def test_a_late_reward_or_task_supersedes_nothing(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "a.json"
    write_json(path, chat(1) | {"reward": None})
    ingest(catalog, artifacts, str(path))
    write_json(path, chat(1) | {"reward": 0.5, "task": "late"})
    for _ in range(2):
        summary = ingest(catalog, artifacts, str(path))
        assert summary.superseded == 0
        write_json(path, chat(1) | {"reward": 1.0, "task": "late"})
    with catalog.reading() as connection:
        assert connection.execute(select(Trajectory.task, Trajectory.version)).tuples().all() == [("late", 1)]
        assert connection.execute(select(TrajectoryReward.reward)).scalars().all() == [1.0]


def test_what_cannot_be_compared_is_a_conflict(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    write_text(tmp_path / "runs" / "b.jsonl", exported(1))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="s")
    assert artifacts.local_root is not None
    (pack,) = [path for path in artifacts.local_root.rglob("*") if path.is_file()]
    write_json(
        tmp_path / "runs" / "c.json", chat(1)
    )  # which looks for its like: what that asks of the first run is kept
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="s")
    pack.write_bytes(b"damaged")
    write_text(tmp_path / "runs" / "a.jsonl", exported(2))
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="s").quarantined == {"conflicting_id": 1}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({}, Relation.SAME),
        ({"messages": ["a"]}, Relation.SHORTER),
        ({"messages": ["a", "b", "c"]}, Relation.LONGER),
        ({"messages": ["a", "c"]}, Relation.OTHER),
        ({"system": "s"}, Relation.OTHER),
        ({"tools": ["t"]}, Relation.LONGER),
    ],
)
def test_how_two_recordings_relate(new: dict[str, Any], expected: Relation) -> None:
    known: dict[str, Any] = {"messages": ["a", "b"]}
    first = Recorded("r", "openai", known, "x/1", reward=1.0)
    assert relation(first, Recorded("r", "openai", known | new, "x/2", task="t")) is expected
