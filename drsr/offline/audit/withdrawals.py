"""Runs that were withdrawn: how many, of which side, why. What is inconvenient must not vanish unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select

from drsr.offline.audit.subject import AuditSubject
from drsr.offline.audit.verdicts import AuditVerdict, Check, Severity, Told, failed, first_of, passed
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.catalog.withdrawals import WithdrawnRun, withdrawn_runs


def check_withdrawals(subject: AuditSubject, told: Told) -> list[AuditVerdict]:
    with subject.catalog.reading() as connection:
        runs = withdrawn_runs(connection)
    problems = [f"run {run.name} was withdrawn without a reason" for run in runs if not run.reason.strip()]
    before = {run.name for run in runs if run.withdrawn_at < subject.run.trained_at}
    behind = _behind_the_policy(subject) if before else set()
    problems += [
        f"run {name} was withdrawn before the scorer was trained, and the policy was made from it all the same"
        for name in sorted(before & behind)
    ]
    evidence = {"withdrawn": [[run.name, run.split, run.reason] for run in runs]}
    if problems:
        hint = "find out who withdrew it and why; train, calibrate and publish from what is left"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    return passed(CHECK, said(runs), **evidence)


def said(runs: Sequence[WithdrawnRun]) -> str:
    """How many, those of the test split apart, and the reasons."""
    if not runs:
        return "no run is withdrawn"
    sides = {
        "of train and validation": [run for run in runs if run.split != "test"],
        "of test": [run for run in runs if run.split == "test"],
    }
    counts = [f"{len(mine):,} {side}{_reasons(mine)}" for side, mine in sides.items()]
    return f"withdrawn are {', '.join(counts)}: whether that is right, is for people to judge"


def _reasons(runs: Sequence[WithdrawnRun]) -> str:
    reasons = Counter(run.reason for run in runs).most_common()
    shown = "; ".join(f"{count:,} x {reason!r}" for reason, count in reasons[:3])
    more = f"; and {len(reasons) - 3:,} more reasons" if len(reasons) > 3 else ""
    return f" ({shown}{more})" if shown else ""


def _behind_the_policy(subject: AuditSubject) -> set[str]:
    """Names of the runs that the policy was made from."""
    keys = subject.state_keys
    query = (
        select(Source.name + "/" + Trajectory.external_id)
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
    )
    with subject.catalog.reading() as connection:
        return set(connection.execute(query.where(among(connection, DecisionState.state_key, keys))).scalars())


CHECK = Check(
    "withdrawn runs",
    Severity.MAJOR,
    "Were runs taken out by hand, how many, of which split, and why?",
    "Every withdrawal is listed with its reason; those of the test split, which a policy is judged by, are counted "
    "apart. None may be without a reason, and a policy that was trained after a withdrawal may not be made from that "
    "run. That a run should have stayed, no computation can tell.",
    check_withdrawals,
)
