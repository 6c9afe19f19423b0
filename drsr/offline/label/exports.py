"""Labels that travel: exact harms exported from one catalog and taken over by another that froze the same states.

A row holds everything that was measured at one state. What is derived (harm, unsafe, interactions) is derived again on
import by the same code, so an export cannot contradict itself. Numbers from another language model, rule, renderer or
tolerance are refused.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from sqlalchemy import Connection, select

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Interaction, Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import insert_new
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.label.harm import HARM_TOLERANCE, interactions
from drsr.offline.label.records import LabelerIdentity, ensure_labeler, recorded_identity
from drsr.offline.store.exports import (
    BATCH,
    About,
    Exported,
    Imported,
    add_part,
    exported_keys,
    read_parts,
    require_same,
)

FORMAT = "drsr labels/1"

_SCHEMA = pyarrow.schema(
    [
        ("state_key", pyarrow.string()),
        ("outcome", pyarrow.string()),
        ("reason", pyarrow.string()),
        ("detail", pyarrow.string()),
        ("intact_nll", pyarrow.float64()),
        ("target_tokens", pyarrow.int32()),
        ("target_hash", pyarrow.string()),
        ("context_tokens", pyarrow.int32()),
        ("method", pyarrow.string()),
        ("code_version", pyarrow.string()),
        ("masks", pyarrow.list_(pyarrow.int8())),
        ("direct_savings", pyarrow.list_(pyarrow.int32())),
        ("deleted_nlls", pyarrow.list_(pyarrow.float64())),
        ("excluded_masks", pyarrow.list_(pyarrow.int8())),
        ("excluded_reasons", pyarrow.list_(pyarrow.string())),
        ("excluded_details", pyarrow.list_(pyarrow.string())),
    ]
)
_MEASUREMENT = ("outcome", "reason", "detail", "intact_nll", "target_tokens", "target_hash", "context_tokens")


def export_labels(catalog: Catalog, folder: Path, labeler: str = "default") -> Exported:
    """Add what this labeler measured at current trajectories to a folder."""
    with catalog.reading() as connection:
        labeler_id, about = labeler_about(connection, labeler)
        there = exported_keys(folder, about)
        rows = [row for row in _rows(connection, labeler_id) if row["state_key"] not in there]
    return add_part(folder, about, pyarrow.Table.from_pylist(rows, _SCHEMA), len(there))


def import_labels(catalog: Catalog, folder: Path, identity: LabelerIdentity, labeler: str = "default") -> Imported:
    """Take over what another catalog measured; `identity` is how this one would measure. Again: nothing changes."""
    about = about_labels(identity)
    taken = there = unknown = 0
    for part in read_parts(folder):
        require_same(about, part.about, folder)
        rows = part.table.to_pylist()
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            with catalog.writing() as connection:
                labeler_id = ensure_labeler(connection, labeler, identity)
                ids = state_ids(connection, [row["state_key"] for row in batch])
                measured = select(StateMeasurement.state_id).where(
                    StateMeasurement.labeler_id == labeler_id, StateMeasurement.state_id.in_(list(ids.values()))
                )
                done = set(connection.execute(measured).scalars())
                known = [row for row in batch if row["state_key"] in ids]
                new = [(ids[row["state_key"]], row) for row in known if ids[row["state_key"]] not in done]
                _record(connection, labeler_id, new, folder)
            taken, there, unknown = taken + len(new), there + len(known) - len(new), unknown + len(batch) - len(known)
    return Imported(taken, there, unknown)


def about_labels(identity: LabelerIdentity) -> About:
    """Return what exported labels depend on. The backbone's name is a name only: its identity counts."""
    facts = identity._asdict()
    del facts["backbone"]
    return {"format": FORMAT, **facts}


def state_ids(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """The rows of frozen states, by their own identity; states that are not there are left out."""
    query = select(DecisionState.state_key, DecisionState.id).where(DecisionState.state_key.in_(keys))
    return {row.state_key: row.id for row in connection.execute(query)}


def labeler_about(connection: Connection, name: str) -> tuple[int, About]:
    """The row number of a labeler, and what its labels depend on."""
    found = recorded_identity(connection, name)
    if found is None:
        raise InputError(f"labeler {name!r} has measured nothing yet", hint="drsr label")
    labeler_id, identity = found
    return labeler_id, about_labels(identity)


def _rows(connection: Connection, labeler_id: int) -> Iterator[dict[str, Any]]:
    """One per measured state of a current trajectory."""
    labels = _by_state(connection, [Label.mask, Label.direct_saving, Label.deleted_nll], Label, labeler_id)
    columns = [LabelExclusion.mask, LabelExclusion.reason, LabelExclusion.detail]
    excluded = _by_state(connection, columns, LabelExclusion, labeler_id)
    fields = [getattr(StateMeasurement, name) for name in (*_MEASUREMENT, "method", "code_version")]
    query = (
        select(DecisionState.id, DecisionState.state_key, *fields)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateMeasurement.labeler_id == labeler_id, Trajectory.is_current())
    )
    for row in connection.execute(query).mappings():
        values = {name: row[name] for name in row if name != "id"}
        state_id = row["id"]
        masks, savings, nlls = _columns(labels[state_id], 3)
        numbers, reasons, details = _columns(excluded[state_id], 3)
        yield values | {
            "masks": masks,
            "direct_savings": savings,
            "deleted_nlls": nlls,
            "excluded_masks": numbers,
            "excluded_reasons": reasons,
            "excluded_details": details,
        }


def _by_state(
    connection: Connection, columns: list[Any], table: type[Label] | type[LabelExclusion], labeler_id: int
) -> defaultdict[int, list[Any]]:
    """Some columns of a labeler's rows by state, in the order of their masks."""
    query = select(table.state_id, *columns).where(table.labeler_id == labeler_id).order_by(table.state_id, table.mask)
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for state_id, *values in connection.execute(query):
        found[state_id].append(values)
    return found


def _columns(rows: list[Any], count: int) -> list[list[Any]]:
    return [[row[number] for row in rows] for number in range(count)]


def _record(connection: Connection, labeler_id: int, new: Sequence[tuple[int, dict[str, Any]]], where: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    measurements, labels, exclusions, residuals = [], [], [], []
    for state_id, row in new:
        key = {"state_id": state_id, "labeler_id": labeler_id}
        kept = {name: row[name] for name in (*_MEASUREMENT, "method", "code_version")}
        measurements.append(key | kept | {"measured_at": now})
        if row["outcome"] == "labelled" and not row["masks"]:
            raise ArtifactCorrupt("is labelled without a label", where=f"{where}, state {row['state_key']}")
        harms = {}
        for mask, saving, nll in zip(row["masks"], row["direct_savings"], row["deleted_nlls"], strict=True):
            harms[mask] = nll - row["intact_nll"]
            numbers = {"mask": mask, "cardinality": mask.bit_count(), "direct_saving": saving, "deleted_nll": nll}
            labels.append(key | numbers | {"harm": harms[mask], "unsafe": harms[mask] > HARM_TOLERANCE})
        excluded = zip(row["excluded_masks"], row["excluded_reasons"], row["excluded_details"], strict=True)
        exclusions += [key | {"mask": mask, "reason": reason, "detail": detail} for mask, reason, detail in excluded]
        residuals += [key | {"mask": mask, "residual": residual} for mask, residual in interactions(harms).items()]
    for table, rows in (
        (StateMeasurement, measurements),
        (Label, labels),
        (LabelExclusion, exclusions),
        (Interaction, residuals),
    ):
        insert_new(connection, table, rows)
