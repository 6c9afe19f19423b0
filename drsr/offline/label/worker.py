"""A process of the label or the featurize stage: it loads the language model once and works until nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.errors import NotEnoughMemory
from drsr.features.light import LIGHT_VIEW
from drsr.features.view_layouts import Kind, kind_of
from drsr.offline.freeze.selection import Selection
from drsr.offline.store.devices import places
from drsr.offline.store.worker_processes import Report
from drsr.request.view import caps_for
from drsr.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.offline.featurize.light_reader import LightReader
    from drsr.offline.freeze.shared_work import WorkSummary
    from drsr.offline.label.target_nll import TargetNll
    from drsr.offline.store.place import Place
    from drsr.request.contracts import Backbone


class WorkOrder(NamedTuple):
    """The order to a worker process: plain values only, so that they can be sent to it."""

    stage: str
    """`label` or `featurize`."""
    settings: Settings
    name: str
    """Of the labeler, or of the feature view."""
    part: Selection
    limit: int | None
    views: tuple[str, ...] = ("default", "window")
    """The feature views that labelling fills in the same walk."""
    accept_noise: bool = False
    """Label although rounding is a large part of the tolerance."""
    workers: int = 1
    """The workers that are started together."""


def placed(order: WorkOrder) -> list[WorkOrder]:
    """Return an order for each of the processes of one host: on `cuda`, each gets a GPU in turn."""
    if order.settings.device != "cuda" or order.workers == 1:
        return [order] * order.workers
    gpus = places("cuda")
    devices = [f"cuda:{number % gpus}" for number in range(order.workers)]
    return [order._replace(settings=replace(order.settings, device=device)) for device in devices]


def placement_said(orders: Sequence[WorkOrder]) -> str | None:
    """Return in words where several processes compute; None where they share the processor."""
    devices = Counter(order.settings.device for order in orders)
    if len(orders) == 1 or not all(device.startswith("cuda:") for device in devices):
        return None
    shared = max(devices.values())
    crowded = "" if shared == 1 else f"; up to {shared} share one, and each holds the model: fewer --workers are faster"
    return f"{len(orders)} processes on {', '.join(devices)}{crowded}"


def work(order: WorkOrder, report: Report) -> dict[str, Any]:
    """Work in this process, on one thread if on the CPU, until nothing is left."""
    from drsr.offline.store.place import opened

    with opened(order.settings) as place:
        return (_label if order.stage == "label" else _featurize)(order, place, lambda done: report(done.to_json()))


def _label(order: WorkOrder, place: Place, progress: Callable[[WorkSummary], None]) -> dict[str, Any]:
    from drsr.offline.label.noise.settling import settled
    from drsr.offline.label.stage import label, label_run
    from drsr.offline.label.target_nll import TargetNll

    backbone, dtype = _language_model(order.settings), order.settings.dtype
    memory_mb = int(order.settings.label_memory_mb)
    scorer = TargetNll(backbone, memory_mb=memory_mb)
    caps = caps_for(backbone.window)
    run = label_run(scorer, dtype, caps, part=order.part, limit=order.limit, labeler=order.name, views=order.views)
    run = run._replace(workers=order.workers)
    exact = partial(_exact_twin, order.settings, memory_mb)
    run = settled(place.catalog, place.artifacts, scorer, run, exact, accept_noise=order.accept_noise)
    summary = label(place.catalog, place.artifacts, scorer, run, progress=progress)
    return summary.to_json() | {"method": scorer.method.value, "why": scorer.why}


def _exact_twin(settings: Settings, memory_mb: int) -> TargetNll:
    """The same language model in float32, for a few states: beside the other one, or on the CPU if it does not fit."""
    from drsr.offline.label.target_nll import EXACT, TargetNll

    try:
        backbone = _language_model(replace(settings, dtype=EXACT))
    except NotEnoughMemory:
        backbone = _language_model(replace(settings, dtype=EXACT, device="cpu"))
    return TargetNll(backbone, memory_mb=memory_mb)


def _featurize(order: WorkOrder, place: Place, progress: Callable[[WorkSummary], None]) -> dict[str, Any]:
    from drsr.offline.featurize.stage import featurize_run, materialize

    if kind_of(order.name) is Kind.WIDE and (joined := _joined(order, place)) is not None:
        return joined
    backbone = _reader(order)
    caps = caps_for(backbone.window)
    run = featurize_run(backbone, order.settings.dtype, caps, view=order.name, part=order.part, limit=order.limit)
    run = run._replace(memory_mb=int(order.settings.label_memory_mb))
    return materialize(place.catalog, place.artifacts, backbone, run, progress=progress).to_json()


def _joined(order: WorkOrder, place: Place) -> dict[str, Any] | None:
    """Join what is stored in parts; gives the summary if nothing is left for the language model."""
    from drsr.offline.featurize.joining import join_stored
    from drsr.offline.featurize.stage import FeaturizeSummary
    from drsr.offline.featurize.views import register_view
    from drsr.offline.label.configured import configured, count_left

    found, summary = configured(order.settings), FeaturizeSummary()
    with place.catalog.writing() as connection:
        view = register_view(connection, order.name, found.view(order.name), found.columns(order.name))
    summary.count(join_stored(place.catalog, place.artifacts, view, order.part))
    left = count_left(place, found, "featurize", order.name, order.part)
    return None if left else summary.to_json()


def _reader(order: WorkOrder) -> FrozenLM | LightReader:
    """Load what reads states: for light features only the labelling language model's tokenizer."""
    if order.name == LIGHT_VIEW:
        from drsr.offline.featurize.light_reader import load_light_reader

        return load_light_reader(order.settings.backbone)
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.features.geometry import no_layers

    backbone = _language_model(order.settings)
    if not isinstance(backbone, FrozenLM):
        raise no_layers(backbone.name)
    return backbone


def _language_model(settings: Settings) -> Backbone:
    import torch

    from drsr.backbone.catalogue import load_backbone

    torch.set_num_threads(1)
    return load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
