"""The rows that decide what a policy is made from, each as a name and a fingerprint, for the journal to keep.

A name is a hash or made of hashes, and a fingerprint holds no text either: what is erased leaves nothing here. Row
numbers, locations and moments are left out, so the same work in another catalog gives the same; files and reads alone
have a number. All is kept for ever by every journal: never change what goes into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from drsr.offline.catalog.feature_tables import FeatureView, SplitRead
from drsr.offline.catalog.label_tables import Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import (
    Candidate,
    DecisionState,
    FrozenTrajectory,
    Source,
    SourceFile,
    Trajectory,
    Withdrawal,
)

Rows = dict[str, str]
"""Fingerprints by name."""
Ids = Sequence[int] | None
"""Row numbers; None: all there are."""


def run_name(source: str, external_id: str) -> str:
    """Return the name of a run, the same for all its versions."""
    return content_key([source, external_id])


def files(connection: Connection, ids: Ids = None) -> Rows:
    """Source files with the counts of their latest read."""
    columns = (Source.name, SourceFile.id, SourceFile.trajectories, SourceFile.quarantined)
    query = select(*columns).join(Source, Source.id == SourceFile.source_id)
    rows = connection.execute(_only(query, SourceFile.id, ids))
    return {f"{content_key([source])}.{number}": f"{runs} {refused}" for source, number, runs, refused in rows}


def runs(connection: Connection, ids: Ids = None) -> Rows:
    """Return versions of runs: `run.version` by split and whether something took its place."""
    columns = (Trajectory.version, Trajectory.split, Trajectory.superseded_by, Trajectory.content_hash)
    query = select(Source.name, Trajectory.external_id, *columns, Trajectory.group_key)
    query = _only(query.join(Source, Source.id == Trajectory.source_id), Trajectory.id, ids)
    return {
        f"{run_name(source, external_id)}.{version}": f"{split} {by or '-'} {content_key([content, group])}"
        for source, external_id, version, split, by, content, group in connection.execute(query)
    }


def marks(connection: Connection, trajectories: Ids = None) -> Rows:
    """Return the marks of runs that were frozen, by run and rule, with the number of eligible decisions."""
    rule = (FrozenTrajectory.rule_hash, FrozenTrajectory.renderer_version, FrozenTrajectory.tokenizer_identity)
    found = (FrozenTrajectory.eligible_decisions, FrozenTrajectory.why_none)
    query = select(Source.name, Trajectory.external_id, Trajectory.version, *found, *rule)
    query = query.join(Trajectory, Trajectory.id == FrozenTrajectory.trajectory_id)
    query = _only(query.join(Source, Source.id == Trajectory.source_id), FrozenTrajectory.trajectory_id, trajectories)
    return {
        f"{run_name(source, external_id)}.{version} {content_key(list(by))}": f"{eligible} {content_key([why])}"
        for source, external_id, version, eligible, why, *by in connection.execute(query)
    }


def states(connection: Connection, trajectories: Ids = None) -> Rows:
    """Return states by key, with their run and their candidates."""
    columns = (Candidate.state_id, Candidate.position, Candidate.direct_saving, Candidate.text_hash)
    within = select(*columns).join(DecisionState, DecisionState.id == Candidate.state_id)
    within = _only(within, DecisionState.trajectory_id, trajectories)
    candidates = _by_state(connection.execute(within.order_by(Candidate.state_id, Candidate.position)))
    facts = (DecisionState.decision_index, DecisionState.request_hash, DecisionState.status)
    query = select(
        DecisionState.id, DecisionState.state_key, Source.name, Trajectory.external_id, Trajectory.version, *facts
    )
    query = query.join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
    query = _only(query.join(Source, Source.id == Trajectory.source_id), DecisionState.trajectory_id, trajectories)
    return {
        key: f"{run_name(source, external_id)}.{version} {content_key([*more, candidates.get(row, [])])}"
        for row, key, source, external_id, version, *more in connection.execute(query)
    }


def measurements(connection: Connection, labeler_id: int | None = None, state_ids: Ids = None) -> Rows:
    """Measurements by labeler and state: whether labelled or excluded, with all sets that were measured or left out."""
    values = {"labeler": labeler_id, "states": state_ids if state_ids is None else list(state_ids)}
    values = {name: value for name, value in values.items() if value is not None}
    of_label, of_exclusion, query = _measurement_queries(frozenset(values))
    labels = _by_measurement(connection.execute(of_label, values))
    left_out = _by_measurement(connection.execute(of_exclusion, values))
    found = {}
    for state_id, of, labeler, key, outcome, *more in connection.execute(query, values):
        sets = [labels.get((state_id, of), []), left_out.get((state_id, of), [])]
        found[f"{labeler} {key}"] = f"{outcome} {content_key([*more, *sets])}"
    return found


@cache
def _measurement_queries(which: frozenset[str]) -> tuple[Select[Any], Select[Any], Select[Any]]:
    """Put together once: labelling asks for every run, and building the queries took longer than running them."""

    def mine(query: Select[Any], table: type[Label] | type[LabelExclusion] | type[StateMeasurement]) -> Select[Any]:
        if "states" in which:
            query = query.where(table.state_id.in_(bindparam("states", expanding=True)))
        return query.where(table.labeler_id == bindparam("labeler")) if "labeler" in which else query

    numbers = (Label.mask, Label.direct_saving, Label.deleted_nll, Label.harm, Label.unsafe)
    of_label = mine(select(Label.state_id, Label.labeler_id, *numbers), Label)
    of_exclusion = mine(
        select(LabelExclusion.state_id, LabelExclusion.labeler_id, LabelExclusion.mask, LabelExclusion.reason),
        LabelExclusion,
    )
    facts = (StateMeasurement.reason, StateMeasurement.intact_nll, StateMeasurement.target_hash)
    keys = (StateMeasurement.state_id, StateMeasurement.labeler_id)
    query = select(*keys, Labeler.name, DecisionState.state_key, StateMeasurement.outcome, *facts)
    query = query.join(Labeler, Labeler.id == StateMeasurement.labeler_id)
    query = mine(query.join(DecisionState, DecisionState.id == StateMeasurement.state_id), StateMeasurement)
    return (
        of_label.order_by(Label.state_id, Label.mask),
        of_exclusion.order_by(LabelExclusion.state_id, LabelExclusion.mask),
        query,
    )


def withdrawals(connection: Connection, external_id: str | None = None) -> Rows:
    """Withdrawals by run, numbered, each in force or taken back."""
    columns = (Source.name, Withdrawal.external_id, Withdrawal.reason, Withdrawal.taken_back_at)
    query = select(*columns).join(Source, Source.id == Withdrawal.source_id)
    if external_id is not None:
        query = query.where(Withdrawal.external_id == external_id)
    found: Rows = {}
    times: dict[str, int] = {}
    for source, name, reason, taken_back in connection.execute(query.order_by(Withdrawal.id)):
        run = run_name(source, name)
        times[run] = times.get(run, 0) + 1
        found[f"{run}.{times[run]}"] = f"{'taken-back' if taken_back else 'in-force'} {content_key([reason])}"
    return found


def trainings(connection: Connection, run_key: str | None = None) -> Rows:
    """Training runs by key, with what they were made from and the weights they left."""
    facts = (TrainingRun.ablation, TrainingRun.params, TrainingRun.train_hash, TrainingRun.validation_hash)
    query = select(TrainingRun.run_key, *facts, TrainingRun.seeds, TrainingRun.chosen_epochs, TrainingRun.weights)
    if run_key is not None:
        query = query.where(TrainingRun.run_key == run_key)
    return {key: content_key(more) for key, *more in connection.execute(query)}


def calibrations(connection: Connection, calibration_key: str | None = None) -> Rows:
    """Calibrations by key, with the operating point and the numbers it has on validation."""
    run = CalibrationRun
    facts = (run.mode, run.params, run.validation_hash, run.train_hash, run.abstains_always, run.max_cardinality)
    numbers = (run.uncertainty_coefficient, run.risk_threshold, run.states, run.incomplete_states, run.selected)
    shown = (run.unsafe_rate, run.mean_harm, run.mean_removal, run.unsafe_bound, run.search_table)
    query = select(run.calibration_key, TrainingRun.run_key, *facts, *numbers, *shown)
    query = query.join(TrainingRun, TrainingRun.id == run.training_run_id)
    if calibration_key is not None:
        query = query.where(run.calibration_key == calibration_key)
    return {key: content_key(more) for key, *more in connection.execute(query)}


def releases(connection: Connection, version: str | None = None) -> Rows:
    """Released policies by version, with the hashes of wheel, lineage and states."""
    facts = (PolicyRelease.identity, PolicyRelease.wheel, PolicyRelease.lineage, PolicyRelease.states)
    query = select(PolicyRelease.version, CalibrationRun.calibration_key, *facts)
    query = query.join(CalibrationRun, CalibrationRun.id == PolicyRelease.calibration_run_id)
    if version is not None:
        query = query.where(PolicyRelease.version == version)
    return {name: content_key(more) for name, *more in connection.execute(query)}


def reads(connection: Connection, after: int | None = None) -> Rows:
    """Return the reads of splits by number, those after a number if one is given."""
    facts = (SplitRead.states, SplitRead.labels, SplitRead.excluded)
    query = select(SplitRead.id, SplitRead.purpose, SplitRead.split, FeatureView.name, FeatureView.version)
    query = query.add_columns(Labeler.name, *facts).join(FeatureView, FeatureView.id == SplitRead.view_id)
    query = query.outerjoin(Labeler, Labeler.id == SplitRead.labeler_id)
    query = query if after is None else query.where(SplitRead.id > after)
    return {
        str(number): f"{purpose} {split} {content_key(more)}"
        for number, purpose, split, *more in connection.execute(query)
    }


def whole(connection: Connection) -> dict[str, Rows]:
    """Return everything that a catalog holds, by kind of row. Each table is read once."""
    return {
        "file": files(connection),
        "run": runs(connection),
        "mark": marks(connection),
        "state": states(connection),
        "measurement": measurements(connection),
        "withdrawal": withdrawals(connection),
        "training": trainings(connection),
        "calibration": calibrations(connection),
        "release": releases(connection),
        "read": reads(connection),
    }


def changed(before: Rows, after: Rows) -> Rows:
    """Return the rows that are new or another than before."""
    return {name: value for name, value in after.items() if before.get(name) != value}


def _only(query: Select[Any], column: Any, ids: Ids) -> Select[Any]:
    return query if ids is None else query.where(column.in_(list(ids)))


def _by_state(rows: Iterable[Any]) -> dict[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = {}
    for state_id, *values in rows:
        found.setdefault(state_id, []).append(values)
    return found


def _by_measurement(rows: Iterable[Any]) -> Mapping[tuple[int, int], list[list[Any]]]:
    found: dict[tuple[int, int], list[list[Any]]] = {}
    for state_id, labeler_id, *values in rows:
        found.setdefault((state_id, labeler_id), []).append(values)
    return found
