"""A process of the featurize stage: it loads the language model once and computes until nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.features.light import LIGHT_VIEW
from drsr.offline.freeze.selection import Selection
from drsr.offline.store.worker_processes import Report
from drsr.request.view import Caps, caps_for
from drsr.settings import Settings

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.offline.featurize.light_reader import LightReader


class FeaturizeOrder(NamedTuple):
    """The order to a worker process: plain values only, so that they can be sent to it."""

    settings: Settings
    view: str
    part: Selection
    limit: int | None


def work(order: FeaturizeOrder, report: Report) -> dict[str, Any]:
    """Compute in this process, on one thread if on the CPU, until nothing is left."""
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.stage import featurize_run, materialize
    from drsr.offline.store.artifacts import ArtifactStore

    settings = order.settings
    backbone, caps = _light_reader(settings) if order.view == LIGHT_VIEW else _language_model(settings)
    run = featurize_run(backbone, settings.dtype, caps, view=order.view, part=order.part, limit=order.limit)
    with open_catalog(settings.catalog_url) as catalog:
        summary = materialize(
            catalog,
            ArtifactStore(settings.artifact_root),
            backbone,
            run,
            progress=lambda so_far: report(so_far.to_json()),
        )
    return summary.to_json()


def _light_reader(settings: Settings) -> tuple[LightReader, Caps]:
    """No language model is loaded, only the tokenizer of the one that labels."""
    from drsr.offline.featurize.light_reader import load_light_reader

    reader = load_light_reader(settings.backbone)
    return reader, caps_for(reader.window)


def _language_model(settings: Settings) -> tuple[FrozenLM, Caps]:
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.features.geometry import no_layers

    torch.set_num_threads(1)
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    if not isinstance(backbone, FrozenLM):
        raise no_layers(backbone.name)
    return backbone, caps_for(backbone.window)
