"""The flows `featurize` and `featurize-shard`: the features of every frozen state that has none yet in a view."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from pydantic import Field

from drsr.flows.parameters import EVERYTHING, HERE, Count, FanOut, Name, Part
from drsr.flows.sharding.fan_out import spread, work_alone
from drsr.flows.stage_tasks import TIMEOUTS, run_name
from drsr.offline.freeze.selection import Shard


@flow(name="featurize-shard", timeout_seconds=TIMEOUTS["featurize"])
def featurize_shard(
    shard: Annotated[int, Field(ge=0)], of: Count, part: Part = EVERYTHING, view: Name = "default"
) -> dict[str, Any]:
    """Work on one shard of the stage, wherever a worker takes it. Started by `featurize`."""
    return work_alone("featurize", part, Shard(shard, of), view)


@flow(name="featurize", flow_run_name=run_name, timeout_seconds=TIMEOUTS["featurize"])
def featurize(part: Part = EVERYTHING, fan_out: FanOut = HERE, view: Name = "default") -> dict[str, Any]:
    """Compute what is missing; `label` fills the same view where it can."""
    return spread("featurize", part, fan_out, {"view": view})
