"""The flows `featurize` and `featurize-shard`: the features of every frozen state that has none yet in a view."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow, task
from prefect.runtime import flow_run
from pydantic import Field

from drsr.backbone.catalogue import load_tokenizer
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import EVERYTHING, HERE, Count, FanOut, Name, Part
from drsr.flows.places import opened, patiently_opened
from drsr.flows.sharding.fan_out import spread
from drsr.flows.sharding.shard_runs import shown_alive
from drsr.flows.stage_tasks import GPU, TIMEOUTS
from drsr.offline.featurize.stage import count_waiting, identity_without_weights
from drsr.offline.featurize.worker import FeaturizeOrder, work
from drsr.offline.freeze.selection import Shard, require_frozen
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.store.worker_processes import work_together
from drsr.request.view import caps_for


@task(name="count-unfeaturized", **RETRIES)
def count_unfeaturized(part: Part, view: str) -> int:
    """States that wait, also those whose file is gone."""
    with opened() as place:
        settings = place.settings
        tokenizer, window = load_tokenizer(settings.backbone)
        caps = caps_for(window)
        with place.catalog.reading() as connection:
            require_frozen(connection, freezing_rule(tokenizer, caps), part.selection())
        identity = identity_without_weights(settings.backbone, settings.dtype, caps, tokenizer, view)
        return count_waiting(place.catalog, place.artifacts, view, identity, part.selection())


@task(name="featurize-states", tags=[GPU], **RETRIES)
def featurize_states(part: Part, view: str, processes: int) -> dict[str, Any]:
    """Compute in processes of this machine."""
    with opened() as place:
        order = FeaturizeOrder(place.settings, view, part.selection(), None)
    return work_together(work, [order] * processes, lambda so_far: None)


@task(name="featurize-shard", tags=[GPU], **RETRIES)
def featurize_one(part: Part, shard: Shard, view: str) -> dict[str, Any]:
    """Compute one shard in this process."""
    with opened() as place:
        order = FeaturizeOrder(place.settings, view, part.selection(shard), None)
    return work(order, lambda so_far: None)


@flow(name="featurize-shard", timeout_seconds=TIMEOUTS["featurize"])
def featurize_shard(
    shard: Annotated[int, Field(ge=0)], of: Count, part: Part = EVERYTHING, view: Name = "default"
) -> dict[str, Any]:
    """One shard of the stage, wherever a worker takes it. Started by `featurize`."""
    with patiently_opened() as place, shown_alive(place.catalog, flow_run.id):
        return featurize_one(part, Shard(shard, of), view)


@flow(name="featurize", timeout_seconds=TIMEOUTS["featurize"])
def featurize(part: Part = EVERYTHING, fan_out: FanOut = HERE, view: Name = "default") -> dict[str, Any]:
    """Compute what is missing; `label` fills the same view where it can."""
    before = count_unfeaturized(part, view)
    if before == 0:
        return {"states": 0}
    summary = spread(
        "featurize",
        before,
        part,
        fan_out,
        {"view": view},
        here=lambda: featurize_states(part, view, fan_out.processes),
        of_shard=featurize_one,
    )
    return {"states": before - count_unfeaturized(part, view)} | summary
