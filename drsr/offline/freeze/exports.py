"""Exports of ingested runs and frozen states: identities and hashes, without text.

The runs themselves stay in the artifact store, under the hash given here. A row is never withdrawn: a run that was
recorded again has a row of its own, with the next version. `imports.py` takes both over in a catalog that has not read
the runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from sqlalchemy import Connection, and_, select

from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Source, Trajectory
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.ingest.corpus.table import licences_of_sources
from drsr.offline.store.exports import Exported, export_rows

KEY = "trajectory_key"

_TRAJECTORIES = pyarrow.schema(
    [
        (KEY, pyarrow.string()),
        ("source", pyarrow.string()),
        ("external_id", pyarrow.string()),
        ("version", pyarrow.int32()),
        ("content_hash", pyarrow.string()),
        ("protocol", pyarrow.string()),
        ("reader", pyarrow.string()),
        ("task", pyarrow.string()),
        ("domain", pyarrow.string()),
        ("group_key", pyarrow.string()),
        ("split", pyarrow.string()),
        ("messages", pyarrow.int32()),
        ("assistant_messages", pyarrow.int32()),
        ("tool_calls", pyarrow.int32()),
        ("licence", pyarrow.string()),
    ]
)
"""Columns of the export. `licence` is that of the files that hold the run, if a corpus of this installation names them;
else null."""
RUN_COLUMNS = tuple(name for name in _TRAJECTORIES.names if name not in (KEY, "source", "version", "licence"))
"""Columns of the catalog's table that describe the run itself, the same in every catalog."""
TRAJECTORIES_FORMAT, STATES_FORMAT = "drsr trajectories/1", "drsr states/1"
_CANDIDATE = pyarrow.struct(
    [
        ("kind", pyarrow.string()),
        ("step_index", pyarrow.int32()),
        ("component_index", pyarrow.int32()),
        ("direct_saving", pyarrow.int32()),
        ("token_spans", pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
        ("text_hash", pyarrow.string()),
    ]
)
_STATES = pyarrow.schema(
    [
        ("state_key", pyarrow.string()),
        (KEY, pyarrow.string()),
        ("split", pyarrow.string()),
        ("decision_index", pyarrow.int32()),
        ("ordinal", pyarrow.int32()),
        ("quantile", pyarrow.float64()),
        ("request_hash", pyarrow.string()),
        ("eligible_decisions", pyarrow.int32()),
        ("candidates", pyarrow.list_(_CANDIDATE)),
    ]
)
"""`candidates`: in chronological order, so that a candidate's place is its bit in a deletion set's mask.
`eligible_decisions`: of the whole run."""


def export_trajectories(catalog: Catalog, folder: Path, *, replace: bool = False) -> Exported:
    """Add the current version of every run to a folder."""
    with catalog.reading() as connection:
        rows = _trajectories(connection)
        return export_rows(folder, {"format": TRAJECTORIES_FORMAT}, _TRAJECTORIES, rows, replace=replace)


def current_trajectories(catalog: Catalog) -> tuple[dict[str, int], str]:
    """Return the number of current runs per split, and one SHA-256 over them, which changes if a run goes back."""
    counts: dict[str, int] = {}
    keys = []
    with catalog.reading() as connection:
        for row in _trajectories(connection):
            keys.append(row[KEY])
            counts[row["split"]] = counts.get(row["split"], 0) + 1
    return dict(sorted(counts.items())), hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()


def export_states(catalog: Catalog, folder: Path, *, replace: bool = False) -> Exported:
    """Add the states of current runs, frozen under the latest rule, to a folder."""
    with catalog.reading() as connection:
        rule = latest_rule(connection)
        about = {"format": STATES_FORMAT, **rule._asdict()}
        return export_rows(folder, about, _STATES, _states(connection, rule), replace=replace)


def latest_rule(connection: Connection) -> FreezingRule:
    fields = [getattr(FrozenTrajectory, field) for field in FreezingRule._fields]
    row = connection.execute(select(*fields).order_by(FrozenTrajectory.id.desc()).limit(1)).first()
    if row is None:
        raise InputError("no run is frozen yet", hint="drsr ingest, then drsr freeze")
    return FreezingRule(*row)


def _trajectories(connection: Connection) -> Iterator[dict[str, Any]]:
    licences = licences_of_sources()
    query = (
        select(Source.name.label("source"), *(getattr(Trajectory, name) for name in (*RUN_COLUMNS, "version")))
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current())
    )
    for row in connection.execute(query).mappings():
        key = run_key(row["source"], row["external_id"], row["content_hash"])
        yield dict(row) | {KEY: key, "licence": licences.get(row["source"])}


def _states(connection: Connection, rule: FreezingRule) -> Iterator[dict[str, Any]]:
    """Yield one per state of a current run, with its candidates."""
    details = [getattr(Candidate, field.name) for field in _CANDIDATE]
    candidates: dict[int, list[dict[str, Any]]] = {}
    of_rule = select(Candidate.state_id, *details).join(DecisionState, DecisionState.id == Candidate.state_id)
    ordered = of_rule.where(is_rule(DecisionState, rule)).order_by(Candidate.state_id, Candidate.position)
    for row in connection.execute(ordered).mappings():
        block = {name: value for name, value in row.items() if name != "state_id"}
        candidates.setdefault(row["state_id"], []).append(block)
    names = ("decision_index", "ordinal", "quantile", "request_hash")
    marker = and_(FrozenTrajectory.trajectory_id == DecisionState.trajectory_id, is_rule(FrozenTrajectory, rule))
    query = (
        select(
            *(DecisionState.id, DecisionState.state_key, Trajectory.split),
            *(Source.name, Trajectory.external_id, Trajectory.content_hash),
            *(*(getattr(DecisionState, name) for name in names), FrozenTrajectory.eligible_decisions),
        )
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(FrozenTrajectory, marker)
        .join(Source, Source.id == Trajectory.source_id)
        .where(is_rule(DecisionState, rule), Trajectory.is_current())
    )
    for state_id, state_key, split, source, external_id, content_hash, *values in connection.execute(query):
        yield {
            "state_key": state_key,
            KEY: run_key(source, external_id, content_hash),
            "split": split,
            **dict(zip((*names, "eligible_decisions"), values, strict=True)),
            "candidates": candidates[state_id],
        }


def run_key(source: str, external_id: str, content_hash: str) -> str:
    """Return the name of a run's version in every export."""
    return content_key({"source": source, "external_id": external_id, "content": content_hash})
