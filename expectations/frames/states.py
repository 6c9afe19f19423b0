"""The frames of `states`: one row per frozen state of a current trajectory, one per candidate, one per repeated output.

A few columns of the catalog each: 600 bytes and 40 microseconds a state with its candidates, measured at 98,000 states,
1,000 times the sample corpus. Where Recent2 begins, and what a model decided, is read from the recorded run: every
trajectory with states once, one at a time (0.3 ms for the 4 KB of a sample run, and no memory), unless that is kept.
The runs of a source whose framework's words are in `feeds.toml` are read once more when these change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pandas as pd
from sqlalchemy import and_, func, select

from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.frames.repeated_outputs import Output, Said, outputs_alone, repeated_outputs
from drsr.expectations.rules import Frames
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.freeze.readable_part import read_beginning
from drsr.offline.ingest.feeds.framework_words import Words
from drsr.offline.ingest.feeds.limits import Limits, limits_of, load_limits
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.kept import Kept, bytes_named, readings
from drsr.request.history import RECENT_STEPS, read_history

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore


_FOR_READING = ["trajectory_id", "blob", "has_text", "state_id", "recent_step", "of_source", "task"]
"""Columns that no rule looks at."""
_BEHIND_ALL = 2**31
"""A number that no Step reaches: the rule about Recent2 judges nothing there, and says so."""


def states_frames(catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None = None) -> Frames:
    with catalog.reading() as connection:
        states, candidates = _states(connection), _candidates(connection)
    of_trajectory = states.groupby(["trajectory_id", "rule"])["state_id"].transform("size")
    rows = candidates.groupby("state_id")["candidate"].agg(["size", "max"]).reindex(states["state_id"])
    states["states_of_trajectory"] = of_trajectory
    states["candidate_rows"] = rows["size"].fillna(0).to_numpy()
    states["positions"] = (rows["max"].fillna(-1) + 1).to_numpy()
    limits = load_limits()
    found = _read_runs(artifacts, states, kept)
    states["recent_step"] = _recent_steps(states, found)
    states["is_decision"] = _are_decisions(states, found, _framework_words(artifacts, states, limits, kept))
    said, with_text = _said_alone(states, found), states["has_text"].astype(bool)
    repeated = repeated_outputs(said, Counter(states["of_source"][with_text]), limits, artifacts)
    place = states.set_index("state_id")
    for name in ("trajectory", "decision", "recent_step"):
        candidates[name] = place[name].reindex(candidates["state_id"]).to_numpy()
    # Those of one state stand together, in the order of their positions.
    first = candidates["candidate"] == 0
    candidates["step_before"] = candidates["step"].shift(1).where(~first, -1)
    return {
        "states": states.drop(columns=_FOR_READING),
        "candidates": candidates.drop(columns=["state_id"]),
        "repeated_outputs": repeated,
    }


def _states(connection: Connection) -> pd.DataFrame:
    same_rule = [
        getattr(FrozenTrajectory, name) == getattr(DecisionState, name)
        for name in ("trajectory_id", "rule_hash", "renderer_version", "tokenizer_identity")
    ]
    rule = DecisionState.rule_hash + DecisionState.renderer_version + DecisionState.tokenizer_identity
    query = (
        select(
            *TRAJECTORY,
            DecisionState.decision_index.label("decision"),
            DecisionState.id.label("state_id"),
            DecisionState.state_key,
            DecisionState.trajectory_id,
            rule.label("rule"),
            DecisionState.candidates,
            DecisionState.status,
            TrajectoryRow.messages,
            TrajectoryRow.blob,
            TrajectoryRow.has_text().label("has_text"),
            Source.name.label("of_source"),
            func.coalesce(TrajectoryRow.task, TrajectoryRow.group_key).label("task"),
            (FrozenTrajectory.id.is_not(None)).label("freezing_complete"),
            DecisionState.frozen_at,
            TrajectoryRow.created_at.label("ingested_at"),
        )
        .join(TrajectoryRow, TrajectoryRow.id == DecisionState.trajectory_id)
        .join(Source, Source.id == TrajectoryRow.source_id)
        .outerjoin(FrozenTrajectory, and_(*same_rule))
        .where(TrajectoryRow.is_current())
        .order_by(DecisionState.id)
    )
    return with_trajectory(read_frame(connection, query))


def _candidates(connection: Connection) -> pd.DataFrame:
    query = (
        select(
            Candidate.state_id,
            Candidate.position.label("candidate"),
            Candidate.step_index.label("step"),
            Candidate.direct_saving,
        )
        .join(DecisionState, DecisionState.id == Candidate.state_id)
        .join(TrajectoryRow, TrajectoryRow.id == DecisionState.trajectory_id)
        .where(TrajectoryRow.is_current())
        .order_by(Candidate.state_id, Candidate.position)
    )
    return read_frame(connection, query)


def _read_runs(artifacts: ArtifactStore, states: pd.DataFrame, kept: Kept | None) -> dict[str, Any]:
    """Complete Steps, decisions and words alone of every run whose text is here, by the name of its bytes."""
    question = "complete Steps, decisions and words alone of a run"
    return _answers(artifacts, states, kept, question, _read_run)


def _answers(
    artifacts: ArtifactStore, states: pd.DataFrame, kept: Kept | None, question: str, read: Callable[[Trajectory], Any]
) -> dict[str, Any]:
    """Return the answer to a question of every run whose text is here."""
    blobs = {bytes_named(blob): str(blob) for blob in states["blob"][states["has_text"].astype(bool)].unique()}
    found = readings(artifacts, kept, question, blobs, lambda _, data: orjson.dumps(read(Trajectory.from_json(data))))
    return {name: orjson.loads(data) for name, data in found.items()}


def _read_run(trajectory: Trajectory) -> list[Any]:
    alone = [[at, *output] for at, output in outputs_alone(trajectory).items()]
    return [complete_steps(trajectory), decisions(trajectory), alone]


def _framework_words(
    artifacts: ArtifactStore, states: pd.DataFrame, limits: Mapping[str, Limits], kept: Kept | None
) -> dict[tuple[str, str], list[int]]:
    """Return where a framework's words stand as a decision, by source and run: runs that were not read again since."""
    found: dict[tuple[str, str], list[int]] = {}
    for source, of_source in states.groupby("of_source"):
        words = Words(limits_of(str(source), limits).framework_says)
        if words.entries:
            question = f"words of a framework {words.stamp}"
            places = _answers(artifacts, of_source, kept, question, words.places)
            found |= {(str(source), name): at for name, at in places.items()}
    return found


