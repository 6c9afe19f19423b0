"""What one process of the featurize stage does: it loads the language model once and computes until nothing is left."""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.offline.freeze.selection import Selection
from drsr.offline.store.worker_processes import Report
from drsr.settings import Settings


class FeaturizeOrder(NamedTuple):
    """What a worker process is told: plain values only, so that they can be sent to it."""

    settings: Settings
    view: str
    part: Selection
    limit: int | None


def work(order: FeaturizeOrder, report: Report) -> dict[str, Any]:
    """Compute in this process, on one thread if on the CPU, until nothing is left."""
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.stage import featurize_run, materialize
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.request.view import caps_for

    torch.set_num_threads(1)
    settings = order.settings
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    caps = caps_for(backbone.window)
    run = featurize_run(backbone, settings.dtype, caps, view=order.view, part=order.part, limit=order.limit)
    assert isinstance(backbone, FrozenLM)  # others have no layers, and were refused by name
    with open_catalog(settings.catalog_url) as catalog:
        summary = materialize(
            catalog,
            ArtifactStore(settings.artifact_root),
            backbone,
            run,
            progress=lambda so_far: report(so_far.to_json()),
        )
    return summary.to_json()
