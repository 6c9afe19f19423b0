"""The flow `freeze`: choose decision states and freeze their candidates, before any label exists."""

from __future__ import annotations

from typing import Any

from prefect import flow, task

from drsr.backbone.catalogue import load_tokenizer
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Name
from drsr.flows.places import opened
from drsr.flows.stage_tasks import TIMEOUTS, run_name
from drsr.offline.freeze.stage import freeze as freeze_states
from drsr.request.view import caps_for


@task(name="freeze-trajectories", **RETRIES)
def freeze_trajectories(source: str | None) -> dict[str, Any]:
    """Freeze what is not frozen yet."""
    with opened() as place:
        tokenizer, window = load_tokenizer(place.settings.backbone)
        return freeze_states(place.catalog, place.artifacts, tokenizer, caps_for(window), source=source)._asdict()


@flow(name="freeze", flow_run_name=run_name, timeout_seconds=TIMEOUTS["freeze"])
def freeze(source: Name | None = None) -> dict[str, Any]:
    """Freeze every trajectory (of one source, if given) that is not frozen yet."""
    return freeze_trajectories(source)
