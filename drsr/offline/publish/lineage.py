"""The hash chain of a policy, back to the trajectories: its ingredients, link by link.

    trajectories -> states -> labels and features -> training -> calibration -> policy
                                                                   journal  -> policy

Every link is a SHA-256 over its own facts, every item in it, and the links that it was made from. So the last one
covers all of them, and any of them can be computed again from the catalog and the artifact store. The journal's link is
the event that recorded the calibration; a policy from before the journal has none. The lineage travels inside the
policy as `lineage.json`; nothing in it proves who wrote it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from drsr.errors import PolicyCorrupt
from drsr.offline.calibrate.stage import calibration_key
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import event_of
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.freeze.readable_part import read_beginning
from drsr.offline.freeze.records import UnfrozenTrajectory, state_key
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.publish.lineage_rows import (
    FITTED,
    NamedLabeler,
    StateRows,
    frame_of,
    labeler_of,
    present_states,
    read_features,
    read_states,
    view_of,
)
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, readings
from drsr.offline.train.ablations import column_group, find_ablation
from drsr.offline.train.checkpoints import frame_hash
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.records import CalibrationRecord, TrainingRecord, get_training_run
from drsr.offline.train.stage import run_key

FORMAT = "drsr-lineage/1"
JOURNAL = "journal"
"""Name of the link to the journal's event of the calibration; its items are all events up to it."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ROUNDING = 1e-9
"""Nats per token; far below what any label is measured to."""


class Link(NamedTuple):
    """One stage's result."""

    link: str
    items: int
    """Number of items."""
    sha256: str
    made_from: tuple[str, ...]
    facts: dict[str, Any]


class Traced(NamedTuple):
    """The origins of a calibrated scorer, read again from the catalog and the artifact store."""

    calibration: CalibrationRecord
    run: TrainingRecord
    view: RegisteredView
    labeler: NamedLabeler
    states: tuple[StateRows, ...]
    frames: dict[str, TrainingFrame]
    """Frames by split, assembled from the states."""
    links: tuple[Link, ...]
    """Links from `trajectories` to `calibration`, then `journal` if there is one."""
    problems: tuple[str, ...]
    """Places where a record does not follow from what it was made from; empty if all is well."""

    @property
    def state_keys(self) -> bytes:
        """The states' names as JSON: with them the same lineage can be computed again when there are more states."""
        return orjson.dumps([state.state_key for state in self.states])


def trace(
    catalog: Catalog,
    artifacts: ArtifactStore,
    calibration: CalibrationRecord,
    state_keys: Sequence[str] | None = None,
    kept: Kept | None = None,
) -> Traced:
    """Read everything that led to a calibration again, compute every link, and note what does not fit.

    By default it rests on the states that are labelled and featurized now; a released policy lists its own. With `kept`
    a trajectory's bytes are not read again if their result is known.
    """
    with catalog.reading() as connection:
        run = get_training_run(connection, calibration.training_run_id)
        view, labeler = view_of(connection, run.view_id), labeler_of(connection, run.labeler_id)
        keys = present_states(connection, view, labeler, source=run.source) if state_keys is None else state_keys
        states = read_states(connection, view, labeler, keys)
        noted = event_of(connection, calibration.calibration_key, "calibrate")
    features = read_features(artifacts, view, states)
    frames: dict[str, TrainingFrame] = {}
    for split in FITTED:
        frames[split] = frame_of(split, view, labeler, states, features)
    problems = [
        *_trajectory_problems(artifacts, states, kept),
        *_label_problems(labeler, states),
        *_source_problems(run, states),
        *_training_problems(artifacts, run, view, frames),
        *_calibration_problems(calibration, run),
    ]
    links = _links(calibration, run, view, labeler, states, features)
    if noted is not None:
        links = (*links, Link(JOURNAL, noted.number, noted.sha256, (), {}))
    return Traced(calibration, run, view, labeler, tuple(states), frames, links, tuple(problems))


def policy_link(links: Sequence[Link], identity: str, version: str) -> Link:
    """Return the last link: the policy that a calibration became."""
    before = tuple(link for link in links if link.link in ("calibration", JOURNAL))
    return _link("policy", before, {"identity": identity, "version": version}, [identity])


def before_the_journal(links: Sequence[Link]) -> tuple[Link, ...]:
    """Return the links that a policy from before the journal has."""
    return tuple(link for link in links if link.link != JOURNAL)


