"""`drsr plan`: what a run would do and cost, before it does it."""

from __future__ import annotations

import argparse
import json
import os


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="what a run would do and cost: states, sets, tokens, minutes",
        description="Counts what is missing per stage and why, the tokens with and without shared prefixes, and the "
        "minutes that this machine needs, from a short measurement. Changes nothing.",
    )
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--where", action="append", default=[], metavar="split=NAME", help="only this split")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core")
    parser.add_argument("--labeler", default="default", metavar="NAME", help="name of the way of measuring")
    parser.add_argument("--no-price", action="store_true", help="do not load the language model to measure its speed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_backbone, load_tokenizer
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.frozen import require_source
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.labels import Selection, labeler_named
    from drsr.offline.plan import make_plan, price
    from drsr.settings import load_settings
    from drsr.view import caps_for

    settings = load_settings()
    part = Selection.parsed(options.source, options.where)
    tokenizer, window = load_tokenizer(settings.backbone)
    with open_catalog(settings.catalog_url) as catalog:
        with catalog.reading() as connection:
            require_source(connection, options.source)
            labeler_id = labeler_named(connection, options.labeler)
        plan = make_plan(catalog, ArtifactStore(settings.artifact_root), tokenizer, caps_for(window), labeler_id, part)
    cost = None
    if plan.label.states and not options.no_price:
        import torch

        from drsr.offline.target_nll import TargetNll

        torch.set_num_threads(1)
        backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
        cost = price(TargetNll(backbone), plan.label, options.workers)
    if options.json:
        shown = {"to_freeze": plan.to_freeze, "label": plan.label._asdict(), "workers": options.workers}
        print(json.dumps(shown | ({"price": cost._asdict()} if cost else {})))
        return 0
    print(f"freeze: {plan.to_freeze:,} trajectories wait" if plan.to_freeze else "freeze: nothing to do")
    if not plan.label.states:
        print("label: nothing to do")
        return 0
    found = plan.label
    print(f"label: {found.states:,} states of {found.trajectories:,} trajectories, {found.sets:,} deletion sets")
    for reason, count in found.why.items():
        print(f"  {count:,} states: {reason}")
    counted = "" if found.sampled == found.trajectories else f" (estimated from {found.sampled} trajectories)"
    ratio = found.tokens_naive / max(found.tokens_shared, 1)
    shared = f"{found.tokens_shared:,} with shared prefixes, {ratio:.1f} times fewer{counted}"
    print(f"  {found.tokens_naive:,} tokens one by one, {shared}")
    if cost is not None:
        speed = f"{cost.tokens_per_second:,.0f} tokens/s each, measured just now on {settings.device}"
        print(f"  about {cost.minutes:,.1f} minutes with {options.workers} workers at {speed}")
    return 0
