"""The layout: counts, names, order and hash."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.features.geometry import Geometry
from drsr.features.layout import STRUCTURAL, ColumnGroup, Information, Layout, evenly_spaced

PAPER = Geometry(layers=32, heads=16, full_attention=tuple(range(4, 33, 4)))
SMOLLM2 = Geometry(layers=30, heads=9, full_attention=tuple(range(1, 31)))


def test_the_papers_geometry_has_1154_columns() -> None:
    layout = Layout(PAPER)
    counts = Counter(column.group for column in layout.columns)
    assert counts == {
        ColumnGroup.STRUCTURAL: 58,
        ColumnGroup.ATTENTION: 8 * (16 * 3 + 5),
        ColumnGroup.HIDDEN: 32 * 5,
        ColumnGroup.PROJECTION: 512,
    }
    assert len(layout.columns) == 1154
    assert layout.attention_layers == (4, 8, 12, 16, 20, 24, 28, 32)
    assert layout.semantic_layers == (8, 16, 24, 32)


def test_the_embedded_models_geometry() -> None:
    layout = Layout(SMOLLM2)
    assert layout.attention_layers == (4, 8, 12, 15, 19, 23, 27, 30)
    assert layout.semantic_layers == (8, 15, 23, 30)
    assert len(layout.columns) == 58 + 8 * (9 * 3 + 5) + 30 * 5 + 512


def test_names_are_unique_words_and_every_column_is_online() -> None:
    columns = Layout(PAPER).columns
    assert len({column.name for column in columns}) == len(columns)
    for column in columns:
        assert re.fullmatch(rf"{column.group}_[a-z0-9_]+", column.name)
        assert column.information is Information.ONLINE


def test_the_order_of_the_columns() -> None:
    layout = Layout(PAPER)
    names = layout.names
    assert names[:58] == tuple(f"structural_{name}" for name, _ in STRUCTURAL)
    assert names[58:62] == (
        "attention_l04_h01_mass",
        "attention_l04_h01_density",
        "attention_l04_h01_top_mean",
        "attention_l04_h02_mass",
    )
    assert names[58 + 48] == "attention_l04_mean_mass"
    assert names[layout.group(ColumnGroup.HIDDEN)][:2] == ("hidden_l01_mean_cosine", "hidden_l01_distance")
    assert names[layout.group(ColumnGroup.PROJECTION)][63:65] == ("projection_l08_block_64", "projection_l08_state_01")
    assert names[-1] == "projection_l32_state_64"


def test_information_classes_are_those_of_the_papers_table() -> None:
    assert [information.value for information in Information] == ["online", "label_only", "audit_only"]


def test_golden_hashes() -> None:
    """A policy is frozen to these. Whoever changes a column changes FEATURES_VERSION or the names, and then these."""
    assert Layout(PAPER).hash == "9d089fc573aff96e948e41872f7ac740a189c304cb30ccd0ce123af4b6e6aa97"
    assert Layout(SMOLLM2).hash == "6d21188c1d423ac9ad184a03f9778a17b28c7ac8d9689bae4426b94393c470b8"


def test_the_hash_knows_which_layers_are_looked_at() -> None:
    shifted = PAPER._replace(full_attention=(1, *PAPER.full_attention[1:]))
    assert Layout(shifted).hash != Layout(PAPER).hash
    assert Layout(PAPER._replace(heads=8)).hash != Layout(PAPER).hash


@pytest.mark.parametrize(
    ("total", "count", "expected"),
    [(32, 4, (8, 16, 24, 32)), (30, 4, (8, 15, 23, 30)), (3, 8, (1, 2, 3)), (8, 8, tuple(range(1, 9))), (9, 2, (5, 9))],
)
def test_even_spacing(total: int, count: int, expected: tuple[int, ...]) -> None:
    assert evenly_spaced(range(1, total + 1), count) == expected


@given(st.integers(1, 200), st.integers(1, 12))
def test_even_spacing_ends_with_the_last_and_gaps_differ_by_one_at_most(total: int, count: int) -> None:
    chosen = evenly_spaced(range(1, total + 1), count)
    assert len(chosen) == min(total, count)
    assert chosen[-1] == total
    gaps = [after - before for before, after in zip((0, *chosen), chosen, strict=False)]
    assert max(gaps) - min(gaps) <= 1


def test_a_layout_needs_no_language_model() -> None:
    """A policy's reader checks layout hashes where torch is not installed."""
    code = "import sys, drsr.features.layout, drsr.features.vectors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0
