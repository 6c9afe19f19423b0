"""`drsr evaluate --tasks`: an agent works on whole tasks with each method in between; reward and tokens are counted."""

from __future__ import annotations

import argparse
import json
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from drsr.contracts import Tokenizer
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.evaluation.analyses.analysis import Analysis
    from drsr.offline.evaluation.comparators.contract import Comparator
    from drsr.offline.evaluation.comparators.token_counts import TokenCounts
    from drsr.offline.evaluation.harness.agent import Agent
    from drsr.offline.evaluation.harness.episode import Episode
    from drsr.offline.evaluation.harness.suite import Suite
    from drsr.settings import Settings

SCRIPTED = "scripted"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `drsr evaluate` takes for whole tasks, besides those it shares with a replay."""
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
    group.add_argument("--model", metavar="NAME", help="the endpoint's model; its key comes from DRSR_AGENT_KEY")
    group.add_argument("--step-limit", type=int, default=24, metavar="N", help="requests per task (default: 24)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="sent to the endpoint (default: 0)")
    group.add_argument(
        "--run-commands",
        action="store_true",
        help="let a model's commands be executed on this machine, with your rights: use a container",
    )
    group.add_argument("--tables", type=Path, metavar="FOLDER", help="for CSV, Markdown and JSON; default: by --output")


def run(options: argparse.Namespace) -> int:
    """Run what is missing, then show everything."""
    from drsr.backbone.catalogue import load_backbone, load_tokenizer
    from drsr.errors import SettingsError
    from drsr.offline.commands.replay import summariser_of
    from drsr.offline.evaluation.comparators.token_counts import TokenCounts
    from drsr.offline.evaluation.harness.bundled_manifests import find_manifest
    from drsr.offline.evaluation.harness.episode import Setting
    from drsr.offline.evaluation.harness.results_file import ResultsFile
    from drsr.offline.evaluation.harness.runs import about_run, run_tasks
    from drsr.offline.evaluation.harness.suite import find_suite
    from drsr.offline.evaluation.harness.supervision import (
        catalog_supervision,
        refuse_supervised,
        sample_supervision,
    )
    from drsr.offline.progress import progress
    from drsr.settings import load_settings

    if options.replay or options.ablations:
        raise SettingsError("--tasks is an evaluation of its own", hint="run one after the other")
    for name in ("limit", "window", "step_limit"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    settings = load_settings()
    manifest = find_manifest(options.tasks)
    suite = find_suite(manifest.suite)
    tokenizer = load_tokenizer(settings.backbone).tokenizer
    agent = _agent(options, manifest.suite, suite, tokenizer)
    summariser = summariser_of(
        options, tokenizer, lambda: load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    )
    counts = TokenCounts(tokenizer, options.window)
    setting = Setting(suite, agent, summariser, counts, options.step_limit, options.seed)
    with _catalog(settings) as catalog:
        supervised = sample_supervision() | (catalog_supervision(catalog) if catalog else set())
        refuse_supervised(manifest, supervised)
        methods, left_out = _methods(options, settings, counts, tokenizer, catalog)
    path = options.output or Path("var") / "evaluation" / f"tasks-{manifest.name}.jsonl"
    file = ResultsFile(path, about_run(manifest, setting, tokenizer.identity))
    with closing(agent), progress("tasks", "runs") as report:
        episodes = run_tasks(manifest.tasks[: options.limit], methods, setting, file, report)
    tables = _tables(file.about, episodes, options.replicates)
    found = _json(file.about, episodes, left_out, options.replicates)
    folder = options.tables or path.with_suffix("")
    write_tables(folder, tables, found)
    print(json.dumps(found) if options.json else _text(tables, left_out, path, folder))
    return 0


def write_tables(folder: Path, tables: Sequence[Analysis], found: Mapping[str, Any]) -> None:
    """Every table as CSV and Markdown, and all numbers as `results.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (folder / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
        (folder / f"{table.name}.md").write_text(table.to_markdown(), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _agent(options: argparse.Namespace, name: str, suite: Suite, tokenizer: Tokenizer) -> Agent:
    import os

    from drsr.errors import SettingsError
    from drsr.offline.evaluation.harness.context_dependent_agent import ContextDependentAgent, only_in_the_sandbox
    from drsr.offline.evaluation.harness.endpoint_agent import EndpointAgent

    if options.agent == SCRIPTED:
        only_in_the_sandbox(name)
        return ContextDependentAgent(tokenizer)
    if not options.agent.startswith(("http://", "https://")):
        raise SettingsError(f"nobody called {options.agent!r} acts", hint="scripted, or the URL of an endpoint")
    if not options.model:
        raise SettingsError("an endpoint needs the name of a model", hint="--model NAME")
    if suite.executes_here and not options.run_commands:
        raise SettingsError(
            f"tasks of {name} execute commands that the model writes, on this machine and with your rights",
            hint="go into a container and say --run-commands",
        )
    key = os.environ.get("DRSR_AGENT_KEY")
    return EndpointAgent(options.agent, options.model, api_key=key, seed=options.seed)


@contextmanager
def _catalog(settings: Settings) -> Iterator[Catalog | None]:
    """The catalog at hand; None where there is none yet: tasks can be run without one."""
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
) -> tuple[dict[str, Comparator], dict[str, str]]:
    """Those that are asked for, the baseline always among them, and why others cannot run."""
    from drsr.errors import OneClassOnly, SettingsError
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.evaluation.comparators.lre_training import fit_lre, train_requests
    from drsr.offline.evaluation.comparators.registry import comparators
    from drsr.offline.evaluation.harness.runs import BASELINE
    from drsr.policy import load_policy

    lre = None
    wanted = None if options.methods is None else [name.strip() for name in options.methods.split(",") if name.strip()]
    if catalog is not None and (wanted is None or "lre" in wanted):
        try:
            lre = fit_lre(train_requests(catalog, ArtifactStore(settings.artifact_root)), counts)
        except OneClassOnly:  # its row then says that it could not be trained
            lre = None
    policy = load_policy(options.policy, device=settings.device) if options.policy else None
    registry = comparators(tokenizer, window=options.window, lre=lre, policy=policy)
    missing = {name: row.reason for name, row in registry.not_available.items()}
    if wanted is None:
        return registry.available, missing
    for name in wanted or [""]:
        if name not in registry.available:
            why = f"{name} cannot run here: {missing[name]}" if name in missing else f"no method is called {name!r}"
            raise SettingsError(why, hint=f"one of {', '.join(registry.available)}")
    return {name: registry.available[name] for name in dict.fromkeys([BASELINE, *wanted])}, {}


def _tables(about: Mapping[str, Any], episodes: Sequence[Episode], replicates: int) -> list[Analysis]:
    from drsr.offline.evaluation.harness.task_tables import task_tables
    from drsr.offline.metrics import Bootstrap

    return task_tables(about, episodes, Bootstrap(replicates), drawn=False)


def _text(tables: Sequence[Analysis], left_out: Mapping[str, str], path: Path, folder: Path) -> str:
    from drsr.offline.evaluation.analyses.analysis import shown
    from drsr.tables import table

    parts = [
        f"{one.title}. {one.says}\n" + table(one.columns, [list(map(shown, row)) for row in one.rows]) for one in tables
    ]
    if left_out:
        parts.append("\n".join(f"left out: {name}: {why}" for name, why in left_out.items()))
    return "\n\n".join([*parts, f"every request: {path}\ntables: {folder}"])


def _json(
    about: Mapping[str, Any], episodes: Sequence[Episode], left_out: Mapping[str, str], replicates: int
) -> dict[str, Any]:
    from drsr.offline.evaluation.harness.summary import by_domain, summarise
    from drsr.offline.evaluation.harness.task_tables import notice
    from drsr.offline.metrics import Bootstrap

    bootstrap = Bootstrap(replicates)
    domains = by_domain(episodes, bootstrap)
    return {
        "notice": notice(about),
        "about": dict(about),
        "tasks": len({episode.task for episode in episodes}),
        "methods": [found.to_json() for found in summarise(episodes, bootstrap)],
        "domains": {domain: [found.to_json() for found in results] for domain, results in domains.items()},
        "left_out": dict(left_out),
    }
