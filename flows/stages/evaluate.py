"""The flow `evaluate`: judge the scorer, and if asked its ablations, on the test split. Nothing is chosen by it."""

from __future__ import annotations

from typing import Any

from prefect import flow, task

from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Count, Name
from drsr.flows.places import opened
from drsr.flows.stage_tasks import TIMEOUTS, run_name


@task(name="judge-on-test", **RETRIES)
def judge_on_test(view: str, labeler: str, ablations: bool, workers: int) -> dict[str, Any]:
    """Judge on the test split."""
    from drsr.offline.evaluate.stage import evaluate_ablations
    from drsr.offline.params import load_params
    from drsr.offline.train.ablations import FULL
    from drsr.settings import cache_folder

    with opened() as place:
        evaluated = evaluate_ablations(
            place.catalog,
            place.artifacts,
            load_params(),
            view=view,
            labeler=labeler,
            checkpoints=cache_folder() / "training",
            configurations=None if ablations else (FULL,),
            workers=workers,
        )
    study = evaluated.study
    full = study.scorers[0].metrics
    policy = next(row for row in study.policies if row.name == FULL.name)
    return {
        "split": study.split,
        "states": study.states,
        "sets": study.sets,
        "trajectories": study.trajectories,
        "scorers": len(study.scorers),
        "metrics": [metric.to_json() for metric in (*full, *policy.metrics)],
        "missing": [row._asdict() for row in study.missing],
    }


@flow(name="evaluate", flow_run_name=run_name, timeout_seconds=TIMEOUTS["evaluate"])
def evaluate(
    view: Name = "default", labeler: Name = "default", ablations: bool = False, workers: Count = 2
) -> dict[str, Any]:
    """Judge the full scorer and its policy; with `ablations` also everything that `drsr evaluate --ablations` does."""
    return judge_on_test(view, labeler, ablations, workers)
