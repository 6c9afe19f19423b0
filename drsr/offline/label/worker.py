"""A process of the label stage: it loads the language model once and measures until nothing is left."""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.offline.freeze.selection import Selection
from drsr.offline.store.worker_processes import Report
from drsr.settings import Settings


class LabelOrder(NamedTuple):
    """The order to a worker process: plain values only, so that they can be sent to it."""

    settings: Settings
    labeler: str
    part: Selection
    limit: int | None
    views: tuple[str, ...] = ("default", "window")
    """The feature views that are filled in the same walk."""


def work(order: LabelOrder, report: Report) -> dict[str, Any]:
    """Measure in this process, on one thread if on the CPU, until nothing is left."""
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.label.stage import label, label_run
    from drsr.offline.label.target_nll import TargetNll
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.request.view import caps_for

    torch.set_num_threads(1)
    settings = order.settings
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    scorer = TargetNll(backbone, memory_mb=int(settings.label_memory_mb))
    run = label_run(
        scorer,
        settings.dtype,
        caps_for(backbone.window),
        labeler=order.labeler,
        views=order.views,
        part=order.part,
        limit=order.limit,
    )
    with open_catalog(settings.catalog_url) as catalog:
        summary = label(
            catalog,
            ArtifactStore(settings.artifact_root),
            scorer,
            run,
            progress=lambda so_far: report(so_far.to_json()),
        )
    return summary.to_json() | {"method": scorer.method.value, "why": scorer.why}
