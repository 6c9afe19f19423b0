"""The freeze stage: states and candidates of every trajectory that has none yet under this rule and tokenizer.

Freezing is recorded before any label can exist: a label refers to the row of a frozen state. Several workers share the
stage, a block of runs at a time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection

import drsr
from drsr.decide.candidates import RULE_VERSION, Candidate
from drsr.errors import AlignmentError, ArtifactCorrupt, RequestError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.statements import storable_text
from drsr.offline.freeze.readable_part import why_unusable
from drsr.offline.freeze.records import (
    FreezingRule,
    StateRecord,
    count_current,
    count_unfrozen,
    record_frozen,
    unfrozen,
)
from drsr.offline.freeze.states import FrozenState, FrozenTrajectory, freeze_trajectory, rule_hash
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.claims import Claims
from drsr.request.contracts import Tokenizer
from drsr.request.rendering import RENDERER_VERSION, Rendering
from drsr.request.view import Caps

BATCH = 64
"""Trajectories per claim and transaction: a killed process loses at most the work on these."""

Progress = Callable[[int, int], None]
"""Called with trajectories done and trajectories in all."""


class FreezeSummary(NamedTuple):
    """The summary of one run of the stage."""

    frozen: int
    """Trajectories worked on."""
    states: int
    """States that they gave."""
    without_states: dict[str, int]
    """Trajectories that gave no states, by reason."""
    up_to_date: int
    """Trajectories that were frozen before."""
    cut_short: int = 0
    """Trajectories with states whose later messages could not be used."""
    damaged: tuple[str, ...] = ()
    """Trajectories that wait on because their stored bytes are missing or damaged: which, and what is wrong."""


def freezing_rule(tokenizer: Tokenizer, caps: Caps) -> FreezingRule:
    """Return everything apart from the trajectory that frozen candidates depend on."""
    return FreezingRule(RULE_VERSION, rule_hash(caps), RENDERER_VERSION, tokenizer.identity)


def freeze(
    catalog: Catalog,
    artifacts: ArtifactStore,
    tokenizer: Tokenizer,
    caps: Caps,
    *,
    source: str | None = None,
    progress: Progress = lambda done, total: None,
) -> FreezeSummary:
    """Freeze every current trajectory (of one source, if given) that is not frozen yet, together with other workers.

    One whose stored bytes are damaged does not stop the others: it is named in the summary and waits.
    """
    rule = freezing_rule(tokenizer, caps)
    with catalog.reading() as connection:
        waiting = count_unfrozen(connection, rule, source)
        current = count_current(connection, source)
    if waiting == 0:
        return FreezeSummary(0, 0, {}, current)
    with catalog.writing() as connection:
        run_id = start_run(connection, "freeze", source, drsr.__version__)
    reasons: Counter[str] = Counter()
    damaged: dict[int, str] = {}
    done, states, cut_short = 0, 0, 0
    with Claims(catalog, "freeze") as claims:
        for block in claims.items(_following(rule, source, damaged), enough=lambda: False):
            with catalog.reading() as connection:
                batch = unfrozen(connection, rule, source, after=block.place - BATCH, until=block.place)
            batch = [item for item in batch if item.id not in damaged]
            stored = artifacts.each(item.blob for item in batch)
            results = [(item, _freeze_one(data, tokenizer, caps)) for item, data in zip(batch, stored, strict=True)]
            found = [(item, result) for item, result in results if isinstance(result, FrozenTrajectory)]
            damaged |= {
                item.id: f"{item.source}/{item.external_id}: {result.what}"
                for item, result in results
                if isinstance(result, ArtifactCorrupt)  # no marker: it is tried again once its bytes are restored
            }
            with catalog.writing() as connection:
                for item, result in found:
                    why_none = None if result.why_none is None else storable_text(result.why_none)
                    record_frozen(
                        connection, rule, item, result.eligible, why_none, [state_record(s) for s in result.states]
                    )
                ids = [item.id for item, _ in found]
                frozen = {"mark": ledger.marks(connection, ids), "state": ledger.states(connection, ids)}
                note(connection, "freeze", frozen)
                claims.release(connection, block.claimed_as)
            done += len(found)
            states += sum(len(result.states) for _, result in found)
            cut_short += sum(result.why_cut is not None and result.why_none is None for _, result in found)
            reasons.update(result.why_none.partition(":")[0] for _, result in found if result.why_none is not None)
            progress(done, max(done, waiting))
    without_states = dict(sorted(reasons.items()))
    summary = FreezeSummary(done, states, without_states, current - waiting, cut_short, tuple(damaged.values()))
    with catalog.writing() as connection:
        finish_run(connection, run_id, summary._asdict())
    return summary


class _Block(NamedTuple):
    """Trajectories that one worker freezes at once: those with the `BATCH` row numbers up to a place."""

    place: int
    claimed_as: str


def _following(
    rule: FreezingRule, source: str | None, without: Collection[int]
) -> Callable[[Connection, int], _Block | None]:
    """Find the first block after a position with a trajectory that waits. `without` may grow."""

    def following(connection: Connection, after: int) -> _Block | None:
        batch = unfrozen(connection, rule, source, after=after, limit=len(without) + 1)
        first = next((item.id for item in batch if item.id not in without), None)
        if first is None:
            return None
        last = -(-first // BATCH) * BATCH
        return _Block(last, f"{content_key(list(rule))[:16]}/{last}")

    return following


def _freeze_one(
    stored: bytes | ArtifactCorrupt, tokenizer: Tokenizer, caps: Caps
) -> FrozenTrajectory | ArtifactCorrupt:
    if isinstance(stored, ArtifactCorrupt):
        return stored
    try:
        return freeze_trajectory(Trajectory.from_json(stored), tokenizer, caps)
    except (RequestError, AlignmentError) as error:
        return FrozenTrajectory(0, (), why_unusable(error))


def state_record(frozen: FrozenState) -> StateRecord:
    """Return the columns of a frozen state and of its candidates."""
    state = frozen.state
    return StateRecord(
        decision_index=frozen.decision,
        ordinal=frozen.ordinal,
        quantile=frozen.quantile,
        request_hash=content_key(state.history.request.to_wire()),
        candidates=[_candidate(candidate, state.rendering) for candidate in state.candidates],
    )


def _candidate(candidate: Candidate, rendering: Rendering) -> dict[str, Any]:
    tokens = np.concatenate([rendering.token_ids[span.start : span.stop] for span in candidate.token_spans])
    return {
        "step_index": candidate.block.step,
        "kind": candidate.block.kind.value,
        "component_index": candidate.block.component,
        "direct_saving": candidate.direct_saving,
        "token_spans": [[span.start, span.stop] for span in candidate.token_spans],
        "text_hash": hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest(),
    }
