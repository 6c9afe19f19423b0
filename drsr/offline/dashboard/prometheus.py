"""The numbers of the dashboard as Prometheus text. Everything is a gauge: the catalog's present values."""

from __future__ import annotations

from collections.abc import Iterator

from drsr.offline.dashboard.nights import Night
from drsr.offline.dashboard.numbers import Numbers, ReleaseNumbers

Sample = tuple[dict[str, str], float]


def prometheus_text(numbers: Numbers) -> str:
    """Return every number in the text format 0.0.4."""
    lines = []
    for name, meaning, samples in _families(numbers):
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(labels)} {float(value)!r}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _families(numbers: Numbers) -> Iterator[tuple[str, str, list[Sample]]]:
    yield "drsr_nights", "Nights in the catalog's history.", [({}, float(len(numbers.nights)))]
    if numbers.nights:
        yield from _last_night(numbers.nights[-1])
    yield from _data(numbers)
    yield from _labels_of(numbers)
    yield from _left(numbers)
    yield from _drift(numbers)
    yield "drsr_releases", "Released policies.", [({}, float(len(numbers.releases)))]
    yield from _releases(numbers.releases)


def _last_night(night: Night) -> Iterator[tuple[str, str, list[Sample]]]:
    outcome = night.outcome
    yield "drsr_night_started_seconds", "When the last night began, as Unix time.", [({}, night.started_at.timestamp())]
    yield "drsr_night_ended_seconds", "Its latest recorded moment, as Unix time.", [({}, night.ended_at.timestamp())]
    stages: list[Sample] = [({"stage": stage}, seconds) for stage, seconds in night.seconds.items()]
    yield "drsr_night_stage_seconds", "How long each stage of the last night took.", stages
    yield "drsr_night_between_seconds", "Time of the last night outside of all stages.", [({}, night.between)]
    unfinished: list[Sample] = [({"stage": stage}, 1.0) for stage in night.unfinished]
    yield "drsr_night_unfinished", "Stages of the last night without an end.", unfinished
    failed: list[Sample] = [({"stage": night.failed or ""}, float(night.failed is not None))]
    yield "drsr_night_failed", "Whether the last night failed, and in which stage.", failed
    published: list[Sample] = [] if outcome is None else [({}, float(bool(outcome.get("published"))))]
    yield "drsr_night_published", "Whether the last night published a policy.", published
    quarantined: list[Sample] = [({"reason": reason}, float(n)) for reason, n in sorted(night.quarantined.items())]
    yield "drsr_night_quarantined", "Items that the last night put into quarantine.", quarantined


def _data(numbers: Numbers) -> Iterator[tuple[str, str, list[Sample]]]:
    runs: list[Sample] = [({"source": row.source}, float(row.runs)) for row in numbers.sources]
    states: list[Sample] = [({"source": row.source}, float(row.states)) for row in numbers.sources]
    lost: list[Sample] = [({"source": of, "reason": why}, float(count)) for of, why, count in numbers.quarantined]
    yield "drsr_runs", "Current runs by source.", runs
    yield "drsr_states", "Decision states of current runs by source.", states
    yield "drsr_quarantined", "Things in quarantine now.", lost


def _labels_of(numbers: Numbers) -> Iterator[tuple[str, str, list[Sample]]]:
    named = [({"labeler": row.labeler, "source": row.source}, row) for row in numbers.labels]
    yield "drsr_labelled_states", "States labelled.", [(labels, float(row.states)) for labels, row in named]
    yield "drsr_label_sets", "Deletion sets measured.", [(labels, float(row.sets)) for labels, row in named]
    yield "drsr_unsafe_sets", "Of these, unsafe ones.", [(labels, float(row.unsafe)) for labels, row in named]
    measured = [night for night in numbers.nights if night.labelled_per_hour is not None]
    if measured:
        speed = measured[-1].labelled_per_hour or 0.0
        spent = sum(night.total("label", "seconds") for night in numbers.nights)
        tokens = sum(night.total("label", "tokens_processed") for night in numbers.nights)
        yield "drsr_labelled_states_per_hour", "Of the last night that labelled.", [({}, speed)]
        yield "drsr_label_worker_seconds", "Time of all workers that labelled, ever.", [({}, spent)]
        yield "drsr_label_tokens", "Tokens that the language model read to label, ever.", [({}, tokens)]


def _left(numbers: Numbers) -> Iterator[tuple[str, str, list[Sample]]]:
    left = numbers.left
    if left.waiting is not None:
        named = zip(("freeze", "label", "featurize"), left.waiting, strict=True)
        waiting: list[Sample] = [({"stage": stage}, float(count)) for stage, count in named]
        yield "drsr_waiting", "Runs or states that wait for a stage.", waiting
    if left.new_labels is not None:
        yield (
            "drsr_untrained_states",
            "Labelled states that the newest scorer has not seen.",
            [({}, float(left.new_labels))],
        )
    broken: list[Sample] = [({"source": feed.source}, 1.0) for feed in left.feeds]
    yield "drsr_feed_broken", "Sources that break their limits.", broken


def _drift(numbers: Numbers) -> Iterator[tuple[str, str, list[Sample]]]:
    found = [] if numbers.drift is None else numbers.drift.sources
    index: list[Sample] = [
        ({"source": row.source, "column": name}, value) for row in found for name, value in row.columns
    ]
    yield "drsr_feature_psi", "Stability index against the training set, of the columns that drift most.", index
    chance: list[Sample] = [({"source": row.source}, row.by_chance) for row in found]
    yield "drsr_feature_psi_by_chance", "The index to expect of so many rows of the training set itself.", chance
    median: list[Sample] = [({"source": row.source}, row.median) for row in found]
    yield "drsr_feature_psi_median", "Median over all columns.", median
    shifted: list[Sample] = [({"source": row.source}, float(row.shifted)) for row in found]
    yield "drsr_features_shifted", "Columns with an index above 0.25.", shifted


def _releases(releases: list[ReleaseNumbers]) -> Iterator[tuple[str, str, list[Sample]]]:
    named = [({"version": found.release.version}, found) for found in releases]
    yield (
        "drsr_release_published_seconds",
        "When a policy was published, as Unix time.",
        [(labels, found.release.published_at.timestamp()) for labels, found in named],
    )
    numbers = (
        ("max_cardinality", "K."),
        ("uncertainty_coefficient", "beta."),
        ("risk_threshold", "tau; absent if the policy abstains always."),
        ("unsafe_rate", "Unsafe rate of the selected sets on validation."),
        ("mean_harm", "Their mean harm in nats per token."),
        ("mean_removal", "Mean share of a request removed on validation."),
    )
    for name, meaning in numbers:
        values = [(labels, getattr(found.calibration, name)) for labels, found in named]
        yield f"drsr_release_{name}", meaning, [(labels, float(v)) for labels, v in values if v is not None]
    for name, meaning in (("unsafe_auroc", "AUROC of the scorer."), ("state_pairs", "Its pairs put into order.")):
        values = [(labels, getattr(found.metrics, name).value) for labels, found in named]
        yield f"drsr_release_{name}", meaning, [(labels, float(v)) for labels, v in values if v is not None]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
