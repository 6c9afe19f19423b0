"""What all stage flows have in common: how long a stage may take, and the tags that limits are set on."""

from __future__ import annotations

HOUR = 3_600.0
TIMEOUTS = {
    "ingest": 6 * HOUR,
    "freeze": 6 * HOUR,
    "label": 72 * HOUR,
    "featurize": 72 * HOUR,
    "train": 12 * HOUR,
    "calibrate": 2 * HOUR,
    "evaluate": 12 * HOUR,
    "publish": 2 * HOUR,
}
"""Seconds after which a stage is given up. What it recorded stays; the next run goes on from there."""
NIGHTLY_TIMEOUT = 96 * HOUR
GPU = "gpu"
"""Tag of every task that loads the language model: `prefect concurrency-limit create gpu 1` allows one at a time."""
