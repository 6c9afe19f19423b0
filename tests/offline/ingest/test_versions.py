"""Which content of a run is current, after whatever files said about it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source, SourceFile, SplitGroup, Trajectory, TrajectoryFile, TrajectoryReward
from drsr.offline.ingest.records import Recorded
from tests.offline.catalog.read_runs import part, record_parts, run, versions


def rows(catalog: Catalog) -> list[tuple[str, str, int, str, int | None]]:
    with catalog.reading() as connection:
        return versions(connection)


def test_a_new_run_is_a_first_version(catalog: Catalog) -> None:
    assert record_parts(catalog, part("f", run("r", "one", reward=0.5))) == Recorded(1, 0, 0)
    assert rows(catalog) == [("s", "r", 1, "one", None)]
    with catalog.reading() as connection:
        assert connection.execute(select(TrajectoryReward.reward)).scalars().all() == [0.5]


def test_the_same_again_changes_nothing(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one", reward=1.0)))
    assert record_parts(catalog, part("f", run("r", "one", reward=1.0))) == Recorded(0, 0, 1)
    assert rows(catalog) == [("s", "r", 1, "one", None)]


def test_a_changed_run_supersedes_and_the_old_one_stays(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    assert record_parts(catalog, part("f", run("r", "two"))) == Recorded(0, 1, 0)
    assert record_parts(catalog, part("f", run("r", "three"))) == Recorded(0, 1, 0)
    assert rows(catalog) == [("s", "r", 1, "one", 2), ("s", "r", 2, "two", 3), ("s", "r", 3, "three", None)]


def test_a_run_that_reverts_has_its_old_version_back(catalog: Catalog) -> None:
    for content in ("one", "two", "one"):
        record_parts(catalog, part("f", run("r", content)))
    assert rows(catalog) == [("s", "r", 1, "one", None), ("s", "r", 2, "two", 1)]
    record_parts(catalog, part("f", run("r", "three")))
    assert rows(catalog) == [("s", "r", 1, "one", 3), ("s", "r", 2, "two", 1), ("s", "r", 3, "three", None)]


def test_of_two_files_that_disagree_the_first_wins(catalog: Catalog) -> None:
    first, second = part("a", run("r", "one")), part("b", run("r", "two"))
    assert record_parts(catalog, first) == Recorded(1, 0, 0)
    assert record_parts(catalog, second) == Recorded(0, 0, 0)
    assert second.file.reasons == {"conflicting_id": 1}
    assert second.file.stamp is None  # to be looked at again
    assert first.file.stamp is not None
    assert rows(catalog) == [("s", "r", 1, "one", None)]


def test_it_does_not_matter_whether_both_are_in_one_batch(catalog: Catalog) -> None:
    second = part("b", run("r", "two"))
    assert record_parts(catalog, part("a", run("r", "one")), second) == Recorded(1, 0, 0)
    assert second.file.reasons == {"conflicting_id": 1}


def test_a_copy_may_take_over(catalog: Catalog) -> None:
    """A file that was moved and then changed: its old place says nothing any more."""
    record_parts(catalog, part("old", run("r", "one")))
    record_parts(catalog, part("new", run("r", "one")))
    assert record_parts(catalog, part("new", run("r", "two"))) == Recorded(0, 1, 0)
    stale = part("old", run("r", "one"))
    record_parts(catalog, stale)
    assert stale.file.reasons == {"conflicting_id": 1}
    assert rows(catalog)[-1] == ("s", "r", 2, "two", None)


def test_several_changes_of_one_run_in_one_batch(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one")))
    record_parts(catalog, part("a", run("r", "two")))
    record_parts(catalog, part("b", run("r", "two")))
    assert record_parts(catalog, part("a", run("r", "one")), part("b", run("r", "three"))) == Recorded(0, 1, 0)
    record_parts(catalog, part("b", run("r", "one")))
    assert record_parts(catalog, part("a", run("r", "four")), part("b", run("r", "one"))) == Recorded(0, 1, 0)
    assert rows(catalog) == [("s", "r", 1, "one", 3), ("s", "r", 2, "two", 1), ("s", "r", 3, "four", None)]


def test_the_same_id_in_two_sources_is_two_runs(catalog: Catalog) -> None:
    both = (part("f", run("r", "one"), source="s"), part("f", run("r", "two"), source="t"))
    assert record_parts(catalog, *both) == Recorded(2, 0, 0)
    assert rows(catalog) == [("s", "r", 1, "one", None), ("t", "r", 1, "two", None)]


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_a_run_keeps_group_and_split_when_its_task_changes(catalog: Catalog, in_one_batch: bool) -> None:
    """What was trained on must not become a test because its file was mended."""
    first = part("f", run("r", "one", group="task:7", split="train"), is_last=False)
    second = part("f", run("r", "two", group="task:8", split="test"))
    if in_one_batch:
        record_parts(catalog, first, second)
    else:
        record_parts(catalog, first)
        record_parts(catalog, second)
    with catalog.reading() as connection:
        rows = connection.execute(select(Trajectory.version, Trajectory.group_key, Trajectory.split)).all()
        groups = connection.execute(select(SplitGroup.group_key)).scalars().all()
    assert sorted(rows) == [(1, "task:7", "train"), (2, "task:7", "train")]
    assert groups == ["task:7"]
    record_parts(catalog, part("g", run("q", "three", group="task:8", split="test")))
    with catalog.reading() as connection:
        query = select(Trajectory.group_key, Trajectory.split).where(Trajectory.external_id == "q")
        assert connection.execute(query).tuples().all() == [("task:8", "test")]


def test_a_group_stays_in_the_split_it_was_first_assigned(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one", group="task:7", split="train")))
    record_parts(catalog, part("f", run("r", "two", group="task:7", split="test")))
    record_parts(catalog, part("g", run("q", "one", group="task:7", split="validation")))
    with catalog.reading() as connection:
        assert connection.execute(select(Trajectory.split)).scalars().all() == ["train"] * 3


def test_the_database_itself_keeps_a_group_together(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one", group="task:7", split="train")))
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        connection.execute(update(Trajectory).values(split="test"))


def test_the_database_itself_allows_one_current_version(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    record_parts(catalog, part("f", run("r", "two")))
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        connection.execute(update(Trajectory).where(Trajectory.version == 1).values(superseded_by=None))


def test_the_database_itself_refuses_a_successor_that_is_not_there(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        connection.execute(update(Trajectory).values(superseded_by=2))


def test_lineage_names_the_files(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one")), part("b", run("r", "one")))
    with catalog.reading() as connection:
        query = select(SourceFile.location).join(TrajectoryFile).order_by(SourceFile.location)
        assert connection.execute(query).scalars().all() == ["a", "b"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    said=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("rq"), st.sampled_from("123")), max_size=4),
        max_size=6,
    )
)
def test_whatever_files_say_one_version_is_current(catalog: Catalog, said: list[list[tuple[str, str, str]]]) -> None:
    """Against a model of a few lines; each inner list is one batch."""
    source = f"source {next_number(catalog)}"
    current: dict[str, str] = {}
    holders: dict[tuple[str, str], set[str]] = {}
    for batch in said:
        # A file says one thing about a run in one batch.
        batch = list({(file, run_id): (file, run_id, content) for file, run_id, content in batch}.values())
        record_parts(catalog, *(part(file, run(r, c), source=source, is_last=False) for file, r, c in batch))
        for file, run_id, content in batch:
            if run_id not in current or file in holders.get((run_id, current[run_id]), set()):
                current[run_id] = content
            if current[run_id] == content:
                holders.setdefault((run_id, content), set()).add(file)
    found = [row for row in rows(catalog) if row[0] == source]
    assert {run_id: content for _, run_id, _, content, by in found if by is None} == current
    numbers = Counter((run_id, number) for _, run_id, number, _, _ in found)
    assert all(count == 1 for count in numbers.values())
    assert {(run_id, content) for _, run_id, _, content, _ in found} == set(holders)


def next_number(catalog: Catalog) -> int:
    with catalog.writing() as connection:
        count = len(connection.execute(select(Source.id)).all())
        connection.execute(insert(Source).values(name=f"number {count}"))
    return count
