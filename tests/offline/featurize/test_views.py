"""Feature views: what may be joined into one, what makes its next version, and what is refused."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from drsr.errors import FeatureViewError, LayoutMismatch, NotOnline
from drsr.features.geometry import Geometry
from drsr.features.layout import Column, ColumnGroup, Information, Layout, Unit
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureView
from drsr.offline.featurize.views import find_view, get_view, present_view, register_view, require_layout
from tests.offline.stored_examples import columns, identity


@pytest.mark.parametrize("information", [Information.LABEL_ONLY, Information.AUDIT_ONLY])
def test_what_is_not_online_is_refused_and_nothing_is_registered(catalog: Catalog, information: Information) -> None:
    """Harm and reward, laid between honest columns."""
    secret = Column("harm_of_the_set", ColumnGroup.STRUCTURAL, Unit.RATIO, information)
    with pytest.raises(NotOnline, match=f"harm_of_the_set is {information.value}"), catalog.writing() as connection:
        register_view(connection, "default", identity(), [*columns(3), secret, *columns(1)])
    with catalog.reading() as connection:
        assert connection.execute(select(func.count()).select_from(FeatureView)).scalar_one() == 0


def test_every_column_of_the_layout_is_online() -> None:
    """The paper's geometry: all 1,154."""
    layout = Layout(Geometry(32, 16, tuple(range(4, 33, 4))))
    assert len(layout.columns) == 1154
    assert {column.information for column in layout.columns} == {Information.ONLINE}


def test_a_view_is_registered_once_and_read_back(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        first = register_view(connection, "default", identity(), columns(5))
        again = register_view(connection, "default", identity(backbone="another name of it"), columns(5))
        assert find_view(connection, "other") is None
    assert first == again
    assert (first.version, first.columns, first.identity) == (1, tuple(columns(5)), identity())
    with catalog.reading() as connection:
        assert get_view(connection, "default") == get_view(connection, "default", 1) == first
        assert present_view(connection, "default", identity()) == first


@pytest.mark.parametrize("field", ["layout_hash", "rule_hash", "renderer_version", "tokenizer_identity"])
def test_what_the_same_model_gives_now_is_the_next_version(catalog: Catalog, field: str) -> None:
    changed = identity(**{field: "9" * 64})
    with catalog.writing() as connection:
        register_view(connection, "default", identity(), columns(5))
        assert present_view(connection, "default", changed) is None
        second = register_view(connection, "default", changed, columns(4))
        assert second.version == 2
        assert get_view(connection, "default") == second
        assert len(get_view(connection, "default", 1).columns) == 5


@pytest.mark.parametrize("field", ["backbone_identity", "dtype"])
def test_another_model_is_refused(catalog: Catalog, field: str) -> None:
    with catalog.writing() as connection:
        register_view(connection, "default", identity(), columns(5))
    other = identity(**{field: "bfloat16"})
    with pytest.raises(FeatureViewError, match=field), catalog.writing() as connection:
        register_view(connection, "default", other, columns(5))
    with pytest.raises(FeatureViewError, match=field), catalog.reading() as connection:
        present_view(connection, "default", other)


def test_names_that_are_not_there(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        register_view(connection, "default", identity(), columns(1))
        with pytest.raises(FeatureViewError, match="no feature view is called 'default' with a version 7"):
            get_view(connection, "default", 7)
        with pytest.raises(FeatureViewError, match="columns, each with its own name"):
            register_view(connection, "twice", identity(), [*columns(1), *columns(1)])
        with pytest.raises(FeatureViewError, match="columns, each with its own name"):
            register_view(connection, "none", identity(), [])


def test_features_of_another_layout_do_not_belong(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        view = register_view(connection, "default", identity(), columns(1))
    require_layout(view, view.identity.layout_hash)
    with pytest.raises(LayoutMismatch, match="features of layout elsewhere"):
        require_layout(view, "elsewhere")
