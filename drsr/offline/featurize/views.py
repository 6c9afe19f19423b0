"""Feature views: a set of columns, read from one language model, for states frozen by one rule. Registered, never
changed.

A name belongs to one language model; the view `light` is not read from any, and names the model that labels and whose
tokens are counted. When the same model gives other columns (the layout changed), or states are rendered or frozen
differently, the view gets its next version; what older versions hold is stale, and never mixed in.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from drsr.errors import FeatureViewError, LayoutMismatch, NotOnline
from drsr.features.layout import Column, ColumnGroup, Information, Layout, Unit, ViewLayout
from drsr.features.light import LIGHT_VIEW
from drsr.features.view_layouts import Kind, kind_of
from drsr.offline.catalog.feature_tables import FeatureView
from drsr.offline.catalog.statements import insert_new
from drsr.offline.freeze.records import FreezingRule

DEFAULT_VIEW = "default"


class ViewIdentity(NamedTuple):
    """Everything apart from its state that a feature's number depends on."""

    layout_hash: str
    backbone: str
    backbone_identity: str
    dtype: str
    rule_version: str
    rule_hash: str
    renderer_version: str
    tokenizer_identity: str

    @property
    def freezing(self) -> FreezingRule:
        """Under which the states of the view were frozen."""
        return FreezingRule(self.rule_version, self.rule_hash, self.renderer_version, self.tokenizer_identity)


class RegisteredView(NamedTuple):
    """One version of a view, as the catalog has it."""

    id: int
    name: str
    version: int
    identity: ViewIdentity
    columns: tuple[Column, ...]

    @property
    def shown(self) -> str:
        return f"{self.name} version {self.version}"

    @property
    def is_light(self) -> bool:
        """Return whether its columns need no language model."""
        return are_light(self.columns)

    def is_read_from(self, identity: ViewIdentity) -> bool:
        """Return whether it is of the same language model in the same precision; columns and states may differ."""
        return (self.identity.backbone_identity, self.identity.dtype) == (identity.backbone_identity, identity.dtype)


def are_light(columns: Sequence[Column]) -> bool:
    """Return whether these are the columns of the view `light`: only that view has text columns."""
    return any(column.group is ColumnGroup.TEXT for column in columns)


def view_identity(
    layout: Layout | ViewLayout, backbone: str, backbone_identity: str, dtype: str, rule: FreezingRule
) -> ViewIdentity:
    """Return the identity of the features that a language model gives of states frozen under a rule."""
    return ViewIdentity(layout.hash, backbone, backbone_identity, dtype, *rule)


def register_view(
    connection: Connection, name: str, identity: ViewIdentity, columns: Sequence[Column]
) -> RegisteredView:
    """Return the version of the view that has this identity, created if need be, inside the caller's write
    transaction."""
    refuse_unknowable(columns)
    refuse_misnamed(name, columns)
    present = present_view(connection, name, identity)
    if present is not None:
        return present
    latest = find_view(connection, name)
    version = 1 if latest is None else latest.version + 1
    row = {
        "name": name,
        "version": version,
        "columns": [list(column) for column in columns],
        "registered_at": datetime.datetime.now(datetime.UTC),
        **identity._asdict(),
    }
    insert_new(connection, FeatureView, [row])
    return get_view(connection, name)


def present_view(connection: Connection, name: str, identity: ViewIdentity) -> RegisteredView | None:
    """Return the view's latest version if it has this identity; None if registering would make the next one, or the
    first.

    Raises FeatureViewError if the name belongs to another language model.
    """
    latest = find_view(connection, name)
    return latest if latest is not None and _is_the_same(latest, identity) else None


def refuse_unknowable(columns: Sequence[Column]) -> None:
    """Raise NotOnline if a column is not known before the decision: data that labels or judges a run must not be a
    feature."""
    for column in columns:
        if column.information is not Information.ONLINE:
            raise NotOnline(
                f"{column.name} is {column.information.value}, a feature view holds what is online",
                hint="labels and rewards are joined to a frame as what they are, never as a column of the view",
            )
    names = [column.name for column in columns]
    if len(set(names)) != len(names) or not names:
        raise FeatureViewError("a view needs columns, each with its own name")


