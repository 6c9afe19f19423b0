"""The cost of a plan: how long its tokens take on this device by context length, as the last runs bear it out.

Three lengths are measured now. What the last runs of the labeler really took is compared with what such a measurement
says of the runs that they worked on; the ratio contains whatever the measurement leaves out (features, the catalog,
workers that share a memory), and the cost is multiplied by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Execution, Trajectory
from drsr.offline.label.target_nll import Method, Pair, TargetNll
from drsr.offline.plan import LabelPlan, Stretch, tokens_of
from drsr.request.contracts import TokenIds
from drsr.request.view import caps_for

PROBE_LENGTHS = 3
PROBE_SHORTEST, PROBE_TARGET = 256, 64
"""Tokens of the shortest measured context, and of the output that is scored behind each."""
PROBE_SECONDS = 8.0
"""The longest measured context should take no longer than this."""
PAST_RUNS, PAST_TRAJECTORIES = 20, 12
"""Of the last runs so many are looked at, and of the trajectories that they worked on so many are read."""
PAST_SECONDS = 5.0
"""Shorter runs say more about starting than about working."""


class Rate(NamedTuple):
    """The speed of one worker at one length."""

    length: int
    """Of the context with its output, in tokens."""
    tokens_per_second: float


class PastRuns(NamedTuple):
    """The last runs of a labeler with this method on such a device, all with the same number of workers."""

    runs: int
    workers: int
    tokens: int
    seconds: float
    """Of all workers together."""
    blobs: tuple[str, ...]
    """Some of the trajectories that they worked on."""


class Price(NamedTuple):
    """The cost of a plan."""

    rates: tuple[Rate, ...]
    """Of one worker, measured now, by context length."""
    method: Method
    """The way in which tokens will be computed: without sharing, every one of them."""
    why: str
    """Reason, in words."""
    past_runs: int
    """Recorded runs that the rates were compared with; 0 where there are none of this kind."""
    past_workers: int
    """The workers of each of them."""
    past_ratio: float
    """Time that they took, as a multiple of what the rates predict; 1 if there are none."""
    label_hours: float
    """Of one device, for labelling."""
    featurize_hours: float
    """Of one device, for features that no labelling collects. Not compared with past runs."""
    parallel: int
    """Devices at work at a time: no more than there are, and no more than there are workers."""

    @property
    def device_hours(self) -> float:
        """Hours that are paid for where devices are paid for."""
        return self.label_hours + self.featurize_hours

    @property
    def label_minutes(self) -> float:
        return 60 * self.label_hours / self.parallel

    @property
    def featurize_minutes(self) -> float:
        return 60 * self.featurize_hours / self.parallel

    def to_json(self) -> dict[str, object]:
        derived = {name: getattr(self, name) for name in ("device_hours", "label_minutes", "featurize_minutes")}
        return self._asdict() | {"rates": [rate._asdict() for rate in self.rates]} | derived


def price(
    rates: Sequence[Rate],
    scorer: TargetNll,
    label: LabelPlan,
    featurize: Iterable[Stretch],
    parallel: int,
    past: PastRuns | None,
    past_stretches: Sequence[Stretch],
) -> Price:
    """Put the cost together. `past_stretches` are the tokens of the trajectories that `past` names."""
    ratio = 1.0
    if not past_stretches:  # none, or nothing of what they worked on is left to compare them by
        past = None
    if past is not None:
        predicted = seconds_for(rates, past_stretches) / tokens_of(past_stretches)
        ratio = past.seconds / past.tokens / predicted
    needed = label.shared if scorer.method is Method.SHARED_PREFIX else label.naive
    return Price(
        rates=tuple(rates),
        method=scorer.method,
        why=scorer.why,
        past_runs=past.runs if past else 0,
        past_workers=past.workers if past else 0,
        past_ratio=ratio,
        label_hours=ratio * seconds_for(rates, needed) / 3600,
        featurize_hours=seconds_for(rates, featurize) / 3600,
        parallel=parallel,
    )


def measure_rates(
    scorer: TargetNll, longest: int, *, clock: Callable[[], float] = time.perf_counter
) -> tuple[Rate, ...]:
    """Measure how fast this device is at three lengths, the last of them `longest` unless that would take too long."""
    caps = caps_for(scorer.backbone.window)
    longest = max(4, min(longest, caps.context))
    shortest = min(PROBE_SHORTEST, longest // 4)
    tokens = np.random.default_rng(0).integers(0, 256, longest).astype(np.int32)
    scorer.verify(tokens[: 4 * shortest])
    first = _rate(scorer, tokens[:shortest], caps.target, clock)
    reached = max(4 * shortest, min(longest, int(first.tokens_per_second * PROBE_SECONDS)))
    lengths = np.geomspace(shortest, reached, PROBE_LENGTHS).round().astype(int)
    return (first, *(_rate(scorer, tokens[:length], caps.target, clock) for length in lengths[1:]))


def _rate(scorer: TargetNll, tokens: TokenIds, target_cap: int, clock: Callable[[], float]) -> Rate:
    """The better of two: the first forward of a length also allocates."""
    target = max(1, min(PROBE_TARGET, target_cap, len(tokens) // 4))
    pair = Pair(tokens[:-target], tokens[-target:])
    speeds = []
    for _ in range(2):
        started = clock()
        processed = scorer.score([pair]).tokens_processed
        speeds.append(processed / (clock() - started))
    return Rate(len(tokens), max(speeds))


def seconds_for(rates: Sequence[Rate], stretches: Iterable[Stretch]) -> float:
    """Return how long one worker takes. Between measured lengths a token's time is a straight line, which goes on after
    the last length, because every further token of a context adds the same to attention."""
    lengths = [rate.length for rate in rates]
    times = [1 / rate.tokens_per_second for rate in rates]
    slope = max(0.0, (times[-1] - times[-2]) / (lengths[-1] - lengths[-2])) if len(rates) > 1 else 0.0
    total = 0.0
    for length, tokens in stretches:
        total += tokens * (float(np.interp(length, lengths, times)) + slope * max(0, length - lengths[-1]))
    return total


def longest_of(stretches: Iterable[Stretch]) -> int:
    """Return the length of the longest stretch; 0 without any."""
    return max((stretch.length for stretch in stretches), default=0)


def past_runs(
    connection: Connection, labeler_id: int | None, labeler: str, device: str, method: Method, workers: int
) -> PastRuns | None:
    """Return the last finished runs of this labeler by this method on a device of this name.

    Those with this number of workers if there are any, else those with the number nearest to it.
    """
    query = select(Execution.started_at, Execution.finished_at, Execution.counts).where(
        Execution.stage == "label", Execution.subject == labeler, Execution.finished_at.is_not(None)
    )
    alike = [
        row
        for row in connection.execute(query.order_by(Execution.id.desc()).limit(10 * PAST_RUNS))
        if (row.counts.get("device"), row.counts.get("method")) == (device, method.value)
        and row.counts["seconds"] >= PAST_SECONDS
        and row.counts["tokens_processed"]
    ]
    if not alike or labeler_id is None:
        return None
    nearest = min((row.counts["workers"] for row in alike), key=lambda count: (abs(count - workers), count))
    found = [row for row in alike if row.counts["workers"] == nearest][:PAST_RUNS]
    worked_on = (
        select(Trajectory.blob)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .where(StateMeasurement.labeler_id == labeler_id)
        .where(StateMeasurement.measured_at >= min(row.started_at for row in found))
        .where(StateMeasurement.measured_at <= max(row.finished_at for row in found))
        .distinct()
        .order_by(Trajectory.blob)
    )
    blobs = connection.execute(worked_on).scalars().all()
    return PastRuns(
        runs=len(found),
        workers=nearest,
        tokens=sum(row.counts["tokens_processed"] for row in found),
        seconds=sum(row.counts["seconds"] for row in found),
        blobs=tuple(blobs[:: max(1, -(-len(blobs) // PAST_TRAJECTORIES))]),
    )
