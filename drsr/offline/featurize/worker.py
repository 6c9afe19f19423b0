"""A process of the featurize stage: it loads the language model once and computes until nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.features.light import LIGHT_VIEW
from drsr.features.view_layouts import Kind, kind_of
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
    if kind_of(order.view) is Kind.WIDE and (joined := _joined(order)) is not None:
        return joined
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


def _joined(order: FeaturizeOrder) -> dict[str, Any] | None:
    """Join what is stored in parts; gives the summary if nothing is left for the language model."""
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.joining import join_stored
    from drsr.offline.featurize.stage import (
        FeaturizeSummary,
        count_waiting,
        identity_without_weights,
        layout_without_weights,
    )
    from drsr.offline.featurize.views import register_view
    from drsr.offline.store.artifacts import ArtifactStore

    settings = order.settings
    tokenizer, window = load_tokenizer(settings.backbone)
    identity = identity_without_weights(settings.backbone, settings.dtype, caps_for(window), tokenizer, order.view)
    columns = layout_without_weights(settings.backbone, order.view).columns
    artifacts = ArtifactStore(settings.artifact_root)
    with open_catalog(settings.catalog_url) as catalog:
        with catalog.writing() as connection:
            view = register_view(connection, order.view, identity, columns)
        summary = FeaturizeSummary()
        summary.count(join_stored(catalog, artifacts, view, order.part))
        left = count_waiting(catalog, artifacts, order.view, identity, order.part)
    return None if left else summary.to_json()


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
