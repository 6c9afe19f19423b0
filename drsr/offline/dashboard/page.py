"""The dashboard: the history of a catalog on one page. It holds numbers and names, but no text of a run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from drsr.offline.dashboard.charts import COLOURS, Series, bars
from drsr.offline.dashboard.drift import SHIFTED, Drift
from drsr.offline.dashboard.nights import Night
from drsr.offline.dashboard.numbers import Left, Numbers, ReleaseNumbers, said
from drsr.offline.evaluate.cells import cell
from drsr.offline.stages import NAMES
from drsr.pages import Cell, Markup, document, element, items, table, write_page

NIGHTS = 60
"""The latest ones; the numbers of all are in `--json`."""
LATEST = 7
"""Nights in the open table; the others are folded away."""
RELEASES = 50
DRIFTING = 5
"""Columns shown by source."""
_TOGETHER = (
    ("ingest, freeze", ("ingest", "freeze")),
    ("label, featurize", ("label", "featurize")),
    ("train to evaluate", ("train", "calibrate", "evaluate")),
    ("publish", ("publish",)),
)


def write_dashboard(path: Path, numbers: Numbers) -> None:
    """Write the page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(path, page(numbers))


def page(numbers: Numbers) -> str:
    sections = (
        ("What waits", _waits(numbers)),
        ("Nights", _nights(numbers.nights[-NIGHTS:], len(numbers.nights))),
        ("Sources", _sources(numbers)),
        ("Quarantine", _quarantine(numbers)),
        ("Labels", _labels(numbers)),
        ("Drift of features", _drift(numbers.drift)),
        ("Releases", _releases(numbers.releases)),
    )
    top = element(
        "header",
        element("h1", "Nights of a catalog"),
        element("p", f"{numbers.catalog}, as of {numbers.at:%Y-%m-%d %H:%M} UTC"),
    )
    body = [part for title, parts in sections for part in (element("h2", title), *parts)]
    return document("drsr dashboard", top, *body)


def _waits(numbers: Numbers) -> Iterator[Markup]:
    left, nights = numbers.left, numbers.nights
    if nights:
        night = nights[-1]
        text = f"The last night began {night.started_at:%Y-%m-%d %H:%M} UTC: {said(night)}."
        yield element("p", text, class_="failed") if night.failed or night.unfinished else element("p", text)
        if night.between >= 1:
            yield element("p", f"It spent {_seconds(night.between)} between stages, on judging, exports or workers.")
    else:
        yield element("p", "No stage has run in this catalog yet.")
    yield items(_left(left)) if (_left(left)) else element("p", "Nothing is waiting.")


def _left(left: Left) -> list[str]:
    lines = []
    if left.waiting is None:
        lines.append(f"what waits for freeze, label and featurize is unknown here: {left.why_unknown}")
    else:
        named = (("runs", "freeze"), ("states", "label"), ("states", "featurize"))
        lines += [
            f"{count:,} {what} for {stage}" for count, (what, stage) in zip(left.waiting, named, strict=True) if count
        ]
    if left.new_labels:
        lines.append(f"{left.new_labels:,} labelled states that the newest scorer has not seen")
    for feed in left.feeds:
        share = f"{feed.share:.0%} of its latest delivery is in quarantine (at most {feed.largest_share:.0%})"
        few = f"{feed.runs:,} runs, {feed.expected_runs:,} expected"
        lines.append(f"source {feed.source} breaks its limits: {share if feed.share > feed.largest_share else few}")
    return lines


def _nights(nights: Sequence[Night], total: int) -> Iterator[Markup]:
    if not nights:
        yield element("p", "None yet.")
        return
    if total > len(nights):
        yield element("p", f"The latest {len(nights)} of {total:,}.", class_="dim")
    labels = _days(nights)
    series = [
        Series(name, [sum(night.seconds.get(stage, 0.0) for stage in stages) for night in nights])
        for name, stages in _TOGETHER
    ]
    yield bars(
        labels, series, "Time by stage, night by night. A stage that found nothing to do is not recorded.", _seconds
    )
    rows = [
        (
            _when(night.started_at),
            *(Cell(_seconds(night.seconds[s]) if s in night.seconds else "", "number") for s in NAMES),
            Cell(_seconds(night.between), "number"),
            Cell(said(night), "said failed" if night.failed or night.unfinished else "said"),
        )
        for night in reversed(nights)
    ]
    head = ("began (UTC)", *NAMES, "between stages", "result")
    yield from _latest(head, rows)


