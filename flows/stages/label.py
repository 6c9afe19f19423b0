"""The flows `label` and `label-shard`: measure exact deletion harm for every state that has none yet."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from pydantic import Field

from drsr.flows.parameters import EVERYTHING, HERE, Count, FanOut, Name, Part
from drsr.flows.sharding.fan_out import spread, work_alone
from drsr.flows.stage_tasks import TIMEOUTS, run_name
from drsr.offline.freeze.selection import Shard


@flow(name="label-shard", timeout_seconds=TIMEOUTS["label"])
def label_shard(
    shard: Annotated[int, Field(ge=0)], of: Count, part: Part = EVERYTHING, labeler: Name = "default"
) -> dict[str, Any]:
    """Work on one shard of the stage, wherever a worker takes it. Started by `label`."""
    return work_alone("label", part, Shard(shard, of), labeler)


@flow(name="label", flow_run_name=run_name, timeout_seconds=TIMEOUTS["label"])
def label(
    part: Part = EVERYTHING, fan_out: FanOut = HERE, labeler: Name = "default", limit: Count | None = None
) -> dict[str, Any]:
    """Measure what is missing. `limit` stops after about so many states, and is for the processes of one machine."""
    if limit is not None and fan_out.over != "processes":
        raise ValueError("limit goes with fan_out.over = processes only")
    return spread("label", part, fan_out, {"labeler": labeler}, limit)
