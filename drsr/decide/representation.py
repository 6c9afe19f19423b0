"""The frozen representation model of Algorithm 1: whose tokens are counted, and features of the intact request.

A policy decides through this seam alone. `FrozenRepresentation` reads with a language model, `LazyRepresentation` loads
one when the first eligible request needs it, `ScriptedRepresentation` is a double without weights.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from typing import TYPE_CHECKING, Protocol

from drsr.backbone.catalogue import TokenizerAndWindow, identity_of, load_backbone, load_tokenizer
from drsr.backbone.frozen_lm import check_placement
from drsr.backbone.memory import DEFAULT_MEGABYTES
from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.background import GiveUp, SessionSource
from drsr.decide.candidates import DecisionState
from drsr.errors import MissingExtra, PolicyMismatch
from drsr.features.geometry import geometry_of
from drsr.features.layout import STRUCTURAL
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.features.view_layouts import Kind, kind_with, scored_layout
from drsr.request.contracts import Backbone, Tokenizer
from drsr.request.tokens_read import note

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.features.session import SessionCache

SESSION_BYTES = 2 << 30
"""Memory for the backbone's state of all runs in sessions together; the least recently used goes first."""

SCRIPTED_LAYOUT = hashlib.sha256(f"scripted structural/1 {STRUCTURAL}".encode()).hexdigest()
"""Layout of the scripted double's columns: no policy for a real backbone has it."""


class FeatureSource(Protocol):
    """Something that gives the features of a state by one pass over its intact view."""

    def features(self, state: DecisionState) -> CandidateFeatures: ...


