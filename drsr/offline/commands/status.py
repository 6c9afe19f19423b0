"""`drsr status`: what the catalog holds, what is missing or stale, and the last runs."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.freeze.records import FreezingRule
    from drsr.offline.label.status import LabelStatus
    from drsr.offline.status import Status
    from drsr.offline.store.artifacts import ArtifactStore


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "status",
        run,
        help="show counts per stage, stale items and the last runs",
        description="Counts per source and stage for the configured backbone, what is stale, and the last runs. "
        "If the backbone is not fetched, everything that depends on its tokenizer is shown as unknown.",
    )
    parser.add_argument("--quarantined", action="store_true", help="list what could not be read, with the reasons")
    parser.add_argument(
        "--near-duplicates",
        action="store_true",
        help="list near-duplicate trajectories in different splits, and nothing else; exit code 1 if there are any",
    )
    parser.add_argument(
        "--gone",
        action="store_true",
        help="look for the files that runs were read from, list the runs whose files are gone, and nothing else; exit "
        "code 1 if there are any",
    )


def run(options: argparse.Namespace) -> int:
    from drsr.offline.status import quarantined_items, read_status
    from drsr.offline.store.place import opened
    from drsr.tables import table

    with opened() as (settings, catalog, artifacts):
        if options.near_duplicates:
            return _near_duplicates(catalog, artifacts, as_json=options.json)
        if options.gone:
            return _gone(catalog, as_json=options.json)
        status = read_status(catalog, _rule(settings.backbone))
        items = quarantined_items(catalog) if options.quarantined else []
    if options.json:
        shown = status.to_json() | ({"quarantined_items": [item._asdict() for item in items]} if items else {})
        print(json.dumps(shown))
        return 0
    print(_text(status, settings.backbone))
    if items:
        print("\n" + table(("where", "reason", "what to do"), items))
    return 0


def _gone(catalog: Catalog, *, as_json: bool) -> int:
    from drsr.offline.ingest.feeds.gone import gone_runs
    from drsr.tables import table

    found = gone_runs(catalog)
    if as_json:
        print(json.dumps({"gone": [row._asdict() for row in found]}))
    elif found:
        print(table(("run", "split", "was read from"), found))
        print("they still take part: drsr withdraw RUN leaves one out, drsr erase RUN deletes it")
    else:
        print("the files of all runs that were read here still exist")
    return 1 if found else 0


def _rule(backbone: str) -> FreezingRule | None:
    """Return what freezing would go by now; None while the backbone's tokenizer is not on this machine."""
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.errors import BackboneNotFetched
    from drsr.offline.freeze.stage import freezing_rule
    from drsr.request.view import caps_for

    try:
        tokenizer, window = load_tokenizer(backbone)
    except BackboneNotFetched:
        return None
    return freezing_rule(tokenizer, caps_for(window))


def _near_duplicates(catalog: Catalog, artifacts: ArtifactStore, *, as_json: bool) -> int:
    from drsr.offline.ingest.feeds.disguises import disguised_pairs
    from drsr.offline.ingest.near_duplicates import THRESHOLD, leaked_pairs
    from drsr.tables import table

    pairs = leaked_pairs(catalog, artifacts)
    known = {frozenset((pair.first, pair.second)) for pair in pairs}
    disguised = [pair for pair in disguised_pairs(catalog, artifacts) if frozenset((pair[0], pair[2])) not in known]
    if as_json:
        shown = {
            "near_duplicates": [pair._asdict() for pair in pairs],
            "in_disguise": [pair._asdict() for pair in disguised],
        }
        print(json.dumps({"threshold": THRESHOLD, **shown}))
    elif pairs or disguised:
        rows: list[tuple[str, ...]] = [(*pair[:4], pair.told) for pair in pairs]
        rows += disguised
        print(table(("trajectory", "split", "is like", "split", "they share"), rows))
    else:
        said = f"(Jaccard index of {THRESHOLD} or more), also not in disguise"
        print(f"no two trajectories of different splits are alike {said}")
    return 1 if pairs or disguised else 0


