"""Runs that were withdrawn: how many, of which side, why. What is inconvenient must not vanish unseen.

Neither may it be hidden by taking a run back once the policy is out: what was withdrawn while it was made is named.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy import select

from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory, Withdrawal
from drsr.offline.ingest.withdrawals import ERASED, WithdrawnRun, taken_back_runs, withdrawn_runs
from drsr.offline.publish.lineage_rows import present_states
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed


def check_withdrawals(subject: Subject, told: Told) -> list[Verdict]:
    with subject.catalog.reading() as connection:
        runs, past = withdrawn_runs(connection), taken_back_runs(connection)
    trained_at = subject.run.trained_at
    problems = [f"run {run.name} was withdrawn without a reason" for run in (*runs, *past) if not run.reason.strip()]
    behind = _named(subject, subject.made_from or []) if runs or past else set()
    problems += [
        f"run {name} was withdrawn before the scorer was trained, and the policy was made from it all the same"
        for name in sorted({run.name for run in (*runs, *past) if _in_force(run, trained_at)} & behind)
    ]
    problems += _still_there(subject)
    hidden = _taken_back(subject, past, behind | {run.name for run in runs})
    evidence = {
        "withdrawn": [[run.name, run.split, run.reason] for run in runs],
        "taken back": [
            [run.name, run.split, run.reason, _day(run.withdrawn_at), _day(run.taken_back_at)] for run in hidden
        ],
    }
    if problems:
        hint = "find out who withdrew it and why; train, calibrate and publish from what is left"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    return passed(CHECK, said(runs) + _said_of_hidden(hidden), **evidence)


def _still_there(subject: Subject) -> list[str]:
    """Name the stored files that hold an erased run: each is unpacked, and its objects hashed."""
    mine = (Withdrawal.source_id == Trajectory.source_id) & (Withdrawal.external_id == Trajectory.external_id)
    query = select(Trajectory.content_hash).join(Withdrawal, mine)
    with subject.catalog.reading() as connection:
        erased = query.where(Withdrawal.taken_back_at.is_(None), Withdrawal.reason.startswith(ERASED))
        hashes = set(connection.execute(erased).scalars())
        others = select(Trajectory.content_hash).where(Trajectory.content_hash.in_(hashes), Trajectory.has_text())
        hashes -= set(connection.execute(others).scalars())  # the same content, recorded as another run
    return [f"stored file {name} still holds a run that was erased" for name in subject.artifacts.holding(hashes)]


def said(runs: Sequence[WithdrawnRun]) -> str:
    """Return how many runs are withdrawn, those of the test split counted separately, and the reasons."""
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


def _said_of_hidden(runs: Sequence[WithdrawnRun]) -> str:
    if not runs:
        return ""
    shown = [
        f"{run.name} ({run.split}, withdrawn {_day(run.withdrawn_at)} for {run.reason!r}, "
        f"taken back {_day(run.taken_back_at)})"
        for run in runs[:3]
    ]
    more = f"; and {len(runs) - 3:,} more" if len(runs) > 3 else ""
    return f"; made without these, which were taken back: {'; '.join(shown)}{more}"


def _taken_back(subject: Subject, past: Sequence[WithdrawnRun], known: Collection[str]) -> list[WithdrawnRun]:
    """Those that the policy was made without, and that take part now; not what is `known` to be in it or withdrawn."""
    trained_at, candidates = subject.run.trained_at, [run for run in past if run.name not in known]
    if not subject.has_policy:
        return [run for run in candidates if _in_force(run, trained_at)]
    release = subject.release
    earlier = [run for run in candidates if release is None or run.withdrawn_at <= release.published_at]
    if all(_ends_after(run, trained_at) for run in earlier):
        return earlier
    # A scorer has read its data when its training begins: a run may have been taken back before that was over.
    view, labeler = subject.view, subject.labeler
    with subject.catalog.reading() as connection:
        keys = present_states(connection, view, labeler, source=subject.run.source)
    present = _named(subject, keys)
    return [run for run in earlier if _ends_after(run, trained_at) or run.name in present]


def _in_force(run: WithdrawnRun, moment: datetime.datetime) -> bool:
    return run.withdrawn_at < moment and _ends_after(run, moment)


def _ends_after(run: WithdrawnRun, moment: datetime.datetime) -> bool:
    return run.taken_back_at is None or run.taken_back_at > moment


def _day(moment: datetime.datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _named(subject: Subject, keys: Sequence[str]) -> set[str]:
    """Names of the runs that these states are of."""
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
    "apart. None may be without a reason, and a policy that was trained during a withdrawal may not be made from that "
    "run. Withdrawals are kept when they are taken back: a run that was withdrawn when the policy was made and takes "
    "part again now is named. No stored file may hold a run that was erased. No computation can tell whether a run "
    "should have stayed.",
    check_withdrawals,
)
