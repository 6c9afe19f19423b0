"""NLLs that labels have measured already: what DRSR and its ablations delete are candidates, and these have labels.

A replay asks the language model about the other contexts only. Labels in half precision do not answer: they may have
been computed differently from the rewrites they are compared with, and round differently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.freeze.rows import StateRow
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.records import recorded_identity, target_hash
from drsr.offline.label.target_nll import EXACT, Outcome, Pair, TargetNll
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.rendering import render_output

KnownNlls = Mapping[str, float]
"""Mean NLLs by `pair_key`."""


def pair_key(pair: Pair) -> str:
    """Return the identity of a context with its target: a hash of every token."""
    found = hashlib.sha256(len(pair.context).to_bytes(8, "little"))
    for tokens in pair:
        found.update(tokens.astype("<i4").tobytes())
    return found.hexdigest()


def labelled_nlls(catalog: Catalog, labeler: str, states: Sequence[StateRow], tokenizer: Tokenizer) -> dict[str, float]:
    """Return the NLLs that a labeler has recorded for these states: of the whole context and after every measured
    deletion. None if there is no such labeler, or if it computes in half precision."""
    ids = [state.id for state in states]
    with catalog.reading() as connection:
        recorded_as = recorded_identity(connection, labeler)
        if recorded_as is None or recorded_as[1].dtype != EXACT:
            return {}
        labeler_id = recorded_as[0]
        intact = select(StateMeasurement.state_id, StateMeasurement.intact_nll, StateMeasurement.target_hash).where(
            StateMeasurement.labeler_id == labeler_id,
            StateMeasurement.state_id.in_(ids),
            StateMeasurement.outcome == "labelled",
        )
        deleted = select(Label.state_id, Label.mask, Label.deleted_nll).where(
            Label.labeler_id == labeler_id, Label.state_id.in_(ids)
        )
        whole = {state: (nll, target) for state, nll, target in connection.execute(intact)}
        harms = {(state, mask): nll for state, mask, nll in connection.execute(deleted)}
    found: dict[str, float] = {}
    for state in states:
        if state.id in whole:
            target = render_output(state.frozen.next_output, tokenizer)
            nll, recorded = whole[state.id]
            _check_target(target, recorded, state.state_key)
            contexts = contexts_of(state.frozen.state)
            found[pair_key(Pair(contexts.intact, target))] = nll
            for deletion_set, context in contexts.deleted:
                if (state.id, deletion_set.mask) in harms:
                    found[pair_key(Pair(context, target))] = harms[state.id, deletion_set.mask]
    return found


def score_unknown(scorer: TargetNll, pairs: Sequence[Pair], known: KnownNlls) -> list[Outcome]:
    """Return the NLL of every pair in order; the language model reads those that are not known."""
    outcomes: list[Outcome | None] = [known.get(pair_key(pair)) for pair in pairs]
    asked = [place for place, outcome in enumerate(outcomes) if outcome is None]
    computed = dict(zip(asked, scorer.score([pairs[place] for place in asked]).nlls, strict=True)) if asked else {}
    return [computed[place] if outcome is None else outcome for place, outcome in enumerate(outcomes)]


def _check_target(target: TokenIds, recorded: str, state_key: str) -> None:
    if target_hash(target) != recorded:
        raise ArtifactCorrupt(
            "the recorded output is not the one that was measured", where=f"state {state_key}", hint="drsr audit"
        )