def _text(status: Status, backbone: str) -> str:
    from drsr.tables import table

    headers = ("source", "files", "trajectories", "superseded", "quarantined", "frozen", "states", "stale states")
    rows = [["?" if value is None else value for value in source] for source in status.sources]
    lines = [table(headers, rows)]
    if status.splits:
        lines.append("splits: " + ", ".join(f"{count:,} {split}" for split, count in status.splits.items()))
        lines.append(f"{status.tasks:,} tasks in {status.groups:,} groups")
    if status.domains:
        lines.append("domains: " + ", ".join(f"{count:,} {domain}" for domain, count in status.domains.items()))
    if status.without_text:
        lines.append(f"{status.without_text.said}: nothing more is measured on these ({status.without_text.hint})")
    if status.withdrawn:
        taken_out = ", ".join(f"{count:,} {split}" for split, count in status.withdrawn.items())
        lines.append(f"withdrawn runs: {taken_out} (drsr withdraw --list)")
    for reason, count in status.without_states.items():
        lines.append(f"without an eligible decision: {count:,} {reason}")
    if status.labels is None:
        lines.append(
            f"frozen, states and labels are unknown until the backbone is here: drsr backbone fetch {backbone}"
        )
    else:
        waiting = sum(row.to_freeze for row in status.sources)
        lines.append(f"waiting to be frozen: {waiting:,} trajectories" if waiting else "nothing waits to be frozen")
        for labels in status.labels:
            lines += _labels(labels)
    if status.views:
        shown = ("feature view", "version", "backbone", "columns", "states", "excluded", "waiting", "stale", "files")
        lines += ["", table(shown, status.views)]
    lines += _scorers(status) + _calibrations(status)
    runs = [
        (
            run["stage"],
            run["subject"] or "",
            run["started_at"],
            run["finished_at"] or ("killed" if run["killed"] else "not finished"),
        )
        for run in status.runs
    ]
    if runs:
        lines += ["", table(("stage", "subject", "started", "finished"), runs)]
    return "\n".join(lines)


def _labels(found: LabelStatus) -> list[str]:
    """Return what one labeler has measured, in lines."""
    from drsr.offline.label.noise.floor import floor_said

    whose = "labels" if found.labeler == "default" else f"labels by {found.labeler}"
    states = f"{found.labelled:,} states labelled, {found.excluded:,} excluded, {found.waiting:,} waiting"
    sets = f"{found.sets:,} sets measured, {found.excluded_sets:,} excluded"
    lines = [f"{whose}: {states}; {sets}"]
    if found.noise_floor is not None:
        lines.append(f"  noise floor of harm: {floor_said(found.noise_floor)}")
    lines += [f"  {count:,} states excluded: {reason}" for reason, count in found.why_excluded.items()]
    lines += [f"  {count:,} sets excluded: {reason}" for reason, count in found.why_excluded_sets.items()]
    if found.stale:
        lines.append(f"  {found.stale:,} stale states measured: superseded, or under another rule or tokenizer")
    return lines


def _scorers(status: Status) -> list[str]:
    """Trained scorers, in lines."""
    from drsr.offline.evaluate.cells import cells
    from drsr.offline.train.metrics import Metric, Metrics
    from drsr.tables import table

    if not status.scorers:
        return []
    rows = []
    for record in status.scorers:
        judged = Metrics(*(Metric.from_json(value) for value in record.metrics["ensemble"]))
        numbers = cells((judged.unsafe_auroc, judged.state_pairs))
        rows.append((record.ablation, f"{record.trained_at:%Y-%m-%d %H:%M}", record.train_sets, *numbers))
    return ["", table(("scorer", "trained", "sets", "validation AUROC", "pairs in a state"), rows)]


def _calibrations(status: Status) -> list[str]:
    """Operating points, in lines."""
    from drsr.tables import table

    if not status.calibrations:
        return []
    rows = []
    for found in status.calibrations:
        tau = "abstains always" if found.risk_threshold is None else f"{found.risk_threshold:.6f}"
        rate = "-" if found.unsafe_rate is None else f"{found.unsafe_rate:.4f}"
        point = (found.max_cardinality, f"{found.uncertainty_coefficient:g}", tau)
        pruned = f"{found.selected:,} of {found.states:,}"
        moment = f"{found.calibrated_at:%Y-%m-%d %H:%M}"
        rows.append((found.mode, found.calibration_key[:12], moment, *point, pruned, rate, f"{found.mean_removal:.2%}"))
    headers = ("calibration", "key", "made", "K", "beta", "tau", "states pruned", "unsafe rate", "mean removal")
    return ["", table(headers, rows)]
