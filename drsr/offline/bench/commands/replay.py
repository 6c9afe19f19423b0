"""`drsr evaluate --replay`: every comparator on the same recorded decisions, scored by the same recorded outputs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import require_positive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from drsr.offline.bench.comparators.registry import Registry
    from drsr.offline.bench.replay.ablation_methods import Sources
    from drsr.offline.bench.replay.recorded_runs import Measuring
    from drsr.offline.bench.replay.stage import Replayed
    from drsr.offline.bench.replay.summary import MethodSummary
    from drsr.offline.bench.summarisers.summariser import Summariser
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.policy.policy import Policy
    from drsr.request.contracts import Backbone, Tokenizer

SCRIPTED, EMBEDDED = "scripted", "embedded"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `drsr evaluate` takes for a replay."""
    parser.add_argument("--replay", action="store_true", help="replay the recorded decisions with every comparator")
    parser.add_argument("--methods", metavar="A,B", help="only these comparators (default: all)")
    parser.add_argument("--policy", metavar="PATH", help="a published policy as another row: wheel or folder")
    parser.add_argument(
        "--stored-features",
        action="store_true",
        help="take the policy's features for these decisions from the catalog; its time then leaves out the language "
        "model's",
    )
    parser.add_argument("--light-policy", metavar="PATH", help="a published light policy as another row")
    parser.add_argument(
        "--summariser",
        default=SCRIPTED,
        metavar="WHO",
        help="who writes summaries: scripted (a double), embedded (the language model), or the URL of an endpoint",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="METHOD=MODEL",
        help="give llmlingua2, swe_pruner or pace a trained model instead of a stand-in: a folder, or a name in the "
        "hub's cache; may be given several times",
    )
    parser.add_argument("--summariser-model", default="default", metavar="NAME", help="the endpoint's model")
    parser.add_argument(
        "--window",
        type=int,
        default=128_000,
        metavar="TOKENS",
        help="context window of the acting model, for methods that act when it is nearly full (default: 128000)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="replay N trajectories only: the first of every task, then the second, and so on, domains by turns",
    )
    parser.add_argument("--source", help="only trajectories of this source, and what was trained on it")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: var/evaluation/replay-SPLIT.jsonl")


def run(options: argparse.Namespace) -> int:
    """Replay what is missing, then show everything."""
    import drsr
    from drsr.errors import SettingsError
    from drsr.offline.bench.comparators.handed_models import named_models
    from drsr.offline.bench.replay.file import MethodNote, ReplayFile, chosen_rows, note_of
    from drsr.offline.bench.replay.labelled_nlls import labelled_nlls
    from drsr.offline.bench.replay.method_version import version_with
    from drsr.offline.bench.replay.recorded_runs import load_runs, measuring, open_runs, with_earlier
    from drsr.offline.bench.replay.stage import replay
    from drsr.offline.bench.trainings import different_trainings
    from drsr.offline.store.place import opened
    from drsr.offline.store.progress import progress
    from drsr.policy.loading import load_policy
    from drsr.settings import load_settings

    require_positive(options, "limit", "window")
    if options.stored_features and not options.policy:
        raise SettingsError("--stored-features is of a full policy, and there is none", hint="--policy WHEEL")
    named_models(options.model)  # a mistake in it is told before anything is loaded
    tools = measuring(load_settings())
    summariser = summariser_of(options, tools.backbone.tokenizer, lambda: tools.backbone)
    policy = load_policy(options.policy, backbone=tools.backbone) if options.policy else None
    about = {
        "drsr": drsr.__version__,
        "split": options.split,
        "labeler": tools.identity.facts,
        "window": options.window,
    }
    with opened() as (_, catalog, artifacts):
        found = _methods(options, tools, policy, catalog, artifacts)
        versions = {name: version_with(method, summariser) for name, method in found.available.items()}
        left_out = {name: row.reason for name, row in found.not_available.items()}
        path = options.output or Path("var") / "evaluation" / f"replay-{options.split}.jsonl"
        with ReplayFile(path, about) as file:
            rows = open_runs(
                catalog,
                tools,
                options.split,
                labeler=options.labeler,
                view=options.view,
                source=options.source,
                limit=options.limit,
            )
            keys = {key for row in rows for key in row.states.values()}
            notes = [note_of(method, summariser) for method in found.available.values()]
            notes += [MethodNote(row.name, row.title, left_out=row.reason) for row in found.not_available.values()]
            earlier = file.decisions or ()
            file.describe(
                notes, with_earlier(catalog, tools, options.split, labeler=options.labeler, rows=rows, earlier=earlier)
            )
            with progress("replay", "trajectories") as report:
                for done, row in enumerate(rows):
                    report(done, len(rows))
                    missing = file.missing(row.states.values(), versions)
                    if not missing:  # then nothing of the run is loaded, and nothing scored
                        continue
                    found.forget()
                    (recorded,) = load_runs(catalog, artifacts, [row], tools)
                    methods = [found.available[name] for name in missing]
                    known = labelled_nlls(catalog, options.labeler, recorded.states, tools.backbone.tokenizer)
                    file.add(replay(recorded, methods, summariser, tools.scorer, known))
    shown, apart = chosen_rows(file.replayed, keys, versions), different_trainings(notes)
    print((_json if options.json else _text)(shown, left_out, apart, options.replicates))
    return 0


