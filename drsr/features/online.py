"""The features of a request at this moment: what a decision needs, by the same functions that filled the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drsr.decide.candidates import DecisionState, Ineligible, freeze
from drsr.errors import LayoutMismatch
from drsr.features.geometry import geometry_of
from drsr.features.vectors import CandidateFeatures, candidate_features, layout_of
from drsr.request.history import Protect
from drsr.request.request import Request
from drsr.request.view import caps_for

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.features.session import Session, SessionCache


def get_online_features(
    request: Request,
    backbone: FrozenLM,
    *,
    sessions: Session | SessionCache | None = None,
    layout_hash: str | None = None,
    protect: Protect | None = None,
) -> CandidateFeatures | Ineligible:
    """One feature row per candidate of the request, or why it has no candidates.

    With `sessions` only the tokens that are new since the run's last decision go through the model. `layout_hash` is
    the one that a scorer or a feature view expects: LayoutMismatch if this language model gives other columns.
    """
    here = layout_of(geometry_of(backbone)).hash
    if layout_hash is not None and layout_hash != here:
        raise LayoutMismatch(
            f"the language model {backbone.name!r} gives features of layout {here}, expected {layout_hash}",
            hint="use the language model that the view was read from, or featurize again with this one",
        )
    state = freeze(request, backbone.tokenizer, caps_for(backbone.window).context, protect)
    if not isinstance(state, DecisionState):
        return state
    return candidate_features(backbone, state) if sessions is None else sessions.features(state)
