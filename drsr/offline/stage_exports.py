"""Exports of each stage for DVC: immutable files below `<root>/<stage>/`, and a summary beside them.

    exports/label/labels/<sha256>.parquet    what the stage made
    exports/label/summary.json               a few numbers of it, for `dvc metrics`

dvc.yaml names the same folders. Exporting again what did not change writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.orm import InstrumentedAttribute

from drsr.errors import SettingsError
from drsr.files import write_if_changed
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.exports import FURTHER, export_features
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, find_view, get_view
from drsr.offline.freeze.exports import current_trajectories, export_states, export_trajectories, latest_rule
from drsr.offline.label.exports import export_labels, recorded_labeler
from drsr.offline.params import Params
from drsr.offline.stages import NAMES
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import CONTENTS, Exported, Summary, place_of, to_bytes

if TYPE_CHECKING:
    from drsr.offline.train.stage import TrainingInputs

SUMMARY = "summary.json"


class StageExport(NamedTuple):
    """The result of exporting a stage."""

    stage: str
    folder: Path
    """Folder that holds the export."""
    added: Exported | None
    """The part that was added; None for a result that is written as a whole."""
    summary: Summary


@dataclass(frozen=True)
class Exporter:
    """Exports stages of one catalog below one folder."""

    catalog: Catalog
    artifacts: ArtifactStore
    params: Params
    root: Path
    labeler: str = "default"
    view: str = DEFAULT_VIEW
    may_replace: bool = False
    """Parts made under another rule, layout or language model make room: for a folder that DVC remembers."""

    def export(self, stage: str) -> StageExport:
        """Write what the stage made, then its summary."""
        if stage not in CONTENTS:
            raise SettingsError(f"no stage is called {stage!r}", hint=f"the stages are {', '.join(NAMES)}")
        folder = place_of(self.root, stage)
        how: dict[str, Callable[[Path], tuple[Exported | None, Summary]]] = {
            "ingest": self._trajectories,
            "freeze": self._states,
            "label": self._labels,
            "featurize": self._features,
        }
        added, summary = how[stage](folder) if stage in how else (None, self._result(stage, folder))
        write_if_changed(self.root / stage / SUMMARY, to_bytes(summary))
        return StageExport(stage, folder, added, summary)

    def _trajectories(self, folder: Path) -> tuple[Exported, Summary]:
        added = export_trajectories(self.catalog, folder, replace=self.may_replace)
        splits, everything = current_trajectories(self.catalog)
        return added, {"trajectories": sum(splits.values()), "splits": splits, "sha256": everything}

    def _states(self, folder: Path) -> tuple[Exported, Summary]:
        added = export_states(self.catalog, folder, replace=self.may_replace)
        with self.catalog.reading() as connection:
            rule = latest_rule(connection)
        return added, {"states": added.states + added.there, "rule": rule.rule_version}

    def _labels(self, folder: Path) -> tuple[Exported, Summary]:
        added = export_labels(self.catalog, folder, self.labeler, replace=self.may_replace)
        with self.catalog.reading() as connection:
            labeler_id, _ = recorded_labeler(connection, self.labeler)
            states = _counts(connection, StateMeasurement.outcome, StateMeasurement.labeler_id == labeler_id)
            sets = _counts(connection, Label.unsafe, Label.labeler_id == labeler_id)
        total = sum(sets.values())
        share = None if total == 0 else sets.get(True, 0) / total
        return added, {"states": states, "sets": total, "unsafe_share": share}

    def _features(self, folder: Path) -> tuple[Exported, Summary]:
        """The view, and those that travel with it: what was read from the same states in the same forward."""
        with self.catalog.reading() as connection:
            view = get_view(connection, self.view)
            further = [found for name in FURTHER if (found := find_view(connection, name)) is not None]
        added = self._view(folder, view)
        for one in further:
            if one.identity.freezing == view.identity.freezing and one.is_read_from(view.identity) and one != view:
                self._view(folder / one.name, one)
        with self.catalog.reading() as connection:
            states = _counts(connection, StateFeatures.outcome, StateFeatures.view_id == view.id)
        return added, {"states": states, "columns": len(view.columns), "layout": view.identity.layout_hash}

    def _view(self, folder: Path, view: RegisteredView) -> Exported:
        return export_features(self.catalog, self.artifacts, folder, view.name, replace=self.may_replace)

    def _result(self, stage: str, folder: Path) -> Summary:
        from drsr.offline.publish import exports as result_exports

        if stage == "train":
            return result_exports.export_scorer(*self._fitted, folder)
        if stage == "calibrate":
            return result_exports.export_calibration(*self._fitted, folder)
        if stage == "evaluate":
            return result_exports.export_evaluation(self.catalog, self.artifacts, folder)
        return result_exports.export_release(self.catalog, self.artifacts, folder)

    @cached_property
    def _inputs(self) -> TrainingInputs:
        from drsr.offline.train.stage import read_inputs

        return read_inputs(self.catalog, self.artifacts, self.view, self.labeler, "train", self.params.train.source)

    @property
    def _fitted(self) -> tuple[Catalog, ArtifactStore, TrainingInputs, Params]:
        return self.catalog, self.artifacts, self._inputs, self.params


def _counts(connection: Connection, column: InstrumentedAttribute[Any], mine: ColumnElement[bool]) -> dict[Any, int]:
    """Return how many rows of current runs have each value of a column."""
    table = column.class_
    query = (
        select(column, func.count())
        .join(DecisionState, DecisionState.id == table.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(Trajectory.is_current(), mine)
        .group_by(column)
        .order_by(column)
    )
    return {value: count for value, count in connection.execute(query).tuples()}  # noqa: C416 - typed
