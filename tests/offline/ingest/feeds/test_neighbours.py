"""Copies without a task's name stay on one side of the split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Trajectory
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.neighbours import _MOST_FOUND, Neighbour, Neighbours, Sketch, sketch_of
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as Recorded
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, write_json


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)


def nameless(seed: int, **more: Any) -> dict[str, Any]:
    return {"messages": chat(seed, steps=6)["messages"]} | more


def places(catalog: Catalog) -> set[tuple[str, str]]:
    with catalog.reading() as connection:
        return set(connection.execute(select(Trajectory.group_key, Trajectory.split)).tuples())


@pytest.mark.parametrize("at_once", [True, False])
def test_copies_and_near_copies_are_one_group(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, at_once: bool
) -> None:
    for number in range(12):
        run = nameless(1)
        run["messages"][1]["content"] += f" copy {number}"
        write_json(tmp_path / "runs" / f"{number:02d}.json", run)
        if not at_once:
            ingest(catalog, artifacts, str(tmp_path / "runs"))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert len(places(catalog)) == 1, places(catalog)
    ((group, _),) = places(catalog)
    assert group.startswith("trajectory:runs/00.json")
    assert leaked_pairs(catalog, artifacts) == []


def test_other_runs_are_groups_of_their_own(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for seed in range(8):
        write_json(tmp_path / "runs" / f"{seed}.json", nameless(seed))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert len(places(catalog)) == 8


@pytest.mark.parametrize("growing", [True, False])
def test_a_run_that_is_exported_as_it_grows_stays_in_its_group(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, growing: bool
) -> None:
    for seed in range(4):
        for day, messages in enumerate((6, 9, 15) if growing else (15, 9, 6)):
            whole = chat(seed, steps=6)["messages"]
            write_json(tmp_path / "runs" / f"day{day}" / f"{seed}.json", {"messages": whole[:messages]})
    ingest(catalog, artifacts, str(tmp_path / "runs" / "day0"), source="agents")
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="agents")
    assert len(places(catalog)) == 4


def test_a_beginning_is_all_that_was_said_up_to_the_second_call_or_the_third_answer() -> None:
    def opening(messages: list[dict[str, Any]]) -> int:
        return sketch_of(Recorded("r", "openai", {"messages": messages}, "x/1")).opening

    calls = chat(1, steps=6)["messages"]
    talk = [{"role": role, "content": f"{role} {turn}"} for turn in range(4) for role in ("user", "assistant")]
    assert [opening(messages) for messages in (calls[:4], talk[:5])] == [0, 0]
    assert opening(calls[:5]) == opening(calls) != opening([*calls[:3], {**calls[3], "content": "else"}, *calls[4:]])
    demonstrated = [{**message, "is_demo": True} for message in calls[1:8]]
    assert opening([*demonstrated, *calls[:4]]) == 0
    assert opening([*demonstrated, *calls[:5]]) == opening([*demonstrated, *calls]) != 0
    assert opening(talk[:6]) == opening(talk) != opening([*talk[:4], {**talk[4], "content": "else"}, *talk[5:]])


def test_a_named_task_is_left_where_it_is(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for number in range(3):
        write_json(tmp_path / "runs" / f"{number}.json", nameless(1, task=f"t{number}"))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert {group for group, _ in places(catalog)} == {"task:t0", "task:t1", "task:t2"}


def test_a_long_form_at_the_beginning_does_not_make_runs_alike() -> None:
    form = " ".join(f"rule{number}" for number in range(6_000))

    def run(seed: int) -> Recorded:
        own = " ".join(f"w{seed}x{number}" for number in range(6_000))
        return Recorded("r", "openai", {"messages": [{"role": "user", "content": f"{form} {own}"}]}, "x/1")

    first, second = sketch_of(run(1)).smallest, sketch_of(run(2)).smallest
    assert 0 < len(set(first) & set(second)) < 0.6 * len(first)


def test_a_form_that_all_runs_share_costs_the_same_for_each(catalog: Catalog, artifacts: ArtifactStore) -> None:
    """A lookup looks at so many runs and no more; the copy of a late run is still found, by what is its own."""
    neighbours = Neighbours(catalog, artifacts)
    form = list(range(1, 6))  # five of the eight smallest hashes
    for number in range(3 * _MOST_FOUND):
        own = [10 + number, 10_000 + number, 20_000 + number]
        neighbours.add(Sketch(0, np.array([*form, *own], dtype=np.uint64)), Neighbour(f"g{number}", "train"))
    assert max(map(len, neighbours._found_by.values())) == _MOST_FOUND
    last = 3 * _MOST_FOUND - 1
    copy = np.array([*form, 10 + last, 10_000 + last, 20_000 + last], dtype=np.uint64)
    assert neighbours.nearest(Sketch(0, copy)) == Neighbour(f"g{last}", "train")
