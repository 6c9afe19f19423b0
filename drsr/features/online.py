"""The features of a request at this moment: what a decision needs, by the same functions that filled the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drsr.decide.candidates import DecisionState, Ineligible, freeze
from drsr.errors import LayoutMismatch
from drsr.features.geometry import geometry_of
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.features.view_layouts import Kind, kind_with, layout_of
from drsr.request.history import Protect
from drsr.request.request import Request
from drsr.request.view import caps_for

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.features.session import FeatureSession, SessionCache


def get_online_features(
    request: Request,
    backbone: FrozenLM,
    *,
    sessions: FeatureSession | SessionCache | None = None,
    layout_hash: str | None = None,
    protect: Protect | None = None,
) -> CandidateFeatures | Ineligible:
    """Return one feature row per candidate of the request, or why it has no candidates.

    With `sessions` only the tokens that are new since the run's last decision go through the model. `layout_hash` is
    the one that a scorer or a feature view expects, by default the paper's: raises LayoutMismatch if this language
    model cannot give those columns. Sessions return the columns that they were made for.
    """
    geometry = geometry_of(backbone)
    kind = Kind.FULL if layout_hash is None else kind_with(layout_hash, geometry)
    if kind is None:
        here = layout_of(geometry).hash
        raise LayoutMismatch(
            f"the language model {backbone.name!r} gives features of layout {here}, expected {layout_hash}",
            hint="use the language model that the view was read from, or featurize again with this one",
        )
    state = freeze(request, backbone.tokenizer, caps_for(backbone.window).context, protect)
    if not isinstance(state, DecisionState):
        return state
    found = candidate_features(backbone, state, kind=kind) if sessions is None else sessions.features(state)
    if layout_hash is not None and found.layout_hash != layout_hash:
        raise LayoutMismatch(
            f"the session gives features of layout {found.layout_hash}, expected {layout_hash}",
            hint="make the session for the same columns: Session(backbone, kind=...)",
        )
    return found
