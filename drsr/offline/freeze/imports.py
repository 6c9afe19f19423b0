"""Runs and states taken over from an export by a catalog that has not read the runs: known by hash, without text.

A run's row is the one that ingesting it would make, except for its text; its states are those that freezing would give.
Both are named by content, so ingesting the run later fills in the text and duplicates nothing. Code that needs a text
skips such runs and says so (`drsr.offline.ingest.absent_texts`).
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.statements import insert_all, insert_new, next_row_number, rows_named
from drsr.offline.catalog.tables import FrozenTrajectory, Source, SplitGroup, Trajectory
from drsr.offline.freeze.exports import KEY, RUN_COLUMNS, STATES_FORMAT, TRAJECTORIES_FORMAT
from drsr.offline.freeze.records import FreezingRule, StateRecord, UnfrozenTrajectory, is_rule, record_frozen, state_key
from drsr.offline.store.exports import BATCH, read_parts, require_same

Row = dict[str, Any]


class ImportedRuns(NamedTuple):
    """The result of taking over runs with their states."""

    taken: int
    """Runs that are new in this catalog, known by their hash."""
    there: int
    """Runs that it had already."""
    other: int
    """Runs that it has with other content: neither they nor their states are taken."""
    states: int
    """States that are new in this catalog."""


def import_runs(catalog: Catalog, trajectories: Path, states: Path, rule: FreezingRule) -> ImportedRuns:
    """Take over the exported runs that have states, with these. Again: nothing changes.

    InputError, with nothing changed by the batch it is found in: a run is on another side of the split here, or the
    states were frozen otherwise.
    """
    frozen = _states(states, rule)
    found = [run for run in _trajectories(trajectories) if run[KEY] in frozen]
    unknown = frozen.keys() - {run[KEY] for run in found}
    if unknown:
        what = f"the runs of {sum(len(frozen[key]) for key in unknown):,} states are not in {trajectories}"
        raise ArtifactCorrupt(what, where=str(states), hint="export both again: drsr export --stage ingest freeze")
    total = ImportedRuns(0, 0, 0, 0)
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        with catalog.writing() as connection:
            done = _take(connection, batch, frozen, rule, states)
        total = ImportedRuns(*map(sum, zip(total, done, strict=True)))
    return total


def _trajectories(folder: Path) -> Iterator[Row]:
    for part in read_parts(folder):
        require_same({"format": TRAJECTORIES_FORMAT}, part.about, folder)
        yield from part.table.to_pylist()


def _states(folder: Path, rule: FreezingRule) -> dict[str, list[Row]]:
    """Return the exported states by run, in the order of their decisions."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for part in read_parts(folder):
        require_same({"format": STATES_FORMAT, **rule._asdict()}, part.about, folder)
        for row in part.table.to_pylist():
            if row.get("eligible_decisions") is None:
                hint = "export them anew into an empty folder: drsr export --stage freeze"
                raise InputError(
                    "was exported without what a catalog needs that has no runs", where=str(folder), hint=hint
                )
            found[row[KEY]].append(row)
    return {key: sorted(rows, key=lambda row: row["decision_index"]) for key, rows in found.items()}


def _take(
    connection: Connection, runs: Sequence[Row], frozen: Mapping[str, list[Row]], rule: FreezingRule, where: Path
) -> ImportedRuns:
    names = sorted({run["source"] for run in runs})
    insert_new(connection, Source, [{"name": name} for name in names])
    sources = dict(rows_named(connection, (Source.name, Source.id), Source.name, names))
    known = _known(connection, runs, sources)
    new = [run for run in runs if (run["source"], run["external_id"]) not in known]
    _place(connection, new, where)
    first = next_row_number(connection, Trajectory)
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        {name: run[name] for name in RUN_COLUMNS}
        | {"id": first + number, "source_id": sources[run["source"]], "blob": run["content_hash"], "created_at": now}
        | {"version": 1, "superseded_by": None}
        for number, run in enumerate(new)
    ]
    insert_all(connection, Trajectory, rows)
    known |= {
        (run["source"], run["external_id"]): {row["content_hash"]: row["id"]}
        for run, row in zip(new, rows, strict=True)
    }
    marked = FrozenTrajectory.trajectory_id.in_([number for contents in known.values() for number in contents.values()])
    frozen_here = select(FrozenTrajectory.trajectory_id).where(is_rule(FrozenTrajectory, rule), marked)
    done = set(connection.execute(frozen_here).scalars())
    other = states = 0
    recorded = []
    for run in runs:
        row_number = known[run["source"], run["external_id"]].get(run["content_hash"])
        if row_number is None:
            other += 1
        elif row_number not in done:
            _record(connection, rule, row_number, run, frozen[run[KEY]], where)
            states += len(frozen[run[KEY]])
            recorded.append(row_number)
    made = {"mark": ledger.marks(connection, recorded), "state": ledger.states(connection, recorded)}
    note(connection, "import", {"run": ledger.runs(connection, [row["id"] for row in rows]), **made})
    return ImportedRuns(len(new), len(runs) - len(new) - other, other, states)


def _known(
    connection: Connection, runs: Sequence[Row], sources: Mapping[str, int]
) -> dict[tuple[str, str], dict[str, int]]:
    """Return the row numbers of what this catalog has of these runs, by source, run and content."""
    columns = (Trajectory.external_id, Trajectory.content_hash, Trajectory.id)
    found: dict[tuple[str, str], dict[str, int]] = {}
    for source, source_id in sources.items():
        mine = [run["external_id"] for run in runs if run["source"] == source]
        for external_id, content, row_number in rows_named(
            connection, columns, Trajectory.external_id, mine, source_id=source_id
        ):
            found.setdefault((source, external_id), {})[content] = row_number
    return found


def _place(connection: Connection, runs: Sequence[Row], where: Path) -> None:
    """Put the groups of new runs on their side of the split. Raise InputError if one is on another side here."""
    groups = {run["group_key"]: run["split"] for run in runs}
    columns = (SplitGroup.group_key, SplitGroup.split)
    here = dict(rows_named(connection, columns, SplitGroup.group_key, list(groups)))
    for group, split in groups.items():
        if here.get(group, split) != split:
            raise InputError(
                f"group {group} is in {split}, and in {here[group]} here",
                where=str(where),
                hint="a split never changes: import into a separate catalog (DRSR_CATALOG_URL)",
            )
    new = [{"group_key": group, "split": split} for group, split in groups.items() if group not in here]
    insert_all(connection, SplitGroup, new)


def _record(
    connection: Connection, rule: FreezingRule, row_number: int, run: Row, states: Sequence[Row], where: Path
) -> None:
    """Record the states of a run as freezing would have."""
    item = UnfrozenTrajectory(row_number, run["source"], run["external_id"], run["content_hash"], "")
    for state in states:
        if state["state_key"] != state_key(item, state["decision_index"], rule):
            what = f"state {state['state_key']} does not have the key of its run, decision and rule"
            raise ArtifactCorrupt(what, where=str(where), hint="fetch the export again")
    names = ("decision_index", "ordinal", "quantile", "request_hash", "candidates")
    records = [StateRecord(*(state[name] for name in names)) for state in states]
    record_frozen(connection, rule, item, states[0]["eligible_decisions"], None, records)
