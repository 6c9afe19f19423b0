"""Label and featurize spread over processes of this machine, the workers of a Prefect pool, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow, task
from prefect.futures import wait
from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner

from drsr.errors import MissingExtra
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import FanOut, Part
from drsr.flows.places import opened, patiently_opened
from drsr.flows.sharding.shard_runs import run_shards, shown_alive
from drsr.flows.sharding.shards import shards_for
from drsr.flows.stage_tasks import GPU
from drsr.offline.freeze.selection import Shard, require_frozen
from drsr.offline.label.configured import configured, count_left
from drsr.offline.label.worker import WorkOrder, placed, work
from drsr.offline.store.worker_processes import share, work_together
from drsr.settings import load_settings

Summary = dict[str, Any]
_MADE = {"label": "labelled", "featurize": "featurized"}


@task(**RETRIES)
def count_waiting(stage: str, part: Part, name: str) -> int:
    """Count states that wait for the labeler or feature view of this name. InputError where nothing is frozen yet."""
    with opened() as place:
        found = configured(place.settings)
        with place.catalog.reading() as connection:
            require_frozen(connection, found.freezing, part.selection())
        return count_left(place, found, stage, name, part.selection())


@task(tags=[GPU], **RETRIES)
def work_here(stage: str, part: Part, name: str, processes: int, limit: int | None) -> Summary:
    """Work in processes of this machine."""
    order = WorkOrder(stage, load_settings(), name, part.selection(), share(limit, processes), workers=processes)
    return work_together(work, placed(order), lambda so_far: None)


@task(tags=[GPU], **RETRIES)
def work_on_shard(stage: str, part: Part, shard: Shard, name: str) -> Summary:
    """Work on one shard in this process."""
    return work(WorkOrder(stage, load_settings(), name, part.selection(shard), None), lambda so_far: None)


def work_alone(stage: str, part: Part, shard: Shard, name: str) -> Summary:
    """Work on one shard in a separate flow run, which shows in the catalog that it is alive."""
    with patiently_opened() as place, shown_alive(place.catalog, flow_run.id):
        return work_on_shard.with_options(name=f"{stage}-shard")(stage, part, shard, name)


def spread(stage: str, part: Part, choice: FanOut, named: Mapping[str, str], limit: int | None = None) -> Summary:
    """Work on all that waits in a stage, for the one labeler or feature view that is `named`.

    On a work pool the deployment `<stage>-shard/<stage>-shard` does it, which is told the same.
    """
    (name,) = named.values()
    count = count_waiting.with_options(name=f"count-un{_MADE[stage]}")
    waiting = count(stage, part, name)
    if waiting == 0:
        return {"states": 0}
    if choice.over == "processes":
        summary = work_here.with_options(name=f"{stage}-states")(stage, part, name, choice.processes, limit)
    else:
        shards = shards_for(waiting, choice.states_per_shard, choice.most_shards)
        over = _over_work_pool if choice.over == "work-pool" else _over_dask
        summary = {"shards": len(shards), **over(stage, part, shards, choice, named)}
    return {"states": waiting - count(stage, part, name)} | summary


def _over_work_pool(
    stage: str, part: Part, shards: Sequence[Shard], choice: FanOut, named: Mapping[str, str]
) -> Summary:
    told = {"part": part.model_dump(mode="json"), **named}
    orders = [
        (f"{stage} {shard.number + 1} of {shard.of}", {**told, "shard": shard.number, "of": shard.of})
        for shard in shards
    ]
    with patiently_opened() as place:
        return {"lost_workers": run_shards(place.catalog, f"{stage}-shard/{stage}-shard", orders, choice)}


def _over_dask(stage: str, part: Part, shards: Sequence[Shard], choice: FanOut, named: Mapping[str, str]) -> Summary:
    (name,) = named.values()
    work_one = work_on_shard.with_options(name=f"{stage}-shard")

    @flow(name=f"{stage}-shards", task_runner=_dask(choice))
    def all_shards() -> list[Summary]:
        futures = [work_one.submit(stage, part, shard, name) for shard in shards]
        wait(futures)  # all of them: what one did is recorded even if another fails
        return [future.result() for future in futures]

    return {"states": sum(summary["states"] for summary in all_shards())}


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