def _links(
    calibration: CalibrationRecord,
    run: TrainingRecord,
    view: RegisteredView,
    labeler: NamedLabeler,
    states: Sequence[StateRows],
    features: dict[str, NDArray[np.float32]],
) -> tuple[Link, ...]:
    runs = sorted(
        {(state.source, state.external_id, state.content_hash, state.group_key, state.split) for state in states}
    )
    trajectories = _link(
        "trajectories",
        (),
        {"sources": _counts(run[0] for run in runs), "splits": _counts(run[-1] for run in runs)},
        runs,
    )
    frozen = _link(
        "states",
        (trajectories,),
        {**view.identity.freezing._asdict(), "splits": _counts(state.split for state in states)},
        (
            (state.state_key, state.content_hash, state.decision_index, state.request_hash)
            + (state.candidate_savings, state.candidate_texts)
            for state in states
        ),
    )
    labels = _link(
        "labels",
        (frozen,),
        {"labeler": labeler.name, **labeler.identity.facts, "sets": sum(len(state.labels) for state in states)},
        ((state.state_key, state.target_hash, state.intact_nll, [*map(list, state.labels)]) for state in states),
    )
    columns = _link(
        "features",
        (frozen,),
        {"view": view.name, "version": view.version, **view.identity._asdict(), "columns": len(view.columns)},
        (
            (state.state_key, state.prefix_hash, state.request_tokens, state.protocol_breaking)
            + (hashlib.sha256(np.ascontiguousarray(features[state.state_key], "<f4").data).hexdigest(),)
            for state in states
        ),
    )
    trained = {name: value for name, value in run._asdict().items() if name not in _NOT_FACTS}
    training = _link("training", (labels, columns), trained, run.seeds)
    chosen = {name: value for name, value in calibration._asdict().items() if name not in _NOT_FACTS}
    return trajectories, frozen, labels, columns, training, _link("calibration", (training,), chosen, [run.weights])


_NOT_FACTS = {"id", "view_id", "labeler_id", "training_run_id", "code_version", "seconds"}
_NOT_FACTS |= {"trained_at", "calibrated_at", "metrics", "history"}
"""Columns of a run that do not belong to a link: row numbers, what depends on when and where it ran, and what nothing
was made from."""


def _link(link: str, made_from: Sequence[Link], facts: dict[str, Any], items: Iterable[Any]) -> Link:
    digest = hashlib.sha256()
    names = [other.link for other in made_from]
    head = [link, [other.sha256 for other in made_from], facts]
    digest.update(orjson.dumps(head, option=orjson.OPT_SORT_KEYS) + b"\n")
    count = 0
    for item in items:
        digest.update(orjson.dumps(item, option=orjson.OPT_SORT_KEYS) + b"\n")
        count += 1
    return Link(link, count, digest.hexdigest(), tuple(names), facts)


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _trajectory_problems(artifacts: ArtifactStore, states: Sequence[StateRows], kept: Kept | None) -> list[str]:
    """Check that the stored bytes of every trajectory have its hash, and that the states are cut from these very bytes.

    Of a trajectory that was imported without its text only the keys of its states can be computed again.
    """
    splits: dict[str, set[str]] = {}
    cut_from: dict[str, list[StateRows]] = {}
    for state in states:
        if state.has_text:
            cut_from.setdefault(state.blob, []).append(state)
        splits.setdefault(state.group_key, set()).add(state.split)
    problems = [f"group {group} is on both sides of the split" for group, sides in splits.items() if len(sides) > 1]
    problems += [
        f"state {state.state_key} does not have the key of its trajectory, decision and rule"
        for state in states
        if not state.has_text and state.state_key != state_key(_frozen_from(state), state.decision_index, state.rule)
    ]
    asked = {
        f"{bytes_named(blob)} {','.join(str(state.decision_index) for state in cut)}": blob
        for blob, cut in cut_from.items()
    }
    given = readings(artifacts, kept, "requests before decisions of a run", asked, _requests)
    for name, blob in asked.items():
        cut, (content_hash, *requests) = cut_from[blob], orjson.loads(given[name])
        if content_hash != cut[0].content_hash:
            problems.append(f"trajectory {cut[0].source}/{cut[0].external_id} is not the one that was ingested")
            continue
        for state, request in zip(cut, requests, strict=True):
            key = state_key(_frozen_from(state), state.decision_index, state.rule)
            if request != state.request_hash or key != state.state_key:
                problems.append(f"state {state.state_key} does not follow from its trajectory")
    return problems


def _frozen_from(state: StateRows) -> UnfrozenTrajectory:
    return UnfrozenTrajectory(0, state.source, state.external_id, state.content_hash, state.blob)


def _requests(name: str, data: bytes) -> bytes:
    """Return the hash of a stored trajectory, and of the request before each of the decisions that are named."""
    trajectory = Trajectory.from_json(data)
    request, _ = read_beginning(trajectory)
    decisions = map(int, name.partition(" ")[2].split(","))
    before = (request.with_messages(request.messages[:decision]) for decision in decisions)
    return orjson.dumps([trajectory.content_hash, *(content_key(request.to_wire()) for request in before)])


