"""What one process of the featurize stage does: it loads the language model once and computes until nothing is left."""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.offline.labels import Selection
from drsr.offline.worker_processes import Report
from drsr.settings import Settings


class FeaturizeOrder(NamedTuple):
    """What a worker process is told: plain values only, so that they can be sent to it."""

    catalog_url: str
    artifact_root: str
    backbone: str
    device: str
    dtype: str
    view: str
    part: Selection
    limit: int | None

    @classmethod
    def of(cls, settings: Settings, view: str, part: Selection, limit: int | None) -> FeaturizeOrder:
        """What a worker with these settings is to do."""
        return cls(
            settings.catalog_url,
            settings.artifact_root,
            settings.backbone,
            settings.device,
            settings.dtype,
            view,
            part,
            limit,
        )


def work(order: FeaturizeOrder, report: Report) -> dict[str, Any]:
    """Compute in this process, on one thread if on the CPU, until nothing is left."""
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.backbone.frozen_lm import FrozenLM
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize import featurize_run, materialize
    from drsr.view import caps_for

    torch.set_num_threads(1)
    backbone = load_backbone(order.backbone, device=order.device, dtype=order.dtype)
    caps = caps_for(backbone.window)
    run = featurize_run(backbone, order.dtype, caps, view=order.view, part=order.part, limit=order.limit)
    assert isinstance(backbone, FrozenLM)  # others have no layers, and were refused by name
    with open_catalog(order.catalog_url) as catalog:
        summary = materialize(
            catalog,
            ArtifactStore(order.artifact_root),
            backbone,
            run,
            progress=lambda so_far: report(so_far.to_json()),
        )
    return summary.to_json()
