"""`drsr plan`: what a run would do and cost, before it does it."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command, require_positive
from drsr.offline.commands.stages.measure import add_part_options, chosen_part

if TYPE_CHECKING:
    from drsr.offline.plan import FeaturizePlan, FreezePlan, LabelPlan, Price


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plan",
        run,
        help="estimate what a run would do and cost: states, sets, tokens, minutes",
        description="Counts what is missing per stage and why, the tokens with and without shared prefixes, and the "
        "minutes that this machine needs, from a short measurement. Changes nothing.",
    )
    add_part_options(parser)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core")
    parser.add_argument("--labeler", default="default", metavar="NAME", help="name of the way of measuring")
    parser.add_argument("--view", default="default", metavar="NAME", help="name of the feature view")
    parser.add_argument("--no-price", action="store_true", help="do not load the language model to measure its speed")


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_backbone
    from drsr.errors import FeatureError, FeatureViewError
    from drsr.offline.label.configured import configured
    from drsr.offline.plan import make_plan, plan_featurize, price
    from drsr.offline.store.place import opened

    require_positive(options, "workers")
    features, refused = None, None
    with opened() as (settings, catalog, artifacts):
        part, found = chosen_part(options, catalog), configured(settings)
        with catalog.reading() as connection:
            labeler_id = found.find_labeler(connection, options.labeler)  # refuses what drsr label would refuse
        counted = catalog, artifacts, found.tokenizer, found.caps
        plan = make_plan(*counted, labeler_id, part)
        try:
            features = plan_featurize(*counted, options.view, found.view(options.view), labeler_id, part)
            features = features.with_unfrozen(plan.label.not_frozen)
        except (FeatureError, FeatureViewError) as error:
            refused = error.what
    cost = None
    if (plan.label.states or (features and features.tokens)) and not options.no_price:
        import torch

        from drsr.offline.label.target_nll import TargetNll

        torch.set_num_threads(1)
        backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
        cost = price(TargetNll(backbone, memory_mb=int(settings.label_memory_mb)), plan.label, options.workers)
    if options.json:
        shown = {
            "freeze": plan.freeze._asdict(),
            "label": plan.label._asdict(),
            "featurize": features._asdict() if features else {"refused": refused},
            "workers": options.workers,
        }
        print(json.dumps(shown | ({"price": cost._asdict()} if cost else {})))
        return 0
    _show_freeze(plan.freeze)
    _show_label(plan.label, cost, options.workers, settings.device)
    if features is None:
        print(f"featurize: refused, {refused}")
    else:
        _show_featurize(features, cost, options.workers)
    return 0


def _show_freeze(found: FreezePlan) -> None:
    if not found.trajectories:
        print("freeze: nothing to do")
        return
    print(f"freeze: {found.trajectories:,} trajectories wait")
    for reason, count in found.why.items():
        print(f"  {count:,} trajectories: {reason}")


def _show_label(found: LabelPlan, cost: Price | None, workers: int, device: str) -> None:
    if not found.states:
        print("label: nothing to do")
        return
    print(f"label: {found.states:,} states of {found.trajectories:,} trajectories, {found.sets:,} deletion sets")
    for reason, count in found.why.items():
        print(f"  {count:,} states: {reason}")
    counted = f" (estimated from {found.sampled} trajectories)" if found.is_estimate else ""
    ratio = found.tokens_naive / max(found.tokens_shared, 1)
    shared = f"{found.tokens_shared:,} with shared prefixes, {ratio:.1f} times fewer{counted}"
    print(f"  {found.tokens_naive:,} tokens one by one, {shared}")
    if cost is not None:
        speed = f"{cost.tokens_per_second:,.0f} tokens/s each, measured just now on {device}"
        print(f"  about {cost.minutes:,.1f} minutes with {workers} workers at {speed}")
        if cost.method == "direct":
            print(f"  nothing is shared: each context is computed on its own, because {cost.why}")


def _show_featurize(found: FeaturizePlan, cost: Price | None, workers: int) -> None:
    if not found.states:
        print("featurize: nothing to do")
        return
    print(f"featurize: {found.states:,} states, {found.with_labels:,} of them while they are labelled")
    if found.trajectories:
        counted = "" if found.sampled == found.trajectories else f" (estimated from {found.sampled})"
        minutes = ""
        if cost is not None:
            minutes = f", about {found.tokens / cost.tokens_per_second / workers / 60:,.1f} minutes"
        print(f"  the others: {found.tokens:,} tokens of {found.trajectories:,} trajectories{counted}{minutes}")
