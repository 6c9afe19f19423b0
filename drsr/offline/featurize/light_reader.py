"""The light reader, which replaces a language model: name and identity, tokenizer, window.

The view `light` is computed with it, and light policies are published with its tokenizer's file.
"""

from __future__ import annotations

import importlib.metadata
from typing import NamedTuple

from drsr.backbone import embedded
from drsr.backbone.catalogue import identity_of, load_tokenizer, read_tokenizer_file
from drsr.errors import InputError
from drsr.features.geometry import model_of
from drsr.features.layout import Layout, ViewLayout
from drsr.features.light import light_layout
from drsr.features.view_layouts import kind_of, layout_from
from drsr.request.contracts import Backbone, Tokenizer

LICENCE_FILE = "TOKENIZER_LICENSE.txt"


class LightReader(NamedTuple):
    """Reader of the language model that labels; its weights are not loaded."""

    name: str
    identity: str
    tokenizer: Tokenizer
    window: int


def load_light_reader(name: str) -> LightReader:
    """Load it by the language model's name; quick, and without torch."""
    tokenizer, window = load_tokenizer(name)
    return LightReader(name, identity_of(name), tokenizer, window)


def layout_read_by(backbone: Backbone | LightReader, view: str) -> Layout | ViewLayout:
    """Return the columns that it gives in the view of this name; raise FeatureError for a language model without
    layers."""
    if isinstance(backbone, LightReader):
        return light_layout()
    return layout_from(kind_of(view), model_of(backbone).config, backbone.name)


def tokenizer_files(name: str, tokenizer_file: str) -> dict[str, bytes]:
    """Return what a light policy ships: the language model's tokenizer under that name, and its licence."""
    return {tokenizer_file: read_tokenizer_file(name), LICENCE_FILE: _licence(name, tokenizer_file).encode()}


def _licence(name: str, tokenizer_file: str) -> str:
    """Return the licence. The embedded model's licence is drsr's own, so its text is available; of another model only
    the name is known."""
    if name != embedded.NAME:
        return f"{tokenizer_file} belongs to the language model {name} and has that model's licence.\n"
    text = importlib.metadata.distribution("drsr").read_text("licenses/LICENSE")
    if text is None or embedded.LICENCE != "Apache-2.0":
        raise InputError(f"the text of {embedded.LICENCE} is not installed with drsr", hint="install drsr again")
    about = (
        f"{tokenizer_file} is the tokenizer of SmolLM2-135M-Instruct, from {embedded.REQUIREMENT}, {embedded.LICENCE}:"
    )
    return f"{about}\n\n{text}"