def _label_problems(labeler: NamedLabeler, states: Sequence[StateRows]) -> list[str]:
    """Check that every harm is the difference of its two measurements, and that unsafe means above the tolerance."""
    tolerance = labeler.identity.harm_tolerance
    return [
        f"state {state.state_key}, deletion set {found.mask}: its harm or verdict does not follow from its NLLs"
        for state in states
        for found in state.labels
        if abs(found.deleted_nll - state.intact_nll - found.harm) > _ROUNDING
        or found.unsafe != (found.harm > tolerance)
    ]


def _source_problems(run: TrainingRecord, states: Sequence[StateRows]) -> list[str]:
    """A scorer of one source was made from no other's states."""
    foreign = [] if run.source is None else [state for state in states if state.source != run.source]
    return [
        f"the scorer is said to be of source {run.source} alone, and was made from state {state.state_key} of "
        f"{state.source}"
        for state in foreign
    ]


def _training_problems(
    artifacts: ArtifactStore, run: TrainingRecord, view: RegisteredView, frames: dict[str, TrainingFrame]
) -> list[str]:
    """Check that the recorded run was made from these very labels and features, and that its weights are those that it
    left."""
    problems = []
    for split, recorded in (("train", run.train_hash), ("validation", run.validation_hash)):
        if frame_hash(frames[split]) != recorded:
            problems.append(
                f"the labels and features of split {split} are not those that the scorer was trained on "
                "(where they are newer: drsr train, drsr calibrate, and publish again)"
            )
    groups = tuple(map(column_group, view.columns))
    key = run_key(run.version, run.params, find_ablation(run.ablation), groups, run.train_hash, run.validation_hash)
    if key != run.run_key:
        problems.append(f"training run {run.run_key} does not have the key of what it says it was made from")
    artifacts.get(run.weights)  # raises ArtifactCorrupt where its bytes do not have this hash
    return problems


def _calibration_problems(calibration: CalibrationRecord, run: TrainingRecord) -> list[str]:
    key = calibration_key(
        calibration.version,
        calibration.mode,
        calibration.params,
        run.scored_by,
        calibration.validation_hash,
        calibration.train_hash,
    )
    problems = []
    if key != calibration.calibration_key:
        problems.append(f"calibration {calibration.calibration_key} does not have the key of what it was made from")
    if calibration.validation_hash != run.validation_hash or calibration.train_hash not in (None, run.train_hash):
        problems.append("the calibration saw other frames than the training run")
    return problems


def lineage_bytes(links: Sequence[Link], states_key: str) -> bytes:
    """Return the content of `lineage.json`. `states_key` names the list of states in the artifact store."""
    document = {"format": FORMAT, "links": [link._asdict() for link in links], "states": states_key}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


def read_lineage(data: bytes, where: str | None = None) -> tuple[tuple[Link, ...], str]:
    """Return the links and the key of the list of states. PolicyCorrupt says what in it is malformed."""

    def refuse(what: str) -> NoReturn:
        hint = "get the wheel again from whoever published it"
        raise PolicyCorrupt(f"its lineage cannot be read: {what}", where=where, hint=hint)

    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        refuse("it is no JSON")
    if not isinstance(document, dict):
        refuse("it is not an object")
    if document.get("format") != FORMAT:
        refuse(f"it is not of the format {FORMAT!r}, which this version reads")
    links, states = document.get("links"), document.get("states")
    if not isinstance(links, list) or not links:
        refuse("it has no links")
    for number, link in enumerate(links):
        wrong = _wrong_with(link)
        if wrong:
            refuse(f"link {number + 1} {wrong}")
    if not _is_hash(states):
        refuse("it does not name the list of its states")
    return tuple(Link(**{**link, "made_from": tuple(link["made_from"])}) for link in links), str(states)


def _wrong_with(link: Any) -> str:
    """Return what is wrong with a link, or nothing."""
    if not isinstance(link, dict) or set(link) != set(Link._fields):
        return f"does not have the fields {', '.join(Link._fields)}"
    if not isinstance(link["link"], str):
        return "has no name"
    if type(link["items"]) is not int or link["items"] < 0:
        return "does not count its items"
    if not _is_hash(link["sha256"]):
        return "has no SHA-256"
    made_from = link["made_from"]
    if not isinstance(made_from, list) or not all(isinstance(name, str) for name in made_from):
        return "does not list what it was made from"
    return "" if isinstance(link["facts"], dict) else "has no facts"


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None