class Representation(FeatureSource, Protocol):
    """A frozen representation model."""

    @property
    def name(self) -> str:
        """The backbone's name."""

    @property
    def identity(self) -> str:
        """The backbone's identity."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def window(self) -> int:
        """The largest number of tokens in one sequence."""

    @property
    def layout_hash(self) -> str:
        """The hash of its feature columns."""

    def features(self, state: DecisionState) -> CandidateFeatures:
        """Return the features from one forward over the intact view, bit for bit the same for the same request."""

    def session(self) -> SessionSource:
        """Open a source of features for the requests of one run, which grow at their end: only new tokens are run. The
        features are equal up to rounding."""


class FrozenRepresentation:
    """Read with a language model loaded by transformers; `kind` selects the columns to return."""

    def __init__(self, backbone: FrozenLM, kind: Kind = Kind.FULL, *, memory_mb: int = DEFAULT_MEGABYTES) -> None:
        self.backbone = backbone
        self.kind = kind
        self.memory_mb = memory_mb
        """Memory that a decision may take above the model."""
        self.layout_hash = scored_layout(kind, geometry_of(backbone)).hash
        self._sessions: SessionCache | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.backbone.name

    @property
    def identity(self) -> str:
        return self.backbone.identity

    @property
    def tokenizer(self) -> Tokenizer:
        return self.backbone.tokenizer

    @property
    def window(self) -> int:
        return self.backbone.window

    def features(self, state: DecisionState) -> CandidateFeatures:
        return candidate_features(self.backbone, state, kind=self.kind, memory_mb=self.memory_mb)

    def session(self) -> SessionSource:
        """Open a source of features for one run. All sessions share one bounded store, which finds a run's state by its
        tokens."""
        from drsr.features.session import SessionCache  # needs torch

        with self._lock:
            if self._sessions is None:
                self._sessions = SessionCache(self.backbone, SESSION_BYTES, kind=self.kind, memory_mb=self.memory_mb)
            return self._sessions


class ScriptedRepresentation:
    """A double of a representation model: the scripted tokenizer and the 58 structural columns, without any layer.

    It needs numpy alone and counts its passes. No decision made with it means anything about a real model.
    """

    def __init__(self) -> None:
        self._backbone = ScriptedBackbone()
        self.layout_hash = SCRIPTED_LAYOUT
        self.passes = 0
        """Number of times features were computed."""

    @property
    def name(self) -> str:
        return self._backbone.name

    @property
    def identity(self) -> str:
        return self._backbone.identity

    @property
    def tokenizer(self) -> Tokenizer:
        return self._backbone.tokenizer

    @property
    def window(self) -> int:
        return self._backbone.window

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        self.passes += 1
        note(state.view.token_ids(state.rendering.token_ids))
        return CandidateFeatures(structural_features(state).astype("float32"), self.layout_hash, prefix_hash(state))

    def session(self) -> SessionSource:
        return self


class LazyRepresentation:
    """A backbone by name. Its files are checked at once, its tokenizer is read with the first request, its weights with
    the first eligible one. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        identity: str,
        layout_hash: str,
        *,
        device: str,
        dtype: str,
        memory_mb: int = DEFAULT_MEGABYTES,
    ) -> None:
        """Raise PolicyMismatch if the backbone of this name differs from the one in `identity`, SettingsError if it
        cannot be loaded on that device or in that dtype."""
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtra(package, "backbone", needed_for=f"the backbone {name}")
        check_placement(device, dtype)
        found = identity_of(name)
        if found != identity:
            raise _other_backbone(name, found, identity)
        self.name, self.identity, self.layout_hash = name, identity, layout_hash
        self._device, self._dtype, self._memory_mb = device, dtype, memory_mb
        self._lock = threading.Lock()
        self._read: TokenizerAndWindow | None = None
        self._loaded: FrozenRepresentation | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        return self._quick().tokenizer

    @property
    def window(self) -> int:
        return self._quick().window

    def features(self, state: DecisionState) -> CandidateFeatures:
        return self.loaded().features(state)

    def session(self) -> SessionSource:
        return _LazySession(self)

    def loaded(self) -> FrozenRepresentation:
        """Return the loaded backbone. The first call takes seconds, or longer for a large model."""
        with self._lock:
            if self._loaded is None:
                backbone = load_backbone(self.name, device=self._device, dtype=self._dtype)
                self._loaded = checked(backbone, self.identity, self.layout_hash, memory_mb=self._memory_mb)
            return self._loaded

    def _quick(self) -> TokenizerAndWindow:
        with self._lock:
            if self._read is None:
                self._read = load_tokenizer(self.name)
            return self._read


class _LazySession:
    """A run's session, begun with its first eligible request."""

    def __init__(self, representation: LazyRepresentation) -> None:
        self._representation = representation
        self._session: SessionSource | None = None

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        if self._session is None:
            self._session = self._representation.loaded().session()
        return self._session.features(state, give_up)


def checked(
    backbone: Backbone, identity: str, layout_hash: str, *, memory_mb: int = DEFAULT_MEGABYTES
) -> FrozenRepresentation:
    """Return a loaded backbone as a representation model; raise PolicyMismatch if it is not the expected one."""
    from drsr.backbone.frozen_lm import FrozenLM

    if backbone.identity != identity:
        raise _other_backbone(backbone.name, backbone.identity, identity)
    if not isinstance(backbone, FrozenLM):
        raise PolicyMismatch("it has no layers to read features from", where=backbone.name)
    geometry = geometry_of(backbone)
    kind = kind_with(layout_hash, geometry)
    if kind is None:
        here = scored_layout(Kind.FULL, geometry).hash
        raise PolicyMismatch(
            f"the backbone gives features of layout {here}, the policy reads {layout_hash}",
            where=backbone.name,
            hint="install the drsr version that the policy was made with",
        )
    return FrozenRepresentation(backbone, kind, memory_mb=memory_mb)


def _other_backbone(name: str, found: str, expected: str) -> PolicyMismatch:
    return PolicyMismatch(
        f"is the backbone {found}, the policy was made with {expected}",
        where=name,
        hint="give the policy the backbone that it names; with another one, scores mean nothing",
    )
