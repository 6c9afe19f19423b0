"""No trajectory and no task is on both sides of a split: by the stored trajectories themselves, not by columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

from sqlalchemy import select

from drsr.errors import DrsrError
from drsr.offline.audit.subject import AuditSubject
from drsr.offline.audit.verdicts import AuditVerdict, Check, Severity, Told, failed, first_of, passed
from drsr.offline.catalog.statements import among, storable
from drsr.offline.catalog.tables import DecisionState, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.near_duplicates import text_of
from drsr.offline.splits import assign_split, group_key
from drsr.offline.trajectories import Trajectory


class Placed(NamedTuple):
    """A current trajectory, and what its own bytes say about it."""

    name: str
    """`source/external id`."""
    split: str
    group: str
    """As recorded."""
    own_group: str
    """From its bytes."""
    text: str
    """SHA-256 of what was said in it, instructions left out."""


def check_splits(subject: AuditSubject, told: Told) -> list[AuditVerdict]:
    runs = _read(subject, told)
    problems = [*_misfiled(runs), *_on_both_sides(runs)]
    behind: Counter[str] = Counter()
    try:
        behind = _behind_the_policy(subject)
    except DrsrError as error:
        problems.append(f"which states are behind the policy cannot be read: {error.what}")
    if behind["test"]:
        problems.append(f"{behind['test']} states of the test split are among those that the policy was made from")
    evidence = {"trajectories": dict(Counter(run.split for run in runs)), "policy_states": dict(behind)}
    if problems:
        hint = "take the run out of all splits but one, and train, calibrate and evaluate again"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    counts = ", ".join(f"{count:,} {split}" for split, count in sorted(evidence["trajectories"].items()))
    groups = len({run.own_group for run in runs})
    return passed(CHECK, f"{len(runs):,} trajectories of {groups:,} groups, each on one side: {counts}", **evidence)


def _behind_the_policy(subject: AuditSubject) -> Counter[str]:
    """How many of the states that the policy was made from are of each split now."""
    keys = subject.state_keys
    query = select(TrajectoryRow.split).join(DecisionState, DecisionState.trajectory_id == TrajectoryRow.id)
    with subject.catalog.reading() as connection:
        mine = among(connection, DecisionState.state_key, keys)
        return Counter(connection.execute(query.where(mine)).scalars())


def _read(subject: AuditSubject, told: Told) -> list[Placed]:
    columns = (Source.name, TrajectoryRow.external_id, TrajectoryRow.split, TrajectoryRow.group_key, TrajectoryRow.blob)
    query = select(*columns).join(Source, Source.id == TrajectoryRow.source_id)
    with subject.catalog.reading() as connection:
        rows = connection.execute(query.where(TrajectoryRow.superseded_by.is_(None)).order_by(TrajectoryRow.id)).all()
    found = []
    for done, (source, external_id, split, group, blob) in enumerate(rows):
        told(done, len(rows))
        run = Trajectory.from_json(subject.artifacts.get(blob))
        said = hashlib.sha256(text_of(run).encode("utf-8", "replace")).hexdigest()
        own = storable(group_key(source, external_id, run.task))
        found.append(Placed(f"{source}/{external_id}", split, group, own, said))
    return found


def _misfiled(runs: list[Placed]) -> list[str]:
    """Runs whose group or split is not the one that their own bytes give."""
    problems = []
    for run in runs:
        belongs = assign_split(run.own_group)
        if run.group != run.own_group:
            problems.append(f"trajectory {run.name} is filed as {run.group!r}; its own bytes say {run.own_group!r}")
        elif run.split != belongs:
            problems.append(f"trajectory {run.name} is in {run.split}; the hash of its group assigns it to {belongs}")
    return problems


def _on_both_sides(runs: list[Placed]) -> list[str]:
    """The same task, or the same words, in more than one split."""
    problems = []
    for what in ("own_group", "text"):
        found: dict[str, dict[str, str]] = {}
        for run in runs:
            found.setdefault(getattr(run, what), {}).setdefault(run.split, run.name)
        for sides in found.values():
            if len(sides) > 1:
                places = " and ".join(f"in {split} as {name}" for split, name in sides.items())
                problems.append(f"the same {'task' if what == 'own_group' else 'words'} are {places}")
    return problems


CHECK = Check(
    "splits hold",
    Severity.CRITICAL,
    "Is any run, or any task, both in what the scorer learned from and in what it was judged by?",
    "Every stored trajectory is read. Its group (the task where it names one) and the split that the salted hash of "
    "the group gives are computed from its own bytes and compared with the catalog's columns; no group and no text "
    "of a run, instructions left out, may be in two splits; none of the policy's states may be of the test split. "
    "Texts that are nearly the same are found by the expectation on near-duplicates.",
    check_splits,
)