def summariser_of(
    options: argparse.Namespace, tokenizer: Tokenizer, load_backbone: Callable[[], Backbone]
) -> Summariser:
    """Return the summariser. The language model is loaded only if it is the one."""
    import os

    from drsr.errors import SettingsError
    from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
    from drsr.offline.bench.summarisers.summariser import EndpointSummariser

    if options.summariser == SCRIPTED:
        return ScriptedSummariser(tokenizer)
    if options.summariser == EMBEDDED:
        from drsr.backbone.frozen_lm import FrozenLM
        from drsr.offline.bench.summarisers.embedded import EmbeddedSummariser

        backbone = load_backbone()
        if not isinstance(backbone, FrozenLM):
            raise SettingsError(f"{backbone.name} cannot write", hint="--summariser scripted, or an endpoint")
        return EmbeddedSummariser(backbone)
    if options.summariser.startswith(("http://", "https://")):
        key = os.environ.get("DRSR_SUMMARISER_KEY")
        return EndpointSummariser(options.summariser, options.summariser_model, api_key=key)
    raise SettingsError(
        f"unknown summariser {options.summariser!r}", hint="scripted, embedded, or the URL of an endpoint"
    )


def _methods(
    options: argparse.Namespace, tools: Measuring, policy: Policy | None, catalog: Catalog, artifacts: ArtifactStore
) -> Registry:
    """Return the requested methods, and why others cannot run. Ablations are trained if one of them is requested."""
    from drsr.offline.bench.comparators.handed_models import load_models, named_models
    from drsr.offline.bench.comparators.registry import comparators
    from drsr.offline.bench.comparators.token_counts import TokenCounts
    from drsr.offline.bench.replay.chosen_methods import ablations_wanted, choose, lre_if_wanted, wanted_names

    tokenizer, wanted = tools.backbone.tokenizer, wanted_names(options.methods)
    lre = lre_if_wanted(wanted, catalog, artifacts, TokenCounts(tokenizer, options.window))
    models = load_models(named_models(options.model))
    registry = comparators(tokenizer, window=options.window, lre=lre, policy=policy, models=models, wanted=wanted)
    if options.light_policy:
        registry = _with_light(registry, options.light_policy, tools)
    with_parts = options.ablations and ablations_wanted(wanted)
    if with_parts or options.stored_features:
        from drsr.offline.bench.replay.ablation_methods import stored, stored_policy

        sources = stored(catalog, artifacts, view=options.view, labeler=options.labeler, split=options.split)
        if policy is not None and options.stored_features:
            mine = stored_policy(catalog, policy, sources, view=options.view)
            registry = registry._replace(available={**registry.available, mine.name: mine})
        if with_parts:
            registry = with_ablations(registry, options, tools, catalog, artifacts, sources)
    return choose(registry, wanted)


def _with_light(registry: Registry, location: str, tools: Measuring) -> Registry:
    """Return the rows with those of the light policy; it was trained on other columns, so it is not an ablation of
    another policy."""
    from drsr.errors import SettingsError
    from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
    from drsr.policy.loading import load_policy

    policy = load_policy(location, backbone=tools.backbone)
    if policy.numbers.light is None:
        raise SettingsError(f"{location} is a full policy", hint="--policy takes that one, --light-policy a light one")
    light = DrsrPolicy(policy, name="drsr_light", title="DRSR light", training="")
    return registry._replace(available={**registry.available, light.name: light})


