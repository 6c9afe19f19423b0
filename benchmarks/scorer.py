"""Time scoring a decision and training a scorer: `python -m benchmarks.scorer [--epochs N] [--json]`.

Scoring: the fourteen deletion sets of a decision with three members, features given, one thread; at most 1 ms.
Training: three members on 24,000 labels with 1,154 features for 300 epochs without early stopping; at most 5 minutes of
two cores, which is 600 s of processor time: clock time says more about what else the machine did. Random features and
labels: the work is the same. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from drsr.offline.ingest.splits import Split
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.params import load_params
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.fitting import train_scorer
from drsr.scorer.ensemble import Ensemble, HarmScale, fit_normaliser
from drsr.scorer.network import initial_parameters
from drsr.tables import table

FEATURES = 1_154
EPOCHS = 300
SEEDS = (11, 29, 47)
SCORING_LIMIT = 1.0
"""Milliseconds of processor time, median."""
TRAINING_LIMIT = 600.0
"""Seconds of processor time."""


class Measured(NamedTuple):
    what: str
    value: float
    unit: str
    limit: float | None
    """Limit to keep; None if it is only reported."""

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit


def random_frame(split: Split, states: int, seed: int) -> TrainingFrame:
    """Return three states of a trajectory, four candidates and fifteen labelled sets each."""
    generator = np.random.default_rng(seed)
    harm = generator.normal(0.01, 0.03, states * 15)
    savings = generator.integers(50, 400, (states, 4))
    members = (np.arange(1, 16)[:, None] >> np.arange(4)) & 1
    return TrainingFrame(
        split=split,
        layout_hash="benchmark",
        labeler="benchmark",
        state_ids=tuple(f"{split}/{number}" for number in range(states)),
        trajectory_ids=tuple(f"{split}/{number // 3}" for number in range(states)),
        group_ids=tuple(f"{split}/{number // 3}" for number in range(states)),
        request_tokens=np.full(states, 8_000),
        candidate_counts=np.full(states, 4),
        candidate_savings=savings,
        features=generator.standard_normal((states, 4, FEATURES), dtype=np.float32),
        state=np.repeat(np.arange(states), 15),
        mask=np.tile(np.arange(1, 16), states),
        direct_saving=(savings @ members.T).ravel(),
        protocol_safe=np.ones(states * 15, dtype=np.bool_),
        harm=harm,
        unsafe=harm > HARM_TOLERANCE,
    )


def measure_scoring(repetitions: int = 3_000) -> list[Measured]:
    """Processor time of one `Ensemble.score` call."""
    generator = np.random.default_rng(0)
    members = [initial_parameters(FEATURES, seed) for seed in SEEDS]
    ensemble = Ensemble(
        layout_hash="benchmark",
        seeds=SEEDS,
        normaliser=fit_normaliser(generator.standard_normal((100, FEATURES), dtype=np.float32)),
        harm_scale=HarmScale(0.01, 0.03),
        parameters={name: np.concatenate([member[name] for member in members]) for name in members[0]},
    )
    features = generator.standard_normal((4, FEATURES), dtype=np.float32)
    masks = [mask for mask in range(1, 16) if mask.bit_count() <= 3]
    savings = [100 * mask for mask in masks]
    times = []
    with threadpool_limits(1):
        for _ in range(repetitions):
            started = time.process_time()
            ensemble.score(features, [100, 200, 300, 400], masks, savings)
            times.append(1e3 * (time.process_time() - started))
    median, slow = np.quantile(times, [0.5, 0.95])
    return [
        Measured(f"scoring {len(masks)} sets, median", float(median), "ms CPU", SCORING_LIMIT),
        Measured(f"scoring {len(masks)} sets, 95th percentile", float(slow), "ms CPU", None),
    ]


def measure_training(epochs: int) -> list[Measured]:
    """Time of a whole run, or of its first epochs scaled up."""
    params = load_params(Path(__file__).parent.parent / "params.yaml").train
    params = replace(params, seeds=SEEDS, max_epochs=epochs, patience=EPOCHS)
    train, validation = random_frame("train", 1_600, seed=1), random_frame("validation", 200, seed=2)
    started, cpu = time.perf_counter(), time.process_time()
    train_scorer(train, validation, params)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    scaled = "" if epochs == EPOCHS else f", scaled from {epochs} epochs"
    what = f"training {len(SEEDS)} members on {len(train):,} labels, {EPOCHS} epochs{scaled}"
    factor = EPOCHS / epochs
    return [
        Measured(what, cpu * factor, "s CPU", TRAINING_LIMIT),
        Measured(f"{what}, by the clock", wall * factor, "s", None),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorer", description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="train fewer epochs and scale the time up")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    rows = [*measure_scoring(), *measure_training(options.epochs)]
    if options.json:
        print(json.dumps([{**row._asdict(), "holds": row.holds} for row in rows], indent=2))
    else:
        shown = [(row.what, round(row.value, 3), row.unit, row.limit, row.holds) for row in rows]
        print(table(("measured", "value", "unit", "limit", "holds"), shown))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
