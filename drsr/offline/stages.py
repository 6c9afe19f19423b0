"""The stages of a run, each written down once: whatever runs, records, judges or limits stages reads this table.

Plain data below every room. `dvc.yaml`, `params.yaml`, `prefect.yaml` and the commands of `drsr` name stages too; a
test holds them to this table.
"""

from __future__ import annotations

from typing import NamedTuple

HOUR = 3_600.0


class Stage(NamedTuple):
    """A step from recorded runs to a published policy."""

    name: str
    """Also the name of its command, its flow, and its block of `params.yaml`."""
    makes: str
    """Its product, in a phrase; `dvc.yaml` says the same."""
    folder: str
    """The folder that its export fills, below one of the stage's name."""
    judged: tuple[str, ...]
    """Datasets that are judged after it because it changed them, or parts of one (`splits.reads`) if it changes no
    others."""
    reads: tuple[str, ...]
    """The stages whose results it reads; `dvc.yaml` says the same."""
    seconds: float
    """Seconds before it is given up. Its records stay, and the next run goes on from there."""


STAGES: tuple[Stage, ...] = (
    Stage(
        "ingest",
        "recorded runs, read and identified by content, each in one split",
        "trajectories",
        ("trajectories", "splits"),
        (),
        6 * HOUR,
    ),
    Stage(
        "freeze",
        "decision states and their candidate Blocks, chosen before any harm is measured",
        "states",
        ("states",),
        ("ingest",),
        6 * HOUR,
    ),
    Stage("label", "exact harm of every deletion set", "labels", ("labels",), ("freeze",), 72 * HOUR),
    Stage(
        "featurize",
        "the features of every candidate, from the request alone",
        "features",
        ("features", "splits.places"),
        ("freeze", "label"),  # measuring collects features in the same walk
        72 * HOUR,
    ),
    Stage(
        "train",
        "the set-risk scorer",
        "scorer",
        ("splits.reads", "splits.fits"),
        ("featurize", "label"),
        12 * HOUR,
    ),
    Stage(
        "calibrate",
        "its operating point, chosen on validation",
        "calibration",
        ("calibration", "splits.reads", "splits.fits"),
        ("train",),
        2 * HOUR,
    ),
    Stage(
        "evaluate",
        "scorer and policy on the test split, which nothing before has read",
        "evaluation",
        ("splits.reads", "splits.fits"),  # ablations are fitted here
        ("calibrate", "featurize", "label", "train"),
        12 * HOUR,
    ),
    Stage(
        "publish", "the released policy, as pip installs it", "policy", ("policy",), ("calibrate", "train"), 2 * HOUR
    ),
)
"""In the order of a run. Why `splits` is judged in parts: docs/decisions/0016-judged-where-it-changes.md."""
NAMES: tuple[str, ...] = tuple(stage.name for stage in STAGES)
LAST_BEFORE_TRAINING = NAMES[NAMES.index("train") - 1]
"""After it the data of a run is complete; what follows reads all of it."""
