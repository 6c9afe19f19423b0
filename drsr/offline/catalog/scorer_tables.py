"""The tables of training and calibrating: trained scorers, and the operating points chosen for them."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from drsr.offline.catalog.tables import PHYSICAL, Hash, Table, not_negative, one_of

MODES = ("plain", "certified")


class TrainingRun(Table):
    """One row per trained ensemble: what it was made from, how it did on validation, and where its weights lie."""

    __tablename__ = "training_run"
    __table_args__ = (
        Index(None, "view_id"),
        Index(None, "labeler_id"),
        *not_negative("train_sets", "train_trajectories", "validation_sets", "validation_trajectories"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    run_key: Mapped[str] = mapped_column(Hash, unique=True)
    """SHA-256 over everything that determines the weights."""
    ablation: Mapped[str]
    """`full`, or what was taken away from it."""
    version: Mapped[str]
    """Of the training code: another one may give other weights from the same inputs."""
    params: Mapped[dict[str, Any]]
    """Block `train` of params.yaml."""
    view_id: Mapped[int] = mapped_column(ForeignKey("feature_view.id"))
    labeler_id: Mapped[int] = mapped_column(ForeignKey("labeler.id"))
    layout_hash: Mapped[str] = mapped_column(Hash)
    train_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 over every number of the training frame."""
    validation_hash: Mapped[str] = mapped_column(Hash)
    """The same of the validation frame, by which each member's epoch was chosen."""
    train_sets: Mapped[int]
    train_trajectories: Mapped[int]
    validation_sets: Mapped[int]
    validation_trajectories: Mapped[int]
    seeds: Mapped[list[Any]]
    """One per member."""
    chosen_epochs: Mapped[list[Any]]
    """The epoch at which each member's weights were taken."""
    metrics: Mapped[dict[str, Any]]
    """On validation: the ensemble's, and by member what its epoch was chosen by."""
    weights: Mapped[str] = mapped_column(Hash)
    """Key of the safetensors file in the artifact store: its SHA-256."""
    history: Mapped[str] = mapped_column(Hash)
    """Key of every evaluation of every member, as JSON."""
    code_version: Mapped[str] = mapped_column(info=PHYSICAL)
    seconds: Mapped[float] = mapped_column(info=PHYSICAL)
    trained_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class CalibrationRun(Table):
    """One row per calibration of a trained ensemble: the operating point chosen, or that none is admissible."""

    __tablename__ = "calibration_run"
    __table_args__ = (
        Index(None, "training_run_id"),
        one_of("mode", MODES),
        CheckConstraint("max_cardinality BETWEEN 1 AND 4", name="max_cardinality"),
        # Nothing admissible: no threshold, nothing selected, a policy that abstains always.
        CheckConstraint("(abstains_always) = (risk_threshold IS NULL)", name="risk_threshold"),
        CheckConstraint("(mode = 'certified') = (confidence IS NOT NULL)", name="confidence"),
        *not_negative("states", "incomplete_states", "tried", "admissible", "selected"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    calibration_key: Mapped[str] = mapped_column(Hash, unique=True)
    """SHA-256 over everything that determines the outcome."""
    training_run_id: Mapped[int] = mapped_column(ForeignKey("training_run.id"))
    mode: Mapped[str] = mapped_column(String(9))
    version: Mapped[str]
    """Of the calibration code."""
    params: Mapped[dict[str, Any]]
    """Block `calibrate` of params.yaml."""
    validation_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 over every number of the validation frame."""
    train_hash: Mapped[str | None] = mapped_column(Hash)
    """The same of the training frame, where the thresholds to certify came from it."""
    abstains_always: Mapped[bool]
    max_cardinality: Mapped[int]
    """K."""
    uncertainty_coefficient: Mapped[float]
    """beta."""
    risk_threshold: Mapped[float | None]
    """tau."""
    removal_cap: Mapped[float]
    states: Mapped[int]
    """Validation states."""
    incomplete_states: Mapped[int]
    """Of these, states that lack the label of some deletion set."""
    tried: Mapped[int]
    """Policies in the search table."""
    admissible: Mapped[int]
    """Of these, policies that could have been chosen."""
    selected: Mapped[int]
    """Validation states in which the chosen policy deletes something."""
    unsafe_rate: Mapped[float | None]
    """Among the sets selected there."""
    mean_harm: Mapped[float | None]
    """Of the same sets, in nats per token."""
    mean_removal: Mapped[float]
    """Mean fraction of the full request removed, over all validation states."""
    unsafe_bound: Mapped[float | None]
    """Certified: the unsafe rate on new trajectories is below this with the confidence below."""
    confidence: Mapped[float | None]
    bound: Mapped[str | None]
    """Certified: what the bound is called."""
    explanation: Mapped[str]
    """One sentence for a person."""
    search_table: Mapped[str] = mapped_column(Hash)
    """Key of the whole search table in the artifact store, as CSV."""
    code_version: Mapped[str] = mapped_column(info=PHYSICAL)
    calibrated_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)
