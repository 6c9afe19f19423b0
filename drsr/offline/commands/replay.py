"""`drsr evaluate --replay`: every comparator on the same recorded decisions, scored by the same recorded outputs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from drsr.contracts import Backbone, Tokenizer
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.evaluation.comparators.contract import Comparator
    from drsr.offline.evaluation.recorded_runs import Measuring
    from drsr.offline.evaluation.replay import Replayed
    from drsr.offline.evaluation.replay_file import MethodNote
    from drsr.offline.evaluation.replay_summary import MethodSummary
    from drsr.offline.evaluation.summariser import Summariser
    from drsr.policy import Policy

SCRIPTED, EMBEDDED = "scripted", "embedded"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `drsr evaluate` takes for a replay."""
    parser.add_argument("--replay", action="store_true", help="every comparator on the recorded decisions")
    parser.add_argument("--methods", metavar="A,B", help="only these comparators (default: all)")
    parser.add_argument("--policy", metavar="PATH", help="a published policy, as a further row: wheel or folder")
    parser.add_argument(
        "--summariser",
        default=SCRIPTED,
        metavar="WHO",
        help="who writes summaries: scripted (a double), embedded (the language model), or the URL of an endpoint",
    )
    parser.add_argument("--summariser-model", default="default", metavar="NAME", help="the endpoint's model")
    parser.add_argument(
        "--window",
        type=int,
        default=128_000,
        metavar="TOKENS",
        help="of the acting model: methods that wait for pressure measure it by this (default: 128000)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="replay N trajectories only")
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: var/evaluation/replay-SPLIT.jsonl")


def run(options: argparse.Namespace) -> int:
    """Replay what is missing, then show everything."""
    from drsr.errors import SettingsError
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.evaluation.recorded_runs import load_runs, measuring, open_runs
    from drsr.offline.evaluation.replay import replay
    from drsr.offline.evaluation.replay_file import ReplayFile
    from drsr.offline.progress import progress
    from drsr.policy import load_policy
    from drsr.settings import load_settings

    for name in ("limit", "window"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name} must be at least 1, not {value}")
    settings = load_settings()
    tools = measuring(settings)
    summariser = summariser_of(options, tools.backbone.tokenizer, lambda: tools.backbone)
    policy = load_policy(options.policy, backbone=tools.backbone) if options.policy else None
    with open_catalog(settings.catalog_url) as catalog:
        artifacts = ArtifactStore(settings.artifact_root)
        found = _methods(options, tools, policy, catalog, artifacts)
        about = {
            "split": options.split,
            "labeler": tools.identity._asdict(),
            "summariser": summariser.name,
            "window": options.window,
            "policy": policy.identity if policy else None,
            "ablations": found.ablations,
        }
        file = ReplayFile(options.output or Path("var") / "evaluation" / f"replay-{options.split}.jsonl", about)
        rows = open_runs(
            catalog,
            tools,
            options.split,
            labeler=options.labeler,
            view=options.view,
            source=options.source,
            limit=options.limit,
        )
        file.describe(found.notes)
        with progress("replay", "trajectories") as report:
            for done, recorded in enumerate(load_runs(catalog, artifacts, rows, tools)):
                report(done, len(rows))
                missing = file.missing([row.state_key for row in recorded.states], found.methods)
                file.add(replay(recorded, {name: found.methods[name] for name in missing}, summariser, tools.scorer))
    names = {row.name for row in rows}
    shown = [row for row in file.rows if row.run in names and row.method in found.methods]
    left_out = {note.name: note.left_out for note in found.notes if note.left_out}
    print(_json(shown, left_out, options.replicates) if options.json else text(shown, left_out, options.replicates))
    return 0


def summariser_of(
    options: argparse.Namespace, tokenizer: Tokenizer, load_backbone: Callable[[], Backbone]
) -> Summariser:
    """Who writes summaries. The language model is loaded only where it is the one."""
    import os

    from drsr.errors import SettingsError
    from drsr.offline.evaluation.scripted_summariser import ScriptedSummariser
    from drsr.offline.evaluation.summariser import EndpointSummariser

    if options.summariser == SCRIPTED:
        return ScriptedSummariser(tokenizer)
    if options.summariser == EMBEDDED:
        from drsr.backbone.frozen_lm import FrozenLM
        from drsr.offline.evaluation.embedded_summariser import EmbeddedSummariser

        backbone = load_backbone()
        if not isinstance(backbone, FrozenLM):
            raise SettingsError(f"{backbone.name} cannot write", hint="--summariser scripted, or an endpoint")
        return EmbeddedSummariser(backbone)
    if options.summariser.startswith(("http://", "https://")):
        key = os.environ.get("DRSR_SUMMARISER_KEY")
        return EndpointSummariser(options.summariser, options.summariser_model, api_key=key)
    raise SettingsError(
        f"nobody called {options.summariser!r} writes summaries", hint="scripted, embedded, or the URL of an endpoint"
    )


class _Methods(NamedTuple):
    """What is replayed."""

    methods: dict[str, Comparator]
    notes: list[MethodNote]
    """Of these, and why others are left out."""
    ablations: str | None
    """What the ablations' decisions depend on; None where there are none."""


def _methods(
    options: argparse.Namespace, tools: Measuring, policy: Policy | None, catalog: Catalog, artifacts: ArtifactStore
) -> _Methods:
    from drsr.errors import OneClassOnly, SettingsError
    from drsr.offline.evaluation.comparators.lre_training import fit_lre, train_requests
    from drsr.offline.evaluation.comparators.registry import comparators
    from drsr.offline.evaluation.comparators.token_counts import TokenCounts
    from drsr.offline.evaluation.replay_file import MethodNote, note_of

    tokenizer = tools.backbone.tokenizer
    try:
        lre = fit_lre(train_requests(catalog, artifacts), TokenCounts(tokenizer, options.window))
    except OneClassOnly:  # its row then says that it could not be trained
        lre = None
    registry = comparators(tokenizer, window=options.window, lre=lre, policy=policy)
    found = dict(registry.available)
    left_out = [MethodNote(row.name, row.title, left_out=row.reason) for row in registry.not_available.values()]
    ablations = None
    if options.ablations:
        more, why_not, ablations = _ablations(options, tools, catalog, artifacts)
        found |= more
        left_out += why_not
    if options.methods is not None:
        wanted = [name.strip() for name in options.methods.split(",") if name.strip()]
        for name in wanted or [""]:
            if name not in found:
                why = {note.name: note.left_out for note in left_out}.get(name)
                what = f"no method is called {name!r}" if why is None else f"{name} cannot be replayed: {why}"
                raise SettingsError(what, hint=f"one of {', '.join(found)}")
        found, left_out = {name: found[name] for name in wanted}, []
    return _Methods(found, [*map(note_of, found.values()), *left_out], ablations)


def _ablations(
    options: argparse.Namespace, tools: Measuring, catalog: Catalog, artifacts: ArtifactStore
) -> tuple[Mapping[str, Comparator], list[MethodNote], str]:
    from dataclasses import asdict

    from drsr.backbone.cache_folder import cache_folder
    from drsr.offline.catalog.trained import content_key
    from drsr.offline.commands.train import training_progress
    from drsr.offline.evaluation.ablation_methods import ablation_methods
    from drsr.offline.evaluation.replay_file import MethodNote
    from drsr.offline.params import load_params
    from drsr.offline.scorer_evaluation import train_ablations

    params, frames = load_params(), {"view": options.view, "labeler": options.labeler}
    with training_progress(params.train.max_epochs) as progress:
        trained = train_ablations(
            catalog,
            artifacts,
            params,
            checkpoints=cache_folder() / "training",
            workers=options.workers,
            progress=progress,
            **frames,
        )
    rows = ablation_methods(catalog, artifacts, tools, trained, params.calibrate, split=options.split, **frames)
    runs = sorted(scorer.record.run_key for scorer in trained.scorers)
    key = content_key({"scorers": runs, "calibrate": asdict(params.calibrate)})
    return rows.available, [MethodNote(name, name, left_out=why) for name, why in rows.missing.items()], key


def text(rows: Sequence[Replayed], left_out: Mapping[str, str], replicates: int) -> str:
    """Tables for people."""
    from drsr.offline.evaluation.replay_summary import by_domain, summarise
    from drsr.offline.evaluation.replay_tables import NOTICE
    from drsr.offline.metrics import Bootstrap
    from drsr.tables import table

    bootstrap = Bootstrap(replicates)
    states, runs = len({row.state_key for row in rows}), len({row.run for row in rows})
    parts = [
        f"{states:,} recorded decisions of {runs:,} runs. {NOTICE}",
        "every task counts once; 95 % intervals in brackets resample whole tasks\n"
        + table(_HEADERS, [_cells(found) for found in summarise(rows, bootstrap)]),
    ]
    domains = by_domain(rows, bootstrap)
    if len(domains) > 1:
        cells = [
            (domain, found.method, found.decisions, *_numbers(found))
            for domain, summaries in domains.items()
            for found in summaries
        ]
        headers = ("domain", "method", "decisions", "removed", "harm", "unsafe", "of changed", "left alone")
        parts.append("by domain\n" + table(headers, cells))
    if left_out:
        parts.append("\n".join(f"left out: {name}: {why}" for name, why in left_out.items()))
    return "\n\n".join(parts)


_HEADERS = (
    *("method", "measured", "removed", "equal-domain", "harm", "unsafe", "equal-domain", "of changed", "left alone"),
    *("auxiliary tokens", "net removed", "ms", "invalid", "fell back", "task lost"),
)


def _cells(found: MethodSummary) -> list[object]:
    from drsr.offline.commands.metric_cells import cell, cells

    return [
        found.method,
        f"{found.measured} of {found.decisions}",
        *cells([found.removal, found.removal_by_domain, found.harm, found.unsafe, found.unsafe_by_domain]),
        *cells([found.unsafe_of_changed, found.abstained]),
        f"{found.auxiliary_tokens.value:,.1f}",
        cell(found.net_removal),
        f"{found.milliseconds:,.1f}",
        *(found.invalid, found.fell_back, found.lost_task),
    ]


def _numbers(found: MethodSummary) -> list[str]:
    from drsr.offline.commands.metric_cells import cells

    return cells([found.removal, found.harm, found.unsafe, found.unsafe_of_changed, found.abstained])


def _json(rows: Sequence[Replayed], left_out: Mapping[str, str], replicates: int) -> str:
    from drsr.offline.evaluation.replay_summary import by_domain, summarise
    from drsr.offline.evaluation.replay_tables import NOTICE
    from drsr.offline.metrics import Bootstrap

    bootstrap = Bootstrap(replicates)
    shown = {
        "notice": NOTICE,
        "decisions": len({row.state_key for row in rows}),
        "methods": [found.to_json() for found in summarise(rows, bootstrap)],
        "left_out": dict(left_out),
        "domains": {
            domain: [found.to_json() for found in summaries] for domain, summaries in by_domain(rows, bootstrap).items()
        },
    }
    return json.dumps(shown)
