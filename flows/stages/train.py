"""The flow `train`: fit the scorer on the present labels and features, unless that was already done."""

from __future__ import annotations

from typing import Any

from prefect import flow, task

from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Count, Name
from drsr.flows.places import opened
from drsr.flows.stage_tasks import TIMEOUTS, run_name


@task(name="train-scorer", **RETRIES)
def train_scorer(view: str, labeler: str, workers: int) -> dict[str, Any]:
    """Fit the full scorer; a run that was killed goes on from its checkpoint on this machine."""
    from drsr.offline.params import load_params
    from drsr.offline.train.stage import read_inputs, train
    from drsr.settings import cache_folder

    with opened() as place:
        params = load_params().train
        inputs = read_inputs(place.catalog, place.artifacts, view, labeler, "train", params.source)
        (trained,) = train(
            place.catalog,
            place.artifacts,
            inputs,
            params,
            checkpoints=cache_folder() / "training",
            workers=workers,
        )
    return trained.record.to_json() | {"is_new": trained.is_new}


@flow(name="train", flow_run_name=run_name, timeout_seconds=TIMEOUTS["train"])
def train(view: Name = "default", labeler: Name = "default", workers: Count = 2) -> dict[str, Any]:
    """Fit the scorer. `workers` are threads, and change no bit of the result."""
    return train_scorer(view, labeler, workers)
