"""The table of publishing: released policies."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from drsr.offline.catalog.tables import PHYSICAL, Hash, Table


class PolicyRelease(Table):
    """One row per published version of the policy. Written after its files, so they are complete."""

    __tablename__ = "policy_release"
    __table_args__ = (
        Index(None, "calibration_run_id"),
        CheckConstraint("size > 0", name="size"),
        CheckConstraint("golden_requests > 0", name="golden_requests"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(unique=True)
    calibration_run_id: Mapped[int] = mapped_column(ForeignKey("calibration_run.id"))
    """The operating point that it freezes, and through it the scorer."""
    identity: Mapped[str] = mapped_column(Hash)
    """SHA-256 over its numbers and its scorer."""
    file_name: Mapped[str]
    wheel: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the wheel, and its key in the artifact store."""
    size: Mapped[int]
    """Of the wheel, in bytes."""
    lineage: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the last link of its lineage, which covers all of them."""
    states: Mapped[str] = mapped_column(Hash)
    """Key of the list of states that it was made from in the artifact store, as JSON."""
    abstains_always: Mapped[bool]
    requires: Mapped[str]
    """The drsr that can run it."""
    golden_requests: Mapped[int]
    gates: Mapped[list[Any]] = mapped_column(info=PHYSICAL)
    """[[check, what it found], ...]: all that it passed."""
    index_location: Mapped[str] = mapped_column(info=PHYSICAL)
    """The folder that it was published into first."""
    code_version: Mapped[str] = mapped_column(info=PHYSICAL)
    published_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)