def with_ablations(
    registry: Registry,
    options: argparse.Namespace,
    tools: Measuring,
    catalog: Catalog,
    artifacts: ArtifactStore,
    sources: Sources,
) -> Registry:
    """Return the rows with DRSR's ablations, trained if they are not yet; `sources` says where their features come
    from."""
    from drsr.offline.bench.comparators.registry import NotAvailable
    from drsr.offline.bench.replay.ablation_methods import ablation_methods
    from drsr.offline.commands.stages.train import chosen_scorer, training_progress
    from drsr.offline.evaluate.stage import train_ablations
    from drsr.offline.params import load_params
    from drsr.settings import cache_folder

    params, frames = chosen_scorer(load_params(), options), {"view": options.view, "labeler": options.labeler}
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
    rows = ablation_methods(catalog, artifacts, tools, trained, params.calibrate, sources, **frames)
    missing = {name: NotAvailable(name, name, why) for name, why in rows.missing.items()}
    return registry._replace(
        available={**registry.available, **rows.available}, not_available={**registry.not_available, **missing}
    )


def _text(rows: Sequence[Replayed], left_out: Mapping[str, str], apart: str, replicates: int) -> str:
    """Return tables as text. `apart` says which trainings DRSR and its ablations come from, if there are several."""
    from drsr.offline.bench.replay.summary import by_domain, compare
    from drsr.offline.bench.replay.tables import NOTICE
    from drsr.offline.train.metrics import Bootstrap
    from drsr.tables import table

    bootstrap = Bootstrap(replicates)
    found = compare(rows, bootstrap)
    parts = [
        "\n".join(filter(None, [NOTICE, found.population, apart])),
        "what the methods do, on the measured decisions; every task counts once, where it says domains every domain; "
        "95 % intervals in brackets resample whole tasks\n" + table(_EFFECTS, [_effects(one) for one in found.methods]),
        "what they cost, on all decisions\n" + table(_COSTS, [_costs(one) for one in found.methods]),
    ]
    failures = [
        (one.method, reason, times) for one in found.methods for reason, times in sorted(one.why_fell_back.items())
    ]
    if failures:
        parts.append("why requests went on as they were\n" + table(("method", "reason", "decisions"), failures))
    domains = by_domain(rows, bootstrap) if found.domains > 1 else {}
    if domains:
        cells = [
            (domain, one.method, f"{mine.measured} of {mine.decisions}", *_by_domain(one))
            for domain, mine in domains.items()
            for one in mine.methods
        ]
        headers = ("domain", "method", "measured", "removed", "tokens", "harm", "unsafe", "of changed", "left alone")
        parts.append("by domain\n" + table((*headers, "auxiliary tokens", "ms", "invalid"), cells))
    if left_out:
        parts.append("\n".join(f"left out: {name}: {why}" for name, why in left_out.items()))
    return "\n\n".join(parts)


_EFFECTS = (
    *("method", "removed", "removed, domains", "tokens", "harm", "unsafe", "unsafe, domains"),
    *("unsafe of changed", "left alone"),
)
_COSTS = (
    *("method", "removed", "auxiliary tokens", "net removed", "ms", "invalid", "fell back", "task lost"),
    "claims broken",
)


def _effects(found: MethodSummary) -> list[object]:
    from drsr.offline.bench.replay.tables import effects_of
    from drsr.offline.evaluate.cells import cells

    return [found.method, *cells(effects_of(found))]


def _costs(found: MethodSummary) -> list[object]:
    from drsr.offline.evaluate.cells import cell

    return [
        *(found.method, cell(found.removal_of_all), f"{found.auxiliary_tokens.value:,.1f}", cell(found.net_removal)),
        *(f"{found.milliseconds:,.1f}", found.invalid, found.fell_back, found.lost_task, found.claims_broken),
    ]


def _by_domain(found: MethodSummary) -> list[object]:
    from drsr.offline.bench.replay.tables import effects_in_domain
    from drsr.offline.evaluate.cells import cells

    return [
        *cells(effects_in_domain(found)),
        *(f"{found.auxiliary_tokens.value:,.1f}", f"{found.milliseconds:,.1f}", found.invalid),
    ]


def _json(rows: Sequence[Replayed], left_out: Mapping[str, str], apart: str, replicates: int) -> str:
    from drsr.offline.bench.replay.summary import by_domain, compare
    from drsr.offline.bench.replay.tables import NOTICE
    from drsr.offline.train.metrics import Bootstrap

    bootstrap = Bootstrap(replicates)
    domains = {domain: found.to_json() for domain, found in by_domain(rows, bootstrap).items()}
    found = compare(rows, bootstrap).to_json()
    said = {"notice": NOTICE, "different_trainings": apart}
    return json.dumps({**said, **found, "left_out": dict(left_out), "by_domain": domains})
