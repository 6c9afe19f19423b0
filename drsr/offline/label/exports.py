"""Labels that travel: exact harms exported from one catalog and taken over by another that froze the same states.

A row holds everything that was measured at one state. What is derived (harm, unsafe, interactions) is derived again on
import by the same code, so an export cannot contradict itself. Numbers from another language model, rule, renderer or
tolerance are refused. In half precision the labeler's noise floor travels with its labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
from sqlalchemy import Connection, select

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.label_tables import Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.exports import FURTHER, import_features
from drsr.offline.featurize.views import DEFAULT_VIEW
from drsr.offline.freeze.imports import ImportedRuns, import_runs
from drsr.offline.label.configured import configured
from drsr.offline.label.noise.floor import floor_from
from drsr.offline.label.records import (
    MEASUREMENT_COLUMNS,
    LabelerIdentity,
    Measurement,
    ensure_labeler,
    labeler_named,
    record_floor,
    recorded_floor,
    recorded_identity,
    write_measurements,
)
from drsr.offline.label.target_nll import EXACT
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import (
    About,
    Exported,
    Imported,
    Row,
    export_rows,
    import_rows,
    place_of,
    said_beside,
)
from drsr.settings import Settings

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
_LABELS = ("masks", "direct_savings", "deleted_nlls")
_EXCLUDED = ("excluded_masks", "excluded_reasons", "excluded_details")


def export_labels(catalog: Catalog, folder: Path, labeler: str = "default", *, replace: bool = False) -> Exported:
    """Add what this labeler measured at current trajectories to a folder."""
    with catalog.reading() as connection:
        labeler_id, identity = recorded_labeler(connection, labeler)
        floor = None if identity.dtype == EXACT else recorded_floor(connection, labeler)
        beside = None if floor is None else {"noise_floor": floor}
        rows = _rows(connection, labeler_id)
        return export_rows(folder, about_labels(identity), _SCHEMA, rows, beside=beside, replace=replace)


def import_labels(catalog: Catalog, folder: Path, identity: LabelerIdentity, labeler: str = "default") -> Imported:
    """Take over what another catalog measured; `identity` is how this one would measure. Again: nothing changes."""

    def take(rows: list[Row]) -> tuple[int, int]:
        with catalog.writing() as connection:
            labeler_id = ensure_labeler(connection, labeler, _with_method(identity, rows, folder))
            ids = state_ids(connection, [row["state_key"] for row in rows])
            measured = select(StateMeasurement.state_id).where(
                StateMeasurement.labeler_id == labeler_id, StateMeasurement.state_id.in_(list(ids.values()))
            )
            done = set(connection.execute(measured).scalars())
            known = [(ids[row["state_key"]], row) for row in rows if row["state_key"] in ids]
            new = [_measurement(state_id, row, folder) for state_id, row in known if state_id not in done]
            write_measurements(connection, labeler_id, new)
            taken = ledger.measurements(connection, labeler_id, [one.state_id for one in new])
            note(connection, "import", {"measurement": taken})
        return len(known), len(new)

    imported = import_rows(folder, about_labels(identity), take)
    floors = [floor_from(beside.get("noise_floor")) for beside in said_beside(folder)]
    noisiest = max((floor for floor in floors if floor is not None), key=lambda floor: floor.p90, default=None)
    if noisiest is not None and identity.dtype != EXACT:
        with catalog.writing() as connection:
            if (labeler_id := labeler_named(connection, labeler)) is not None:
                record_floor(connection, labeler_id, noisiest._asdict())
    return imported


def _with_method(identity: LabelerIdentity, rows: list[Row], where: Path) -> LabelerIdentity:
    """The identity with the one way in which its labels were computed, where that is part of it."""
    ways = sorted({row["method"] for row in rows})
    if identity.dtype == EXACT or not ways:
        return identity
    if len(ways) > 1:
        raise InputError(
            f"mixes labels that were computed by {' and by '.join(ways)}, which round differently in {identity.dtype}",
            where=str(where),
            hint="take labels of one way of computing, or of float32",
        )
    return identity._replace(method=ways[0])


class ImportedMeasurements(NamedTuple):
    labels: Imported
    features: Imported
    further: dict[str, Imported]
    """By name the views that travelled with the features."""
    runs: ImportedRuns | None
    """None where the export holds no runs: only states that are frozen here are then taken."""


def import_measured(
    catalog: Catalog,
    artifacts: ArtifactStore,
    settings: Settings,
    root: Path,
    labeler: str = "default",
    view: str = DEFAULT_VIEW,
) -> ImportedMeasurements:
    """Take over what lies below `root`, a folder of exports. InputError: it was measured otherwise."""
    here, folder = configured(settings), place_of(root, "featurize")

    def features(folder: Path, view: str) -> Imported:
        return import_features(catalog, artifacts, folder, here.view(view), here.columns(view), view)

    runs = None
    trajectories, states = place_of(root, "ingest"), place_of(root, "freeze")
    if trajectories.is_dir() and states.is_dir():
        runs = import_runs(catalog, trajectories, states, here.freezing)
    return ImportedMeasurements(
        import_labels(catalog, place_of(root, "label"), here.labeler, labeler),
        features(folder, view),
        {name: features(folder / name, name) for name in FURTHER if (folder / name).is_dir() and name != view},
        runs,
    )


def about_labels(identity: LabelerIdentity) -> About:
    """Return what exported labels depend on. The backbone's name is a name only: its identity counts."""
    facts = identity._replace(method=None).facts  # each row says its own
    del facts["backbone"]
    return {"format": FORMAT, **facts}


