"""One stage, spread: over processes of this machine, over the workers of a Prefect pool, or over a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prefect import Task, flow
from prefect.futures import wait
from prefect.task_runners import TaskRunner

from drsr.errors import MissingExtra
from drsr.flows.parameters import FanOut, Part
from drsr.flows.places import patiently_opened
from drsr.flows.sharding.shard_runs import run_shards
from drsr.flows.sharding.shards import shards_for
from drsr.offline.freeze.selection import Shard

Summary = dict[str, Any]


def spread(
    stage: str,
    waiting: int,
    part: Part,
    choice: FanOut,
    more: Mapping[str, Any],
    *,
    here: Callable[[], Summary],
    of_shard: Task[Any, Summary],
) -> Summary:
    """Work on all that waits in a stage.

    `here` does it on this machine. `of_shard` does one shard; it is called with the part, the shard and `more`. On a
    work pool the deployment `<stage>-shard/<stage>-shard` does, which is told the same.
    """
    if choice.over == "processes":
        return here()
    shards = shards_for(waiting, choice.states_per_shard, choice.most_shards)
    if choice.over == "work-pool":
        orders = [(_name(stage, shard), _parameters(part, shard, more)) for shard in shards]
        with patiently_opened() as place:
            lost = run_shards(place.catalog, f"{stage}-shard/{stage}-shard", orders, choice)
        return {"shards": len(shards), "lost_workers": lost}
    summaries = _over_dask(stage, of_shard, [(part, shard, dict(more)) for shard in shards], choice)
    return {"shards": len(shards), "states": sum(summary["states"] for summary in summaries)}


def _name(stage: str, shard: Shard) -> str:
    return f"{stage} {shard.number + 1} of {shard.of}"


def _parameters(part: Part, shard: Shard, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"part": part.model_dump(mode="json"), "shard": shard.number, "of": shard.of, **more}


def _over_dask(
    stage: str, of_shard: Task[Any, Summary], orders: Sequence[tuple[Part, Shard, dict[str, Any]]], choice: FanOut
) -> list[Summary]:
    @flow(name=f"{stage}-shards", task_runner=_dask(choice))
    def shards() -> list[Summary]:
        futures = [of_shard.submit(part, shard, **more) for part, shard, more in orders]
        wait(futures)  # all of them: what one did is recorded even if another fails
        return [future.result() for future in futures]

    found: list[Summary] = shards()
    return found


def _dask(choice: FanOut) -> TaskRunner[Any]:
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "prefect_dask", "dask", needed_for="fan-out over Dask") from None
    if choice.dask_scheduler is not None:
        runner: TaskRunner[Any] = DaskTaskRunner(address=choice.dask_scheduler)
    else:
        size = {"n_workers": choice.processes, "threads_per_worker": 1, "dashboard_address": None}
        runner = DaskTaskRunner(cluster_kwargs=size)
    return runner
