"""States frozen again: every number that needs no language model, of every state, and that none was left out.

Each recorded run is frozen once more from its own bytes. What that gives must be what the catalog has: the states
themselves, tokens and savings, the sets that would break the protocol, and the columns read from text alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from drsr.decide.deletion_sets import deletion_sets
from drsr.errors import AlignmentError, ArtifactCorrupt, RequestError
from drsr.features.layout import ColumnGroup
from drsr.features.light import light_features
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.offline.catalog.label_tables import LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, FrozenTrajectory, Source, SourceFile, TrajectoryFile
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.freeze.stage import freezing_rule, state_record
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.publish.lineage_rows import NamedLabeler, StateRows, present_states, read_features, read_states
from drsr.offline.publish.subject import Subject
from drsr.offline.store.kept import bytes_named, readings
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed, without_texts
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps, caps_for

FROM_TEXT = (ColumnGroup.STRUCTURAL, ColumnGroup.TEXT)
"""Groups of columns that no language model is needed for: the same text gives the same bits."""


class FrozenRun(NamedTuple):
    """A current run, and what the catalog says that freezing it gave."""

    name: str
    """`source/external id`."""
    split: str
    blob: str
    has_text: bool
    eligible: int | None
    """None: it is not frozen under this rule."""
    states: Mapping[int, str]
    """Outcome of measuring by decision; empty where a state waits."""
    chosen_at: Mapping[int, float]
    """Quantile of the eligible decisions that chose each state, by decision."""


def check_states(subject: Subject, told: Told) -> list[Verdict]:
    view, labeler = subject.view, subject.labeler
    rule = view.identity.freezing
    with subject.catalog.reading() as connection:
        tested = present_states(connection, view, labeler, ("test",))
        states = read_states(connection, view, labeler, sorted({*subject.state_keys, *tested}))
        excluded = _excluded_sets(connection, labeler, [state.state_key for state in states])
        runs = _current_runs(connection, rule, labeler)
        problems = _missing_runs(connection)
    used = {state.blob: state.has_text for state in states} | {run.blob: run.has_text for run in runs}
    blobs = [blob for blob, has_text in used.items() if has_text]
    again: dict[str, Any] = {}
    if blobs:
        identity = view.identity
        reader = subject.light_reader(identity.backbone, identity.backbone_identity)
        caps = caps_for(reader.window)
        if freezing_rule(reader.tokenizer, caps) != rule:
            hint = "audit with the version of drsr that the policy names"
            return failed(CHECK, "this version of drsr freezes by another rule than the one recorded", hint)
        again = _frozen_again(subject, blobs, reader.tokenizer, caps, rule, told)
    problems += _left_out(runs, again)
    problems += _different(states, excluded, again)
    problems += _different_columns(subject, view, states, again)
    unlabelled, waiting = _by_split(states, excluded), _waiting(runs)
    evidence = {"states": len(states), "excluded sets": unlabelled, "waiting": waiting}
    if problems:
        hint = "restore the catalog from a copy, or freeze, label and featurize anew; find out who changed it"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    looked = [state for state in states if state.has_text]
    said = f"; sets without a label: {_said(unlabelled)}" if unlabelled else ""
    said += f"; states not measured yet: {_said(waiting)}" if waiting else ""
    sets = sum(len(state.labels) for state in looked)
    detail = f"{len(looked):,} states frozen again with {sets:,} sets: the same to the bit{said}"
    absent = len(states) - len(looked)
    return without_texts(passed(CHECK, detail, **evidence), f"{absent:,} states" if absent else "")


def _excluded_sets(connection: Connection, labeler: NamedLabeler, keys: Sequence[str]) -> dict[str, set[int]]:
    """Masks that were not measured, by state; only states that have some."""
    query = select(DecisionState.state_key, LabelExclusion.mask).join(
        LabelExclusion, LabelExclusion.state_id == DecisionState.id
    )
    mine = query.where(LabelExclusion.labeler_id == labeler.id, among(connection, DecisionState.state_key, keys))
    found: dict[str, set[int]] = {}
    for key, mask in connection.execute(mine):
        found.setdefault(key, set()).add(mask)
    return found


def _current_runs(connection: Connection, rule: FreezingRule, labeler: NamedLabeler) -> list[FrozenRun]:
    columns = (TrajectoryRow.id, Source.name, TrajectoryRow.external_id, TrajectoryRow.split, TrajectoryRow.blob)
    has_text = TrajectoryRow.has_text().label("has_text")
    runs = (
        select(*columns, has_text)
        .join(Source, Source.id == TrajectoryRow.source_id)
        .where(TrajectoryRow.is_current())
        .order_by(TrajectoryRow.id)
    )
    frozen = select(FrozenTrajectory.trajectory_id, FrozenTrajectory.eligible_decisions)
    states = (
        select(
            DecisionState.trajectory_id,
            DecisionState.decision_index,
            DecisionState.quantile,
            StateMeasurement.outcome,
        )
        .outerjoin(
            StateMeasurement,
            (StateMeasurement.state_id == DecisionState.id) & (StateMeasurement.labeler_id == labeler.id),
        )
        .where(is_rule(DecisionState, rule))
    )
    eligible = dict(connection.execute(frozen.where(is_rule(FrozenTrajectory, rule))).tuples().all())
    outcomes: dict[int, dict[int, str]] = {}
    chosen_at: dict[int, dict[int, float]] = {}
    for number, decision, quantile, outcome in connection.execute(states):
        outcomes.setdefault(number, {})[decision] = outcome or ""
        chosen_at.setdefault(number, {})[decision] = quantile
    return [
        FrozenRun(
            f"{source}/{name}",
            split,
            blob,
            bool(here),
            eligible.get(number),
            outcomes.get(number, {}),
            chosen_at.get(number, {}),
        )
        for number, source, name, split, blob, here in connection.execute(runs)
    ]


def _missing_runs(connection: Connection) -> list[str]:
    """Files of which fewer runs are known than were read from them."""
    query = (
        select(SourceFile.id, SourceFile.location, SourceFile.trajectories, func.count(TrajectoryFile.trajectory_id))
        .outerjoin(TrajectoryFile, TrajectoryFile.source_file_id == SourceFile.id)
        .group_by(SourceFile.id, SourceFile.location, SourceFile.trajectories)
    )
    return [
        f"source file {number} held {held:,} runs when it was read, {known:,} of them are in the catalog"
        for number, _, held, known in connection.execute(query)
        if known < held
    ]


def _frozen_again(
    subject: Subject, blobs: Sequence[str], tokenizer: Tokenizer, caps: Caps, rule: FreezingRule, told: Told
) -> dict[str, Any]:
    """Freeze each stored run again; return the result by the key of its bytes."""
    is_light, done = subject.view.is_light, 0

    def read(name: str, data: bytes) -> bytes:
        nonlocal done
        told(done, len(blobs))
        done += 1
        return _freeze(Trajectory.from_json(data), tokenizer, caps, is_light=is_light)

    kind = "light" if is_light else "full"
    names = {f"{bytes_named(blob)} {kind} {' '.join(rule)}": blob for blob in blobs}
    found = readings(subject.artifacts, subject.kept, "states frozen again", names, read)
    return {blob: orjson.loads(found[name]) for name, blob in names.items()}


def _freeze(run: Trajectory, tokenizer: Tokenizer, caps: Caps, *, is_light: bool) -> bytes:
    try:
        frozen = freeze_trajectory(run, tokenizer, caps)
    except (RequestError, AlignmentError):
        return orjson.dumps({"eligible": 0, "states": {}})
    states = {}
    for found in frozen.states:
        state, record = found.state, state_record(found)
        sets = deletion_sets(state, len(state.candidates))
        columns = light_features(state).matrix if is_light else structural_features(state).astype(np.float32)
        states[str(found.decision)] = {
            "request_hash": record.request_hash,
            "quantile": record.quantile,
            "candidate_savings": [candidate["direct_saving"] for candidate in record.candidates],
            "candidate_texts": [candidate["text_hash"] for candidate in record.candidates],
            "request_tokens": len(state.rendering),
            "protocol_breaking": sum(1 << each.mask for each in sets if each.violations),
            "prefix_hash": prefix_hash(state),
            "savings": {str(each.mask): each.direct_saving for each in sets},
            "columns": _hash(columns),
        }
    return orjson.dumps({"eligible": frozen.eligible, "states": states})


def _hash(matrix: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(matrix, "<f4").data).hexdigest()


def _left_out(runs: Sequence[FrozenRun], again: Mapping[str, Any]) -> Iterator[str]:
    """States that freezing gives and the catalog has not, and states of which only their neighbours were measured."""
    for run in runs:
        found = again.get(run.blob)
        if run.eligible is not None and found is not None:
            decisions = sorted(map(int, found["states"]))
            if run.eligible != found["eligible"]:
                yield f"run {run.name} has {found['eligible']} eligible decisions, the catalog says {run.eligible}"
            if decisions != sorted(run.states):
                yield f"run {run.name} gives states at {decisions}, the catalog has {sorted(run.states)}"
            for decision, quantile in sorted(run.chosen_at.items()):
                there = found["states"].get(str(decision), {}).get("quantile", quantile)
                if quantile != there:
                    at = f"run {run.name}, state at {decision}"
                    yield f"{at}: quantile {there:g} chose it, the catalog says {quantile:g}"
        if any(run.states.values()) and not all(run.states.values()):
            waiting = [decision for decision, outcome in sorted(run.states.items()) if not outcome]
            yield f"run {run.name} was measured, but not its states at {waiting}: a run is measured whole"
        if run.eligible is None and run.has_text and run.states:
            yield f"run {run.name} has states, and no mark that it was frozen"


def _different(
    states: Sequence[StateRows], excluded: Mapping[str, set[int]], again: Mapping[str, Any]
) -> Iterator[str]:
    """Yield each thing the catalog says of a state that its run, frozen again, does not."""
    for state in states:
        if not state.has_text:
            continue
        found = again[state.blob]["states"].get(str(state.decision_index))
        if found is None:
            yield f"state {state.state_key}: its run has no such state"
            continue
        for field in ("request_hash", "request_tokens", "protocol_breaking", "prefix_hash"):
            if getattr(state, field) != found[field]:
                yield f"state {state.state_key}: {field} is recorded as {getattr(state, field)}, it is {found[field]}"
        for field in ("candidate_savings", "candidate_texts"):
            if list(getattr(state, field)) != found[field]:
                yield f"state {state.state_key}: {field} are not those of its candidates"
        known = {label.mask for label in state.labels} | excluded.get(state.state_key, set())
        if known != set(map(int, found["savings"])):
            yield f"state {state.state_key}: its deletion sets are not those of its candidates"
        for label in state.labels:
            saving = found["savings"].get(str(label.mask))
            if label.direct_saving != saving:
                yield (
                    f"state {state.state_key}, deletion set {label.mask}: the recorded saving is "
                    f"{label.direct_saving} tokens, it is {saving}"
                )


def _different_columns(
    subject: Subject, view: RegisteredView, states: Sequence[StateRows], again: Mapping[str, Any]
) -> Iterator[str]:
    """Stored columns read from text alone that differ by a bit from what the text gives; files that cannot be read."""
    columns = [number for number, column in enumerate(view.columns) if column.group in FROM_TEXT]
    if not columns:
        return
    by_file: dict[str, list[StateRows]] = {}
    for state in states:
        if state.has_text:
            by_file.setdefault(state.feature_file, []).append(state)
    for file, mine in by_file.items():
        try:
            stored = read_features(subject.artifacts, view, mine)
        except ArtifactCorrupt as error:
            yield f"feature file {file}: {error.what}"
            continue
        for state in mine:
            found = again[state.blob]["states"].get(str(state.decision_index))
            if found is None:
                continue
            if state.state_key not in stored or _hash(stored[state.state_key][:, columns]) != found["columns"]:
                yield f"state {state.state_key}: stored columns from text are not what the text gives, to the bit"


def _by_split(states: Sequence[StateRows], excluded: Mapping[str, set[int]]) -> dict[str, int]:
    splits = {state.state_key: state.split for state in states}
    counts: Counter[str] = Counter()
    for key, masks in excluded.items():
        counts[splits[key]] += len(masks)
    return dict(sorted(counts.items()))


def _waiting(runs: Sequence[FrozenRun]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for run in runs:
        counts[run.split] += sum(not outcome for outcome in run.states.values())
    return {split: count for split, count in sorted(counts.items()) if count}


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of {split}" for split, count in counts.items())


CHECK = Check(
    "states frozen again",
    Severity.CRITICAL,
    "Are tokens, savings and protocol verdicts what the recorded runs give, and are all their states there?",
    "Every current run, and every run behind the policy, is frozen again from its stored bytes. The states of all "
    "three splits, their candidates, the tokens of the request, the saving of every deletion set, which sets would "
    "break the protocol, and every column that is read from text alone must be the recorded ones to the bit. No "
    "state that freezing gives may be missing, no state of a measured run may be without an outcome, and no source "
    "file may have held more runs than the catalog knows. How many sets have no label and how many states wait is "
    "reported by split, and is for people to judge. No language model is needed.",
    check_states,
)
