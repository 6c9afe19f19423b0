"""`drsr evaluate --tasks`: an agent works on whole tasks with each method in between; reward and tokens are counted."""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import require_positive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from drsr.offline.bench.analyses.analysis import Analysis
    from drsr.offline.bench.comparators.contract import Comparator
    from drsr.offline.bench.comparators.token_counts import TokenCounts
    from drsr.offline.bench.harness.agent import Agent
    from drsr.offline.bench.harness.suite import Suite
    from drsr.offline.bench.harness.summary import Summary
    from drsr.offline.bench.replay.recorded_runs import Measuring
    from drsr.offline.catalog.engine import Catalog
    from drsr.policy.policy import Policy
    from drsr.request.contracts import Tokenizer
    from drsr.settings import Settings

SCRIPTED = "scripted"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `drsr evaluate` takes for whole tasks, in addition to those it shares with a replay."""
    group = parser.add_argument_group("whole tasks")
    group.add_argument(
        "--tasks", metavar="MANIFEST", help="run tasks with every method: sandbox, eval40, full260, or a file"
    )
    group.add_argument(
        "--agent",
        default=SCRIPTED,
        metavar="WHO",
        help="who acts: scripted (a double that knows only what it is shown), or the URL of an endpoint",
    )
    group.add_argument("--agent-model", metavar="NAME", help="the endpoint's model; its key comes from DRSR_AGENT_KEY")
    group.add_argument(
        "--step-limit", type=int, metavar="N", help="requests per task (default: 24 in the sandbox, else 400)"
    )
    group.add_argument(
        "--parallel", type=int, default=1, metavar="N", help="tasks at the same time, in threads (default: 1)"
    )
    group.add_argument("--part", metavar="K/N", help="only every Nth task, from the Kth: one part for each machine")
    group.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="first take over the results of other machines",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="sent to the endpoint (default: 0)")
    group.add_argument(
        "--run-commands",
        action="store_true",
        help="let a model's commands run on this machine with your rights; use a container",
    )
    group.add_argument(
        "--tables", type=Path, metavar="FOLDER", help="for CSV, Markdown and JSON (default: next to --output)"
    )


def run(options: argparse.Namespace) -> int:
    """Run what is missing, then show everything."""
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.errors import SettingsError
    from drsr.offline.bench.commands.replay import EMBEDDED, summariser_of
    from drsr.offline.bench.comparators.handed_models import named_models
    from drsr.offline.bench.comparators.token_counts import TokenCounts
    from drsr.offline.bench.harness.bundled_manifests import SANDBOX, find_manifest
    from drsr.offline.bench.harness.episode import LONG_STEP_LIMIT, STEP_LIMIT, Setting
    from drsr.offline.bench.harness.results_file import ResultsFile
    from drsr.offline.bench.harness.runs import about_run, run_tasks
    from drsr.offline.bench.harness.suite import find_suite
    from drsr.offline.bench.harness.summary import summarise
    from drsr.offline.bench.harness.supervision import (
        catalog_supervision,
        refuse_supervised,
        sample_supervision,
    )
    from drsr.offline.bench.harness.task_tables import task_tables
    from drsr.offline.bench.replay.method_version import version_of
    from drsr.offline.store.progress import progress
    from drsr.offline.train.metrics import Bootstrap
    from drsr.settings import load_settings

    if options.replay:
        raise SettingsError("--tasks is a separate evaluation", hint="run one after the other")
    require_positive(options, "limit", "window", "step_limit", "parallel")
    part = _part(options.part)
    named_models(options.model)  # a mistake in it is told before anything is loaded
    settings = load_settings()
    manifest = find_manifest(options.tasks)
    suite = find_suite(manifest.suite)
    tokenizer = load_tokenizer(settings.backbone).tokenizer
    agent = _agent(options, manifest.suite, suite, tokenizer)
    model = _loaded_once(settings)
    summariser = summariser_of(options, tokenizer, lambda: model().backbone)
    counts = TokenCounts(tokenizer, options.window)
    options.step_limit = options.step_limit or (STEP_LIMIT if manifest.suite == SANDBOX else LONG_STEP_LIMIT)
    setting = Setting(suite, agent, summariser, counts, options.step_limit, options.seed)
    with _catalog(settings) as catalog:
        supervised = sample_supervision() | (catalog_supervision(catalog) if catalog else set())
        refuse_supervised(manifest, supervised)
        methods, left_out = _methods(options, settings, counts, tokenizer, catalog, model)
    path = options.output or Path("var") / "evaluation" / f"tasks-{manifest.name}.jsonl"
    about = about_run(manifest, setting, tokenizer.identity)
    if options.summariser == EMBEDDED:  # its name alone says nothing about its weights
        about["summariser_weights"] = f"{model().identity.backbone_identity} {settings.dtype}"
    with closing(agent), ResultsFile(path, about) as file, progress("tasks", "runs") as report:
        if options.merge:
            print(f"drsr: {file.merge(options.merge):,} results of other files taken over", file=sys.stderr)
        file.tell(told(options), {name: version_of(method) for name, method in methods.items()})
        tasks = manifest.tasks[part][: options.limit]
        episodes = run_tasks(tasks, methods, setting, file, report, options.parallel)
    summary = summarise(episodes, Bootstrap(options.replicates))
    tables = task_tables(file.about, summary, drawn=False)
    found = _json(file.about, summary, len({episode.task for episode in episodes}), left_out)
    folder = options.tables or path.with_suffix("")
    write_tables(folder, tables, found)
    print(json.dumps(found) if options.json else _text(tables, left_out, path, folder))
    return 0


def _part(chosen: str | None) -> slice:
    """Return the tasks of one machine, spread evenly over a manifest that may be sorted by domain."""
    from drsr.errors import SettingsError

    if chosen is None:
        return slice(None)
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", chosen, re.ASCII)
    if found is None or int(found[1]) > int(found[2]):
        raise SettingsError(f"--part {chosen!r} is not part of a whole", hint="such as 2/8, the second of eight")
    return slice(int(found[1]) - 1, None, int(found[2]))


SAID = (
    "agent",
    "agent_model",
    "methods",
    "policy",
    "summariser",
    "summariser_model",
    "window",
    "step_limit",
    "seed",
    "limit",
    "part",
)
"""Options that results depend on."""


def told(options: argparse.Namespace) -> list[str]:
    """Return what this run was asked for, as options that ask for it again; credentials of URLs are not among them."""
    from drsr.redaction import redact

    said = ["--tasks", options.tasks]
    for name in SAID:
        value = getattr(options, name)
        if value is not None:
            said += [f"--{name.replace('_', '-')}", redact(str(value))]
    said += [word for name in options.model for word in ("--model", name)]
    if options.ablations:  # they alone depend on labels and features
        said += ["--ablations", "--view", options.view, "--labeler", options.labeler]
    return [*said, *(["--run-commands"] if options.run_commands else [])]


def write_tables(folder: Path, tables: Sequence[Analysis], found: Mapping[str, Any]) -> None:
    """Write every table as CSV and Markdown, and all numbers as `results.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (folder / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
        (folder / f"{table.name}.md").write_text(table.to_markdown(), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _agent(options: argparse.Namespace, name: str, suite: Suite, tokenizer: Tokenizer) -> Agent:
    import os

    from drsr.errors import SettingsError
    from drsr.offline.bench.harness.context_dependent_agent import ContextDependentAgent, only_in_the_sandbox
    from drsr.offline.bench.harness.endpoint_agent import EndpointAgent

    if options.agent == SCRIPTED:
        only_in_the_sandbox(name)
        return ContextDependentAgent(tokenizer)
    if not options.agent.startswith(("http://", "https://")):
        raise SettingsError(f"unknown agent {options.agent!r}", hint="scripted, or the URL of an endpoint")
    if not options.agent_model:
        raise SettingsError("an endpoint needs the name of a model", hint="--agent-model NAME")
    if suite.executes_here and not options.run_commands:
        raise SettingsError(
            f"tasks of {name} execute commands that the model writes, on this machine and with your rights",
            hint="go into a container and say --run-commands",
        )
    key = os.environ.get("DRSR_AGENT_KEY")
    return EndpointAgent(options.agent, options.agent_model, api_key=key, seed=options.seed)


@contextmanager
def _catalog(settings: Settings) -> Iterator[Catalog | None]:
    """Return the catalog; None if there is none yet, because tasks can be run without one."""
    from drsr.offline.catalog.engine import parse_url, sqlite_path
    from drsr.offline.catalog.migrations import open_catalog

    path = sqlite_path(parse_url(settings.catalog_url))
    if path is not None and not path.exists():
        yield None
        return
    with open_catalog(settings.catalog_url) as catalog:
        yield catalog


def _methods(
    options: argparse.Namespace,
    settings: Settings,
    counts: TokenCounts,
    tokenizer: Tokenizer,
    catalog: Catalog | None,
    model: Callable[[], Measuring],
) -> tuple[dict[str, Comparator], dict[str, str]]:
    """Return the requested methods, always including the baseline, and why others cannot run."""
    from drsr.errors import SettingsError
    from drsr.offline.bench.commands.replay import EMBEDDED, with_ablations
    from drsr.offline.bench.comparators.handed_models import load_models, named_models
    from drsr.offline.bench.comparators.registry import comparators
    from drsr.offline.bench.harness.runs import BASELINE
    from drsr.offline.bench.replay.chosen_methods import ablations_wanted, choose, lre_if_wanted, wanted_names
    from drsr.offline.store.artifacts import ArtifactStore

    wanted = wanted_names(options.methods)
    ablations = options.ablations and ablations_wanted(wanted)
    if ablations and catalog is None:
        raise SettingsError(
            "ablations are trained from labels, and there is no catalog here",
            hint="drsr ingest, freeze, label, featurize; or leave --ablations out",
        )
    artifacts = ArtifactStore(settings.artifact_root)
    lre = lre_if_wanted(wanted, catalog, artifacts, counts) if catalog is not None else None
    policy = _policy(options, settings, model if ablations or options.summariser == EMBEDDED else None)
    models = load_models(named_models(options.model))
    registry = comparators(tokenizer, window=options.window, lre=lre, policy=policy, models=models, wanted=wanted)
    if ablations and catalog is not None:
        from drsr.offline.bench.replay.ablation_methods import computed_now  # they bring the language model's libraries

        registry = with_ablations(registry, options, model(), catalog, artifacts, computed_now)
    chosen = choose(registry, wanted, always=[BASELINE])
    return chosen.available, {name: row.reason for name, row in chosen.not_available.items()}


def _loaded_once(settings: Settings) -> Callable[[], Measuring]:
    """Return the language model of the settings, loaded once, when it is first needed."""

    @functools.cache
    def model() -> Measuring:
        from drsr.offline.bench.replay.recorded_runs import measuring

        return measuring(settings)

    return model


def _policy(options: argparse.Namespace, settings: Settings, model: Callable[[], Measuring] | None) -> Policy | None:
    """Return the requested policy. `model` is loaded in any case, and a policy of the same model uses it. Otherwise the
    policy reads its weights when a request needs them: never, if everything was run before."""
    from drsr.policy.loading import load_policy

    if not options.policy:
        return None
    policy = load_policy(options.policy, device=settings.device)
    if model is None:
        return policy
    made_with, here = policy.numbers.backbone, model().identity
    same = (made_with.identity, made_with.dtype) == (here.backbone_identity, here.dtype)
    return load_policy(options.policy, backbone=model().backbone) if same else policy


def _text(tables: Sequence[Analysis], left_out: Mapping[str, str], path: Path, folder: Path) -> str:
    from drsr.offline.bench.analyses.analysis import shown
    from drsr.tables import table

    parts = [
        f"{one.title}. {one.says}\n" + table(one.columns, [list(map(shown, row)) for row in one.rows]) for one in tables
    ]
    if left_out:
        parts.append("\n".join(f"left out: {name}: {why}" for name, why in left_out.items()))
    return "\n\n".join([*parts, f"every request: {path}\ntables: {folder}"])


def _json(about: Mapping[str, Any], summary: Summary, tasks: int, left_out: Mapping[str, str]) -> dict[str, Any]:
    from drsr.offline.bench.harness.task_tables import notice

    return {
        "notice": notice(about),
        "about": dict(about),
        "tasks": tasks,
        "methods": [found.to_json() for found in summary.methods],
        "domains": {domain: [found.to_json() for found in results] for domain, results in summary.domains.items()},
        "left_out": dict(left_out),
    }
