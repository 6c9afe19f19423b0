"""`drsr plan`: what a run would do and cost, before it does it."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command, require_positive
from drsr.offline.commands.stages.measure import add_part_options, chosen_part

if TYPE_CHECKING:
    from drsr.offline.cost import Price
    from drsr.offline.label.configured import Configured
    from drsr.offline.plan import FeaturizePlan, FreezePlan, LabelPlan
    from drsr.offline.store.place import Place


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plan",
        run,
        help="estimate what a run would do and cost: states, sets, tokens, hours, money",
        description="Counts what is missing per stage and why, the tokens with and without shared prefixes, and the "
        "hours that it takes. These come from a short measurement at three context lengths, compared with what the "
        "labeler's last runs took on such a device. Changes nothing. Example: DRSR_DEVICE=cuda drsr plan --workers 8 "
        "--devices 8 --price-per-hour 2.50",
    )
    add_part_options(parser)
    parser.add_argument(
        "--workers", type=int, metavar="N", help="default: one per core, or one per GPU of this machine"
    )
    parser.add_argument(
        "--devices",
        type=int,
        metavar="N",
        help="cores or GPUs that the workers will have (default: those of this machine); at most one per worker is "
        "used",
    )
    parser.add_argument(
        "--price-per-hour",
        type=float,
        metavar="MONEY",
        help="what an hour costs: of one GPU, or of the machine if the device is the CPU",
    )
    parser.add_argument(
        "--labeler",
        default="default",
        metavar="NAME",
        help="name of the labeler, the way of measuring (default: default)",
    )
    parser.add_argument("--view", default="default", metavar="NAME", help="name of the feature view")
    parser.add_argument("--no-price", action="store_true", help="do not load the language model to measure its speed")


def run(options: argparse.Namespace) -> int:
    from drsr.errors import FeatureError, FeatureViewError, SettingsError
    from drsr.offline.label.configured import configured
    from drsr.offline.plan import make_plan, plan_featurize
    from drsr.offline.store.place import opened

    require_positive(options, "workers", "devices")
    rate = options.price_per_hour
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise SettingsError(f"--price-per-hour must be a number above 0, not {rate}")
    if rate is not None and options.no_price:
        raise SettingsError("--price-per-hour needs the hours, and --no-price leaves them out: one of them")
    features, refused, cost = None, None, None
    with opened() as place:
        part, found = chosen_part(options, place.catalog), configured(place.settings)
        with place.catalog.reading() as connection:
            labeler_id = found.find_labeler(connection, options.labeler)  # refuses what drsr label would refuse
        counted = place.catalog, place.artifacts, found.tokenizer, found.caps
        plan = make_plan(*counted, labeler_id, part)
        try:
            features = plan_featurize(*counted, options.view, found.view(options.view), labeler_id, part)
            features = features.with_unfrozen(plan.label.not_frozen)
        except (FeatureError, FeatureViewError) as error:
            refused = error.what
        if (plan.label.states or (features and features.tokens)) and not options.no_price:
            cost = _measured(place, found, options, labeler_id, plan.label, features)
    device = place.settings.device
    if options.json:
        shown = {
            "freeze": plan.freeze._asdict(),
            "label": plan.label._asdict(),
            "featurize": features._asdict() if features else {"refused": refused},
            "workers": _workers(options, device),
        }
        money = {} if cost is None or rate is None else {"money": _money(cost, rate, device)}
        print(json.dumps(shown | ({"price": cost.to_json() | money} if cost else {})))
        return 0
    _show_freeze(plan.freeze)
    _show_label(plan.label, cost, _workers(options, device))
    if features is None:
        print(f"featurize: refused, {refused}")
    else:
        _show_featurize(features, cost)
    if cost is not None:
        _show_cost(cost, device, rate)
    return 0


def _measured(
    place: Place,
    found: Configured,
    options: argparse.Namespace,
    labeler_id: int | None,
    label: LabelPlan,
    features: FeaturizePlan | None,
) -> Price:
    """Load the language model and measure what the plan costs with it."""
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.offline.cost import longest_of, measure_rates, past_runs, price
    from drsr.offline.label.target_nll import Method, TargetNll
    from drsr.offline.plan import stretches_of
    from drsr.offline.store.devices import device_name, places

    settings = place.settings
    torch.set_num_threads(1)
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    scorer = TargetNll(backbone, memory_mb=int(settings.label_memory_mb))
    needed = features.stretches if features else ()
    rates = measure_rates(scorer, longest_of((*label.naive, *needed)))
    workers = _workers(options, settings.device)
    with place.catalog.reading() as connection:
        device = device_name(settings.device)
        past = past_runs(connection, labeler_id, options.labeler, device, scorer.method, workers)
    shared = scorer.method is Method.SHARED_PREFIX
    before = stretches_of(place.artifacts, past.blobs if past else (), found.tokenizer, found.caps, shared=shared)
    parallel = min(workers, options.devices or places(settings.device))
    return price(rates, scorer, label, needed, parallel, past, before)


def _workers(options: argparse.Namespace, device: str) -> int:
    from drsr.offline.store.devices import places

    chosen: int = options.workers or options.devices or places(device)
    return chosen


def _money(cost: Price, per_hour: float, device: str) -> float:
    """A GPU is paid for alone, the cores of a machine only together."""
    hours = cost.device_hours / cost.parallel if device == "cpu" else cost.device_hours
    return per_hour * hours


def _show_freeze(found: FreezePlan) -> None:
    if not found.trajectories:
        print("freeze: nothing to do")
        return
    print(f"freeze: {found.trajectories:,} trajectories wait")
    for reason, count in found.why.items():
        print(f"  {count:,} trajectories: {reason}")


def _show_label(found: LabelPlan, cost: Price | None, workers: int) -> None:
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
        at_once = "" if cost.parallel == workers else f", {cost.parallel:,} of them at a time"
        print(f"  about {cost.label_minutes:,.1f} minutes with {workers:,} workers{at_once}")
        if cost.method == "direct":
            print(f"  nothing is shared: each context is computed on its own, because {cost.why}")


def _show_featurize(found: FeaturizePlan, cost: Price | None) -> None:
    if not found.states:
        print("featurize: nothing to do")
        return
    print(f"featurize: {found.states:,} states, {found.with_labels:,} of them while they are labelled")
    if found.trajectories:
        counted = "" if found.sampled == found.trajectories else f" (estimated from {found.sampled})"
        minutes = "" if cost is None else f", about {cost.featurize_minutes:,.1f} minutes"
        print(f"  the others: {found.tokens:,} tokens of {found.trajectories:,} trajectories{counted}{minutes}")


def _show_cost(cost: Price, device: str, per_hour: float | None) -> None:
    unit = "core-hours" if device == "cpu" else "GPU-hours"
    money = "" if per_hour is None else f", {_money(cost, per_hour, device):,.2f} at {per_hour:,.2f} an hour"
    print(f"cost: {cost.device_hours:,.2f} {unit}{money}")
    speeds = ", ".join(f"{rate.tokens_per_second:,.0f} at {rate.length:,}" for rate in cost.rates)
    print(f"  tokens per second of one worker by context length, measured just now on {device}: {speeds}")
    if cost.past_runs:
        runs = f"{cost.past_runs:,} with {cost.past_workers:,} at work"
        print(
            f"  this labeler's earlier runs on such a device ({runs}) took "
            f"{cost.past_ratio:.2f} times what that says, and so will this one"
        )
    else:
        print("  no earlier run of this labeler on such a device is recorded: by this measurement alone")
