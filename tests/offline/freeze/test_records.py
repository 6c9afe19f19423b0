"""Frozen states: recorded once, stale when their trajectory is superseded, current again when it reverts."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Candidate, DecisionState, Trajectory
from drsr.offline.freeze.records import FreezingRule, StateRecord, record_frozen, require_source, state_key, unfrozen
from drsr.offline.status import read_status
from tests.offline.catalog.read_runs import part, record_parts, run
from tests.offline.logical_content import content_hash_of_catalog

RULE = FreezingRule("recent2/1", "b" * 64, "chatml/1", "c" * 64)


def candidate(step: int) -> dict[str, Any]:
    return {
        "step_index": step,
        "kind": "tool_exchange",
        "component_index": 1,
        "direct_saving": 10 + step,
        "token_spans": [[step, step + 3]],
        "text_hash": "d" * 64,
    }


def state(decision: int) -> StateRecord:
    return StateRecord(decision, 0, 1.0, "e" * 64, [candidate(step) for step in range(3)])


def freeze_all(catalog: Catalog, rule: FreezingRule = RULE) -> int:
    """Freeze what is not frozen: two states for each trajectory."""
    with catalog.writing() as connection:
        waiting = unfrozen(connection, rule)
        for trajectory in waiting:
            record_frozen(connection, rule, trajectory, 2, None, [state(5), state(7)])
    return len(waiting)


def counts(catalog: Catalog) -> tuple[int | None, int | None, int | None, int]:
    """Frozen trajectories, their states, stale states, and the candidates of all states of current trajectories."""
    (status,) = read_status(catalog, RULE).sources
    candidates = select(func.count()).select_from(Candidate).join(DecisionState).join(Trajectory)
    with catalog.reading() as connection:
        count = connection.execute(candidates.where(Trajectory.superseded_by.is_(None))).scalar_one()
    return status.frozen, status.states, status.stale_states, count


def test_freezing_twice_changes_nothing(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one"), run("q", "two")))
    assert freeze_all(catalog) == 2
    assert freeze_all(catalog) == 0
    assert counts(catalog) == (2, 4, 0, 12)


def test_recording_the_same_again_changes_nothing(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    with catalog.writing() as connection:
        (trajectory,) = unfrozen(connection, RULE)
        for _ in range(2):
            record_frozen(connection, RULE, trajectory, 1, None, [state(5)])
    assert counts(catalog) == (1, 1, 0, 3)


def test_a_trajectory_without_states_is_not_looked_at_again(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    with catalog.writing() as connection:
        (trajectory,) = unfrozen(connection, RULE)
        record_frozen(connection, RULE, trajectory, 0, "too_few_candidates: 3 Steps", [])
        assert unfrozen(connection, RULE) == []
    assert counts(catalog) == (1, 0, 0, 0)


def test_no_states_without_a_reason_is_refused(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    with catalog.reading() as connection:
        (trajectory,) = unfrozen(connection, RULE)
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        record_frozen(connection, RULE, trajectory, 0, None, [])


def test_states_of_a_superseded_trajectory_are_stale_and_stay(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    freeze_all(catalog)
    record_parts(catalog, part("f", run("r", "two")))
    assert counts(catalog) == (0, 0, 2, 0)
    assert freeze_all(catalog) == 1
    assert counts(catalog) == (1, 2, 2, 6)


def test_states_come_back_with_their_trajectory(catalog: Catalog) -> None:
    for content in ("one", "two", "one"):
        record_parts(catalog, part("f", run("r", content)))
        freeze_all(catalog)
    assert counts(catalog) == (1, 2, 2, 6)
    assert freeze_all(catalog) == 0


@pytest.mark.parametrize("changed", ["rule_hash", "renderer_version", "tokenizer_identity"])
def test_another_rule_freezes_anew(catalog: Catalog, changed: str) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    freeze_all(catalog)
    other = RULE._replace(**{changed: "f" * 64})
    assert freeze_all(catalog, other) == 1
    assert counts(catalog) == (1, 2, 2, 12)
    with catalog.reading() as connection:
        keys = connection.execute(select(DecisionState.state_key)).scalars().all()
    assert len(set(keys)) == 4


def test_the_key_tells_apart_what_must_not_be_mixed(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")), part("f", run("r", "one"), source="other"))
    with catalog.reading() as connection:
        first, second = unfrozen(connection, RULE)
    keys = {
        state_key(first, 5, RULE),
        state_key(second, 5, RULE),
        state_key(first, 7, RULE),
        state_key(first, 5, RULE._replace(rule_hash="0" * 64)),
        state_key(first._replace(content_hash="1" * 64), 5, RULE),
    }
    assert len(keys) == 5
    assert state_key(first, 5, RULE) == state_key(first._replace(id=99, blob="elsewhere"), 5, RULE)


def test_work_is_handed_out_in_pages(catalog: Catalog) -> None:
    record_parts(catalog, part("f", *(run(f"r{number}", "one") for number in range(5))))
    with catalog.reading() as connection:
        first = unfrozen(connection, RULE, limit=3)
        rest = unfrozen(connection, RULE, after=first[-1].id, limit=3)
    assert [trajectory.external_id for trajectory in first + rest] == ["r0", "r1", "r2", "r3", "r4"]
    assert first[0].source == "s"


def test_candidates_keep_their_order_and_spans(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    freeze_all(catalog)
    with catalog.reading() as connection:
        query = select(Candidate.position, Candidate.step_index, Candidate.token_spans).join(DecisionState)
        rows = connection.execute(query.where(DecisionState.decision_index == 5).order_by(Candidate.position)).all()
    assert list(map(tuple, rows)) == [(0, 0, [[0, 3]]), (1, 1, [[1, 4]]), (2, 2, [[2, 5]])]


def test_the_content_hash_covers_states_and_candidates(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    with catalog.reading() as connection:
        before = content_hash_of_catalog(connection)
    freeze_all(catalog)
    with catalog.reading() as connection:
        assert content_hash_of_catalog(connection) != before


def test_an_unknown_source_is_refused_with_the_known_ones(catalog: Catalog) -> None:
    with catalog.reading() as connection:
        require_source(connection, None)
        with pytest.raises(InputError, match="no source is called 'nope'(.|\n)*there is none yet"):
            require_source(connection, "nope")
    record_parts(catalog, part("f", run("r", "one")), part("g", run("r", "one"), source="other"))
    with catalog.reading() as connection:
        require_source(connection, "other")
        with pytest.raises(InputError, match="the sources are other, s"):
            require_source(connection, "")