def state_ids(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the rows of frozen states, by their own identity; states that are not there are left out."""
    query = select(DecisionState.state_key, DecisionState.id).where(DecisionState.state_key.in_(keys))
    return {row.state_key: row.id for row in connection.execute(query)}


def recorded_labeler(connection: Connection, name: str) -> tuple[int, LabelerIdentity]:
    """Return the row number of a labeler, and how it measures. Raise InputError if its name is unknown."""
    found = recorded_identity(connection, name)
    if found is None:
        raise InputError(f"labeler {name!r} has measured nothing yet", hint="drsr label")
    return found


def _rows(connection: Connection, labeler_id: int) -> Iterator[dict[str, Any]]:
    """One per measured state of a current trajectory."""
    labels = _by_state(connection, [Label.mask, Label.direct_saving, Label.deleted_nll], Label, labeler_id)
    columns = [LabelExclusion.mask, LabelExclusion.reason, LabelExclusion.detail]
    excluded = _by_state(connection, columns, LabelExclusion, labeler_id)
    fields = [getattr(StateMeasurement, name) for name in MEASUREMENT_COLUMNS]
    query = (
        select(DecisionState.id, DecisionState.state_key, *fields)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateMeasurement.labeler_id == labeler_id, Trajectory.is_current())
    )
    for row in connection.execute(query).mappings():
        values = dict(row)
        state_id = values.pop("id")
        for names, found in ((_LABELS, labels[state_id]), (_EXCLUDED, excluded[state_id])):
            values |= {name: [one[place] for one in found] for place, name in enumerate(names)}
        yield values


def _by_state(
    connection: Connection, columns: list[Any], table: type[Label] | type[LabelExclusion], labeler_id: int
) -> defaultdict[int, list[Any]]:
    """Some columns of a labeler's rows by state, in the order of their masks."""
    query = select(table.state_id, *columns).where(table.labeler_id == labeler_id).order_by(table.state_id, table.mask)
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for state_id, *values in connection.execute(query):
        found[state_id].append(values)
    return found


def _measurement(state_id: int, row: Row, where: Path) -> Measurement:
    if row["outcome"] == "labelled" and not row["masks"]:
        raise ArtifactCorrupt("is labelled without a label", where=f"{where}, state {row['state_key']}")
    labels, excluded = (list(zip(*(row[name] for name in names), strict=True)) for names in (_LABELS, _EXCLUDED))
    return Measurement(state_id, {name: row[name] for name in MEASUREMENT_COLUMNS}, labels, excluded)
