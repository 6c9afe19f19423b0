"""The layout rebuilt from column names is the layout that the names came from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drsr.expectations.frames.feature_layouts import layout_for
from drsr.features.geometry import Geometry
from drsr.features.layout import STRUCTURAL, Layout
from drsr.features.light import light_layout
from drsr.features.view_layouts import semantic_layout, wide_layout, window_layout


@given(st.data())
def test_it_is_the_same(data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 70))
    full = data.draw(st.sets(st.integers(1, layers), min_size=1))
    geometry = Geometry(layers, data.draw(st.integers(1, 40)), tuple(sorted(full)))
    layout = Layout(geometry)
    semantic = semantic_layout(layout.semantic_layers, data.draw(st.integers(1, 9)))
    for one in (layout, window_layout(layout.attention_layers), wide_layout(geometry), semantic):
        found = layout_for(one.names)
        assert found is not None
        assert found.names == one.names
        assert found.hash == one.hash


def test_names_of_no_language_model() -> None:
    assert layout_for([]) is None
    assert layout_for([f"structural_{name}" for name, _ in STRUCTURAL]) is None


def test_a_column_too_many_or_too_few_is_another_layout() -> None:
    layout = Layout(Geometry(4, 2, (2, 4)))
    for names in (layout.names[:-1], (*layout.names, "reward"), layout.names[::-1]):
        found = layout_for(names)
        assert found is not None
        assert found.names != names


def test_the_view_without_a_language_model_has_its_own_layout() -> None:
    assert layout_for(light_layout().names) is light_layout()
