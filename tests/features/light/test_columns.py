"""The columns of the view `light`: counts, names, units, meanings and the frozen hash."""

from __future__ import annotations

import re
from collections import Counter

from drsr.features.geometry import Geometry
from drsr.features.layout import STRUCTURAL, ColumnGroup, Information, Layout
from drsr.features.light import TEXT, light_layout


def test_structural_columns_come_first_then_those_of_the_text() -> None:
    layout = light_layout()
    assert layout.names[: len(STRUCTURAL)] == tuple(f"structural_{name}" for name, _ in STRUCTURAL)
    assert layout.names[len(STRUCTURAL) :] == tuple(f"text_{column.name}" for column in TEXT)
    assert Counter(column.group for column in layout.columns) == {ColumnGroup.STRUCTURAL: 58, ColumnGroup.TEXT: 60}


def test_every_column_is_named_once_explained_and_known_before_the_decision() -> None:
    layout = light_layout()
    assert len(set(layout.names)) == len(layout.names)
    for column in layout.columns:
        assert re.fullmatch(rf"{column.group}_[a-z0-9_]+", column.name)
        assert column.information is Information.ONLINE
    meanings = [column.meaning for column in TEXT]
    assert len(set(meanings)) == len(meanings)
    assert all(len(meaning) > 12 for meaning in meanings)


def test_golden_hash() -> None:
    """A light policy is frozen to this. Whoever changes a column changes LIGHT_VERSION or the names, and then this."""
    assert light_layout().hash == "5af6a5df7647e14d1e5fef45176509e5bcda957d4171739bf7c2c8e52cb87554"


def test_no_language_model_has_this_layout() -> None:
    geometry = Geometry(layers=30, heads=9, full_attention=tuple(range(1, 31)))
    assert Layout(geometry).hash != light_layout().hash
