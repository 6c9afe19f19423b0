"""Settle what half precision must know before its first label: one way of computing, and its noise floor.

In float32 all ways of computing agree, and nothing is done here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from drsr.errors import ArtifactCorrupt, BackboneError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.freeze.rows import StateRow, load_states
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.noise.floor import noise_floor, refuse_noisy
from drsr.offline.label.order import labelling_order
from drsr.offline.label.records import recorded_floor, recorded_identity
from drsr.offline.label.target_nll import EXACT, Method, TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import TokenIds
from drsr.request.rendering import render_output

if TYPE_CHECKING:
    from drsr.offline.label.stage import LabelRun

STATES = 4
"""So many of the states that come first are measured in both precisions: short ones, about thirty harms."""

_log = logging.getLogger(__name__)


def settled(
    catalog: Catalog,
    artifacts: ArtifactStore,
    scorer: TargetNll,
    run: LabelRun,
    exact: Callable[[], TargetNll] | None = None,
    *,
    accept_noise: bool = False,
) -> LabelRun:
    """Settle how a labeler in half precision computes, and measure its noise floor with the float32 twin `exact`.

    A labeler that has labels keeps its way: SettingsError or BackboneError where it cannot be kept here. A floor that
    was recorded is not measured again. Without `exact` only the way is settled.
    """
    if run.identity.dtype == EXACT:
        return run
    with catalog.reading() as connection:
        found, floor = recorded_identity(connection, run.labeler), recorded_floor(connection, run.labeler)
    labeler_id, method = (-1, None) if found is None else (found[0], found[1].method)
    rows = _first_states(catalog, artifacts, scorer, run, labeler_id)
    for row in rows:
        scorer.verify(np.concatenate([contexts_of(row.frozen.state).intact, _target(scorer, row)]))
    if rows:
        scorer.keep_to(Method(method) if method else scorer.method)
        run = run._replace(identity=run.identity._replace(method=scorer.method.value))
    if floor is not None or not rows or exact is None:
        return run
    states = [(row.frozen.state, _target(scorer, row)) for row in rows]
    measured = noise_floor(scorer, exact(), states)
    if measured is None and not accept_noise:
        raise BackboneError(
            f"the noise floor of {run.identity.dtype} cannot be measured: none of the first {len(states)} states can",
            where=f"labeler {run.labeler}",
            hint="drsr label --accept-noise labels without knowing it",
        )
    if measured is None:
        return run
    _log.info("labeler %s: noise floor %s", run.labeler, measured.said)
    if not accept_noise:
        refuse_noisy(measured, run.identity.harm_tolerance, run.identity.dtype)
    return run._replace(noise_floor=measured._asdict())


def _target(scorer: TargetNll, row: StateRow) -> TokenIds:
    return render_output(row.frozen.next_output, scorer.backbone.tokenizer)


def _first_states(
    catalog: Catalog, artifacts: ArtifactStore, scorer: TargetNll, run: LabelRun, labeler_id: int
) -> list[StateRow]:
    """Return a few states that wait, in the order of labelling: the shortest runs of every domain come first."""
    following = labelling_order(run.freezing, labeler_id, run.part, run.labeler, ())
    rows: list[StateRow] = []
    with catalog.reading() as connection:
        item = following(connection, 0)
        while item is not None and len(rows) < STATES:
            try:
                rows += load_states(catalog, artifacts, item, scorer.backbone.tokenizer, run.caps, run.freezing)[:2]
            except ArtifactCorrupt:
                _log.info("trajectory %d is damaged, and left to labelling to name", item.number)
            item = following(connection, item.place)
    return rows[:STATES]