def _recent_steps(states: pd.DataFrame, found: Mapping[str, Any]) -> pd.Series:
    """By row the first Step of Recent2 before that decision; where the text is not here, behind every Step."""
    steps = [
        first_recent_steps([tuple(step) for step in found[bytes_named(blob)][0]], [decision])[decision]
        if is_here
        else _BEHIND_ALL
        for blob, decision, is_here in zip(states["blob"], states["decision"], states["has_text"], strict=True)
    ]
    return pd.Series(steps, index=states.index, dtype="int64")


def _are_decisions(
    states: pd.DataFrame, found: Mapping[str, Any], words: Mapping[tuple[str, str], list[int]]
) -> list[bool]:
    """By row whether a model said that message behind the request before it; True where the text is not here."""
    rows = zip(
        states["of_source"], states["blob"].map(bytes_named), states["decision"], states["has_text"], strict=True
    )
    return [
        not is_here or (decision in found[name][1] and decision not in words.get((source, name), ()))
        for source, name, decision, is_here in rows
    ]


def _said_alone(states: pd.DataFrame, found: Mapping[str, Any]) -> list[Said]:
    """Return the next outputs that are words alone."""
    alone = {name: {at: Output(*output) for at, *output in read[2]} for name, read in found.items()}
    here = states[states["has_text"].astype(bool)]
    rows = zip(here["of_source"], here["task"], here["blob"], here["decision"], strict=True)
    return [
        Said(alone[bytes_named(blob)][decision], source, task, blob, decision)
        for source, task, blob, decision in rows
        if decision in alone[bytes_named(blob)]
    ]


def decisions(trajectory: Trajectory) -> list[int]:
    """Return the places of the assistant's messages that a model said there: not those that a compaction preserved, or
    that the framework said in its place."""
    messages = enumerate(trajectory.request["messages"])
    return [at for at, said in messages if said["role"] == "assistant" and said.get("is_decision") is not False]


def complete_steps(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Return the last message and the number of every Step that became complete, in the order of these messages."""
    request, _ = read_beginning(trajectory)
    return sorted((step.last_message, step.index) for step in read_history(request).steps if step.complete)


def first_recent_steps(complete: Sequence[tuple[int, int]], decisions: Iterable[int]) -> dict[int, int]:
    """For each decision the number of the first Step of Recent2: whatever is from there on may not be a candidate.

    Complete is, at that time, a Step whose results all came before the decision. -1 where there are no two of them.
    """
    found = {}
    for decision in decisions:
        before = sorted(step for _, step in complete[: bisect_left(complete, (decision, -1))])
        found[decision] = before[-RECENT_STEPS] if len(before) >= RECENT_STEPS else -1
    return found
