"""The feature view `light`: without a language model, numpy alone.

    from drsr.features.light import light_features, light_layout

    features = light_features(state)          # 58 structural columns and those of the text, one row per candidate
    light_layout().names                      # the names of the columns

columns.py the columns as data: names, units, what each one means, hash as_read.py a state as its reader reads it
calls.py what a call does, and on which object index.py a request read once supersession.py columns about a Block's call
among the other calls holdings.py columns about what a Block holds and what still holds it relevance.py columns about
the weight of its words rows.py one row per candidate
"""

from drsr.features.light.as_read import as_read
from drsr.features.light.columns import LIGHT_VERSION, LIGHT_VIEW, TEXT, TextColumn, light_layout
from drsr.features.light.rows import light_features

__all__ = [
    "LIGHT_VERSION",
    "LIGHT_VIEW",
    "TEXT",
    "TextColumn",
    "as_read",
    "light_features",
    "light_layout",
]
