"""Read from the settings, without loading weights, how to measure and featurize: rule, identities, what is left."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from drsr.backbone.catalogue import load_tokenizer
from drsr.features.layout import Column
from drsr.offline.featurize.stage import count_waiting, identity_without_weights, layout_without_weights
from drsr.offline.featurize.views import ViewIdentity
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.label.records import LabelerIdentity, configured_identity, find_labeler
from drsr.offline.label.stage import count_pending
from drsr.offline.store.place import Place
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps, caps_for
from drsr.settings import Settings


class Configured(NamedTuple):
    """A language model by its settings, as far as it is known without its weights."""

    settings: Settings
    tokenizer: Tokenizer
    caps: Caps

    @property
    def freezing(self) -> FreezingRule:
        """The rule under which runs are frozen."""
        return freezing_rule(self.tokenizer, self.caps)

    @property
    def labeler(self) -> LabelerIdentity:
        """The identities that labels depend on."""
        return configured_identity(self.settings.backbone, self.settings.dtype, self.caps)

    def view(self, name: str) -> ViewIdentity:
        """Return the identities that the features of a view depend on."""
        return identity_without_weights(self.settings.backbone, self.settings.dtype, self.caps, self.tokenizer, name)

    def columns(self, view: str) -> tuple[Column, ...]:
        """Return the columns that a view has with this language model."""
        return layout_without_weights(self.settings.backbone, view).columns

    def find_labeler(self, connection: Connection, name: str) -> int | None:
        """Its row number; None before it has measured anything. Refuse a labeler that measures differently."""
        return find_labeler(connection, name, self.labeler)


def configured(settings: Settings) -> Configured:
    """Read the tokenizer of the language model that the settings name."""
    tokenizer, window = load_tokenizer(settings.backbone)
    return Configured(settings, tokenizer, caps_for(window))


def count_left(place: Place, found: Configured, stage: str, name: str, part: Selection) -> int:
    """Count states that `label` with the labeler of this name, or `featurize` with the view, would work on."""
    if stage == "featurize":
        return count_waiting(place.catalog, place.artifacts, name, found.view(name), part)
    with place.catalog.reading() as connection:
        return count_pending(connection, found.freezing, found.find_labeler(connection, name), part)