def _latest(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[Markup]:
    """Show the latest nights; the others are folded away."""
    yield table(head, rows[:LATEST])
    if len(rows) > LATEST:
        yield element("details", element("summary", f"{len(rows) - LATEST} earlier nights"), table(head, rows[LATEST:]))


def _sources(numbers: Numbers) -> Iterator[Markup]:
    if not numbers.sources:
        yield element("p", "None yet; drsr ingest reads recorded runs.")
        return
    rows = [(row.source, *map(_number, row[1:])) for row in numbers.sources]
    yield table(("source", "current runs", "decision states", "in quarantine"), rows)


def _quarantine(numbers: Numbers) -> Iterator[Markup]:
    nights = [night for night in numbers.nights if night.total("ingest", "files") or night.quarantined][-NIGHTS:]
    reasons: dict[str, int] = {}
    for night in nights:
        for reason, count in night.quarantined.items():
            reasons[reason] = reasons.get(reason, 0) + count
    if reasons:
        most = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
        named, rest = most[: len(COLOURS) - 1], most[len(COLOURS) - 1 :]
        series = [Series(reason, [float(night.quarantined.get(reason, 0)) for night in nights]) for reason in named]
        if rest:
            series.append(Series("other", [float(sum(night.quarantined.get(r, 0) for r in rest)) for night in nights]))
        labels = _days(nights)
        yield bars(labels, series, "Items put into quarantine, by night and reason.", _count)
    if numbers.quarantined:
        now = [(source, reason, _number(count)) for source, reason, count in numbers.quarantined]
        yield table(("source", "reason", "in quarantine now"), now)
        yield element("p", "drsr status --quarantined lists each with what to do.")
    elif not reasons:
        yield element("p", "Nothing was quarantined.")


def _labels(numbers: Numbers) -> Iterator[Markup]:
    measured = [night for night in numbers.nights if night.labelled_per_hour is not None][-NIGHTS:]
    if measured:
        labels = _days(measured)
        speed = [night.labelled_per_hour or 0.0 for night in measured]
        yield bars(labels, [Series("states per hour", speed)], "Labelled states per hour, by night.", _count)
        rows = [_cost(night) for night in reversed(measured)]
        head = (
            "began (UTC)",
            "states",
            "sets",
            "states per hour",
            "worker hours",
            "worker seconds per state",
            "tokens read",
        )
        yield from _latest(head, rows)
    if numbers.labels:
        rows_of = [
            (row.labeler, row.source, *map(_number, row[2:]), Cell(f"{row.unsafe_share:.1%}", "number"))
            for row in numbers.labels
        ]
        yield table(("labeler", "source", "states labelled", "sets", "unsafe", "unsafe share"), rows_of)
    if not measured:
        yield element(
            "p", "No state was labelled by this catalog's own workers, so there is no speed and no cost to show."
        )


def _days(nights: Sequence[Night]) -> list[str]:
    """Name nights by their days, and by the time as well if a day has several."""
    days = [f"{night.started_at:%m-%d}" for night in nights]
    return [
        day if days.count(day) == 1 else f"{night.started_at:%m-%d %H:%M}"
        for day, night in zip(days, nights, strict=True)
    ]


def _cost(night: Night) -> tuple[object, ...]:
    states, seconds = night.total("label", "labelled"), night.total("label", "seconds")
    return (
        _when(night.started_at),
        _number(int(states)),
        _number(int(night.total("label", "sets"))),
        Cell(_count(night.labelled_per_hour or 0.0), "number"),
        Cell(f"{seconds / 3_600:.2f}", "number"),
        Cell(f"{seconds / states:.2f}", "number"),
        _number(int(night.total("label", "tokens_processed"))),
    )


def _drift(drift: Drift | None) -> Iterator[Markup]:
    if drift is None:
        yield element("p", "Nothing to compare: no state of the split train has both features and labels.")
        return
    yield element(
        "p",
        f"Population stability index of {drift.columns:,} columns of the view {drift.view} against "
        f"{drift.training_rows:,} candidates of the training set. Above {SHIFTED:g} a column is called shifted; "
        "an index close to the one by chance means nothing. The test split is left out.",
    )
    rows = [
        (
            row.source,
            _number(row.rows),
            Cell(f"{row.by_chance:.3f}", "number"),
            Cell(f"{row.median:.3f}", "number"),
            row.shifted,
            Cell(", ".join(f"{name} {index:.2f}" for name, index in row.columns[:DRIFTING]), "found"),
        )
        for row in drift.sources
    ]
    yield table(("source", "candidates", "by chance", "median", f"columns over {SHIFTED:g}", "largest"), rows)


def _releases(releases: Sequence[ReleaseNumbers]) -> Iterator[Markup]:
    if not releases:
        yield element("p", "Nothing is released yet; drsr publish makes a release.")
        return
    shown = releases[:RELEASES]
    if len(releases) > len(shown):
        yield element("p", f"The latest {len(shown)} of {len(releases):,}.", class_="dim")
    old_first = shown[::-1]
    labels = [found.release.version for found in old_first]
    removal = [Series("mean removal", [found.calibration.mean_removal for found in old_first])]
    yield bars(labels, removal, "Share of a request that each release removes, mean over validation states.", _percent)
    yield table(
        (
            "version",
            "published (UTC)",
            "mode",
            "K",
            "beta",
            "tau",
            "unsafe rate",
            "mean harm",
            "removal",
            "AUROC",
            "pairs",
        ),
        [_row(found) for found in shown],
    )


def _row(found: ReleaseNumbers) -> tuple[object, ...]:
    point = found.calibration
    tau = "abstains always" if point.risk_threshold is None else f"{point.risk_threshold:.6f}"
    numbers = (
        f"{point.uncertainty_coefficient:g}",
        tau,
        "" if point.unsafe_rate is None else f"{point.unsafe_rate:.4f}",
        "" if point.mean_harm is None else f"{point.mean_harm:.4f}",
        f"{point.mean_removal:.2%}",
        cell(found.metrics.unsafe_auroc),
        cell(found.metrics.state_pairs),
    )
    when = _when(found.release.published_at)
    return (
        Cell(found.release.version, "when"),
        when,
        point.mode,
        point.max_cardinality,
        *(Cell(text, "number") for text in numbers),
    )


def _when(moment: datetime.datetime) -> Cell:
    return Cell(f"{moment:%Y-%m-%d %H:%M}", "when")


def _number(count: int) -> Cell:
    return Cell(f"{count:,}", "number")


def _seconds(seconds: float) -> str:
    if seconds >= 5_400:
        return f"{seconds / 3_600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.1f} s"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"
