"""What the tables promise, and that the databases keep it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, insert
from sqlalchemy import Table as Relation
from sqlalchemy.exc import IntegrityError

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import (
    Candidate,
    DecisionState,
    Execution,
    FrozenTrajectory,
    QuarantinedItem,
    Source,
    SourceFile,
    SplitGroup,
    Table,
    Trajectory,
    TrajectoryFile,
    TrajectoryReward,
    Withdrawal,
)

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HASH = "a" * 64
RULE = {"rule_version": "r", "rule_hash": HASH, "renderer_version": "c", "tokenizer_identity": HASH}
ROWS: dict[type[Table], dict[str, Any]] = {
    Source: {"id": 1, "name": "s"},
    SourceFile: {
        "id": 1,
        "source_id": 1,
        "location": "f",
        "stamp": None,
        "trajectories": 1,
        "quarantined": 0,
        "read_at": NOW,
    },
    SplitGroup: {"group_key": "task:1", "split": "train"},
    Trajectory: {
        "id": 1,
        "source_id": 1,
        "external_id": "r",
        "version": 1,
        "superseded_by": None,
        "content_hash": HASH,
        "blob": HASH,
        "protocol": "openai",
        "reader": "openai_chat/1",
        "task": "1",
        "domain": None,
        "group_key": "task:1",
        "split": "train",
        "messages": 9,
        "assistant_messages": 4,
        "tool_calls": 4,
        "created_at": NOW,
    },
    TrajectoryFile: {"trajectory_id": 1, "source_file_id": 1},
    Withdrawal: {
        "id": 1,
        "source_id": 1,
        "external_id": "r",
        "reason": "why",
        "withdrawn_at": NOW,
        "taken_back_at": None,
    },
    TrajectoryReward: {"trajectory_id": 1, "reward": 1.0},
    QuarantinedItem: {"id": 1, "source_file_id": 1, "location": "f:1", "reason": "binary", "detail": "no text"},
    FrozenTrajectory: {
        "id": 1,
        "trajectory_id": 1,
        **RULE,
        "eligible_decisions": 2,
        "why_none": None,
        "frozen_at": NOW,
    },
    DecisionState: {
        "id": 1,
        "trajectory_id": 1,
        "decision_index": 5,
        "ordinal": 0,
        "quantile": 1 / 3,
        **RULE,
        "request_hash": HASH,
        "state_key": HASH,
        "candidates": 3,
        "status": "frozen",
        "frozen_at": NOW,
    },
    Candidate: {
        "state_id": 1,
        "position": 0,
        "step_index": 0,
        "kind": "tool_exchange",
        "component_index": 1,
        "direct_saving": 30,
        "token_spans": [[3, 9], [12, 36]],
        "text_hash": HASH,
    },
    Execution: {
        "id": 1,
        "stage": "ingest",
        "subject": None,
        "code_version": "1",
        "started_at": NOW,
        "finished_at": None,
        "counts": None,
    },
}
"""One row of each table, each after those it refers to."""

BROKEN: list[tuple[type[Table], dict[str, Any]]] = [
    (SourceFile, {"trajectories": -1}),
    (SourceFile, {"quarantined": -1}),
    (SplitGroup, {"split": "dev"}),
    (Trajectory, {"protocol": "gemini"}),
    (Trajectory, {"version": 0}),
    (Trajectory, {"superseded_by": 1}),
    (Trajectory, {"messages": -1}),
    (Trajectory, {"assistant_messages": -1}),
    (Trajectory, {"tool_calls": -1}),
    (FrozenTrajectory, {"eligible_decisions": -1}),
    (FrozenTrajectory, {"eligible_decisions": 0}),
    (FrozenTrajectory, {"why_none": "too short"}),
    (DecisionState, {"status": "done"}),
    (DecisionState, {"decision_index": 0}),
    (DecisionState, {"ordinal": -1}),
    (DecisionState, {"quantile": 0.0}),
    (DecisionState, {"quantile": 1.5}),
    (DecisionState, {"candidates": 2}),
    (DecisionState, {"candidates": 5}),
    (Candidate, {"kind": "message"}),
    (Candidate, {"position": 4}),
    (Candidate, {"direct_saving": 0}),
    (Candidate, {"step_index": -1}),
    (Candidate, {"component_index": -1}),
    (Execution, {"stage": "guess"}),
]


def insert_rows(catalog: Catalog, changed: dict[type[Table], dict[str, Any]]) -> None:
    with catalog.writing() as connection:
        for table, row in ROWS.items():
            connection.execute(insert(table).values(row | changed.get(table, {})))


def test_every_table_says_its_grain() -> None:
    for mapper in Table.registry.mappers:
        assert (mapper.class_.__doc__ or "").startswith("One row per "), mapper.class_


def test_rewards_are_marked_as_for_evaluation_only_and_stand_apart() -> None:
    assert relation(TrajectoryReward).info == {"evaluation_only": True}
    others = [table for table in Table.metadata.tables.values() if not table.info.get("evaluation_only")]
    assert not [column for table in others for column in table.columns if "reward" in column.name]


def test_a_row_of_each_table_is_taken(catalog: Catalog) -> None:
    assert not refused(catalog, {})


def refused(catalog: Catalog, changed: dict[type[Table], dict[str, Any]]) -> bool:
    try:
        insert_rows(catalog, changed)
    except IntegrityError:
        return True
    return False


def test_values_out_of_range_are_refused(catalog: Catalog) -> None:
    assert [(table, change) for table, change in BROKEN if not refused(catalog, {table: change})] == []


def test_every_check_of_these_tables_is_tried() -> None:
    declared = {
        (table.__tablename__, str(constraint.name).removeprefix(f"ck_{table.__tablename__}_"))
        for table in ROWS
        for constraint in relation(table).constraints
        if isinstance(constraint, CheckConstraint)
    }
    tried = {(table.__tablename__, column) for table, change in BROKEN for column in change}
    assert declared <= tried


def test_references_into_nowhere_are_refused(catalog: Catalog) -> None:
    taken = []
    for table, row in ROWS.items():
        for reference in relation(table).foreign_key_constraints:
            if None not in (row[column] for column in reference.column_keys):
                last = reference.column_keys[-1]
                nowhere: Any = 99 if isinstance(row[last], int) else "test"
                if not refused(catalog, {table: {last: nowhere}}):
                    taken.append((table, last))
    assert taken == []


def test_the_same_thing_twice_is_refused(catalog: Catalog) -> None:
    insert_rows(catalog, {})
    for table in (DecisionState, FrozenTrajectory, Candidate, QuarantinedItem, SourceFile, Source, Withdrawal):
        again = ROWS[table] | ({"position": 1} if table is Candidate else {"id": 2})
        with pytest.raises(IntegrityError), catalog.writing() as connection:
            connection.execute(insert(table).values(again))


def relation(table: type[Table]) -> Relation:
    assert isinstance(table.__table__, Relation)
    return table.__table__