def refuse_misnamed(name: str, columns: Sequence[Column]) -> None:
    """Raise FeatureViewError if light features are to go into a view other than `light`, or others into that one: a
    policy is light or not by the view that it was trained on. The same holds for every view whose name says what it
    holds."""
    if (name == LIGHT_VIEW) != are_light(columns):
        what = "is read by a language model" if name == LIGHT_VIEW else "needs no language model"
        raise FeatureViewError(
            f"what is to be stored {what}",
            where=f"feature view {name}",
            hint=f"the view {LIGHT_VIEW!r}, and no other, holds features without a language model",
        )
    groups = {column.group for column in columns}
    further = groups & {ColumnGroup.WINDOW, ColumnGroup.SEMANTIC}
    held = {
        Kind.FULL: not further,
        Kind.WINDOW: groups == {ColumnGroup.WINDOW},
        Kind.WIDE: ColumnGroup.WINDOW in groups and len(groups) > 1,
        Kind.SEMANTIC: groups == {ColumnGroup.SEMANTIC},
    }
    if not held[kind_of(name)]:
        raise FeatureViewError(
            f"what is to be stored holds columns of {', '.join(sorted(groups))}",
            where=f"feature view {name}",
            hint="the names window, wide and semantic say what a view holds; name another one",
        )


def find_view(connection: Connection, name: str, version: int | None = None) -> RegisteredView | None:
    """Return a version of a view, by default its latest; None if it does not exist."""
    fields = [getattr(FeatureView, field) for field in ViewIdentity._fields]
    query = select(FeatureView.id, FeatureView.version, FeatureView.columns, *fields).where(FeatureView.name == name)
    if version is not None:
        query = query.where(FeatureView.version == version)
    row = connection.execute(query.order_by(FeatureView.version.desc()).limit(1)).first()
    if row is None:
        return None
    view_id, found, columns, *identity = row
    return RegisteredView(view_id, name, found, ViewIdentity(*identity), tuple(_column(column) for column in columns))


def get_view(connection: Connection, name: str, version: int | None = None) -> RegisteredView:
    """Return a version of a view, by default its latest, or FeatureViewError."""
    found = find_view(connection, name, version)
    if found is None:
        known = sorted(set(connection.execute(select(FeatureView.name)).scalars()))
        called = f"{name!r}" if version is None else f"{name!r} with a version {version}"
        raise FeatureViewError(
            f"no feature view is called {called}",
            hint=f"the views are {', '.join(known)}" if known else "there is none yet: drsr featurize",
        )
    return found


def require_layout(view: RegisteredView, layout_hash: str) -> None:
    """Raise LayoutMismatch if features of this layout do not belong into the view."""
    if layout_hash != view.identity.layout_hash:
        raise LayoutMismatch(
            f"features of layout {layout_hash}, the view has {view.identity.layout_hash}",
            where=f"feature view {view.shown}",
            hint="run drsr featurize with this version of drsr: it makes the view's next version",
        )


def _is_the_same(view: RegisteredView, identity: ViewIdentity) -> bool:
    """Return False if the same language model now gives something else. Refuse another language model."""
    there, here = view.identity, identity
    for field in ("backbone_identity", "dtype"):
        if getattr(there, field) != getattr(here, field):
            raise FeatureViewError(
                f"the view is read from a language model with {field} {getattr(there, field)!r}, "
                f"these settings have {getattr(here, field)!r}",
                where=f"feature view {view.shown}",
                hint="go back to its settings, or name another view: drsr featurize --view NAME",
            )
    return there._replace(backbone=here.backbone) == here  # one model may be known by two names


def _column(written: Sequence[str]) -> Column:
    name, group, unit, information = written
    return Column(name, ColumnGroup(group), Unit(unit), Information(information))
