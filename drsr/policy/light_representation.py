"""The representation of a light policy: the tokenizer it ships with, and columns of the request's text.

Needs numpy; the package `tokenizers` only for a tokenizer that is not of SmolLM2's form. Token counts are those of the
language model that labelled, because the file is that model's own; it is checked by its hash when the policy is read,
and by what it means here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys

from drsr.backbone.byte_level import ByteLevelTokenizer, other_form
from drsr.backbone.catalogue import load_tokenizer
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.decide.background import GiveUp, SessionSource
from drsr.decide.candidates import DecisionState
from drsr.decide.numbers import LightNumbers
from drsr.decide.representation import Representation
from drsr.errors import MissingExtra, PolicyMismatch
from drsr.features.light import light_features, light_layout
from drsr.features.vectors import CandidateFeatures
from drsr.policy.folder import PolicyFiles
from drsr.request.contracts import Backbone, Tokenizer
from drsr.request.tokens_read import note


class LightRepresentation:
    """Reads without a language model; safe to use from several threads."""

    def __init__(self, tokenizer_file: bytes, *, name: str, identity: str) -> None:
        """`tokenizer_file` is the content of a tokenizer.json; `name` and `identity` are those of the language model
        that labelled."""
        self.tokenizer_file = tokenizer_file
        self._tokenizer = _read_tokenizer(tokenizer_file, name)
        self.name = name
        self.identity = identity
        self.layout_hash = light_layout().hash

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def numbers(self) -> LightNumbers:
        """The numbers that identify this representation in a policy."""
        return LightNumbers(hashlib.sha256(self.tokenizer_file).hexdigest(), self._tokenizer.identity)

    @property
    def window(self) -> int:
        """No request is too long."""
        return sys.maxsize

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        note(state.view.token_ids(state.rendering.token_ids))
        return light_features(state)

    def session(self) -> SessionSource:
        """Return the representation itself: a run has nothing to remember, because reading a request again takes
        milliseconds."""
        return self


def _read_tokenizer(tokenizer_file: bytes, name: str) -> ByteLevelTokenizer | HfTokenizer:
    """Return a tokenizer that gives the same ids as the language model of that name."""
    form = other_form(tokenizer_file)
    if not form:
        return ByteLevelTokenizer(tokenizer_file)
    if importlib.util.find_spec("tokenizers") is None:
        needed_for = f"the tokenizer of {name}, which drsr does not read itself ({form}),"
        raise MissingExtra("tokenizers", "tokenizers", needed_for=needed_for)
    return HfTokenizer(tokenizer_file)


def light_representation(files: PolicyFiles) -> LightRepresentation:
    """Return the representation of a light policy whose files were read and checked."""
    light, backbone = files.numbers.light, files.numbers.backbone
    assert light is not None  # its reader asked
    found = LightRepresentation(files.others[TOKENIZER_FILE], name=backbone.name, identity=backbone.identity)
    if found.numbers != light:
        raise PolicyMismatch(
            f"reads with {found.numbers}, the policy was made with {light}",
            where=TOKENIZER_FILE,
            hint="install the policy again, with the drsr that it asks for",
        )
    return found


def refuse_other_tokens(representation: Representation, backbone: str | Backbone) -> None:
    """Raise PolicyMismatch if a language model that a light policy was given counts tokens differently."""
    tokenizer = load_tokenizer(backbone).tokenizer if isinstance(backbone, str) else backbone.tokenizer
    if tokenizer.identity != representation.tokenizer.identity:
        raise PolicyMismatch(
            f"its tokenizer is {tokenizer.identity}, the light policy counts with {representation.tokenizer.identity}",
            where=backbone if isinstance(backbone, str) else backbone.name,
            hint="leave the backbone out: a light policy needs none",
        )
