"""The flows `label` and `label-shard`: measure exact deletion harm for every state that has none yet."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow, task
from prefect.runtime import flow_run
from pydantic import Field

from drsr.backbone.catalogue import load_tokenizer
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import EVERYTHING, HERE, Count, FanOut, Name, Part
from drsr.flows.places import Place, opened, patiently_opened
from drsr.flows.sharding.fan_out import spread
from drsr.flows.sharding.shard_runs import shown_alive
from drsr.flows.stage_tasks import GPU, TIMEOUTS
from drsr.offline.freeze.selection import Selection, Shard, require_frozen
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.label.records import configured_identity, find_labeler
from drsr.offline.label.stage import count_pending
from drsr.offline.label.worker import LabelOrder, work
from drsr.offline.store.worker_processes import share, work_together
from drsr.request.view import caps_for


@task(name="count-unlabelled", **RETRIES)
def count_unlabelled(part: Part, labeler: str) -> int:
    """States that wait. A labeler of this name that measures otherwise is refused."""
    with opened() as place:
        return unlabelled(place, part.selection(), labeler)


@task(name="label-states", tags=[GPU], **RETRIES)
def label_states(part: Part, labeler: str, processes: int, limit: int | None) -> dict[str, Any]:
    """Measure in processes of this machine."""
    with opened() as place:
        order = LabelOrder(place.settings, labeler, part.selection(), share(limit, processes))
    return work_together(work, [order] * processes, lambda so_far: None)


@task(name="label-shard", tags=[GPU], **RETRIES)
def label_one(part: Part, shard: Shard, labeler: str) -> dict[str, Any]:
    """Measure one shard in this process."""
    with opened() as place:
        order = LabelOrder(place.settings, labeler, part.selection(shard), None)
    return work(order, lambda so_far: None)


@flow(name="label-shard", timeout_seconds=TIMEOUTS["label"])
def label_shard(
    shard: Annotated[int, Field(ge=0)], of: Count, part: Part = EVERYTHING, labeler: Name = "default"
) -> dict[str, Any]:
    """One shard of the stage, wherever a worker takes it. Started by `label`."""
    with patiently_opened() as place, shown_alive(place.catalog, flow_run.id):
        return label_one(part, Shard(shard, of), labeler)


@flow(name="label", timeout_seconds=TIMEOUTS["label"])
def label(
    part: Part = EVERYTHING, fan_out: FanOut = HERE, labeler: Name = "default", limit: Count | None = None
) -> dict[str, Any]:
    """Measure what is missing. `limit` stops after about so many states, and is for the processes of one machine."""
    if limit is not None and fan_out.over != "processes":
        raise ValueError("limit goes with fan_out.over = processes only")
    before = count_unlabelled(part, labeler)
    if before == 0:
        return {"states": 0}
    summary = spread(
        "label",
        before,
        part,
        fan_out,
        {"labeler": labeler},
        here=lambda: label_states(part, labeler, fan_out.processes, limit),
        of_shard=label_one,
    )
    return {"states": before - count_unlabelled(part, labeler)} | summary


def unlabelled(place: Place, part: Selection, labeler: str) -> int:
    """States without a label by this labeler. InputError where nothing is frozen yet."""
    tokenizer, window = load_tokenizer(place.settings.backbone)
    caps = caps_for(window)
    identity = configured_identity(place.settings.backbone, place.settings.dtype, caps)
    with place.catalog.reading() as connection:
        freezing = freezing_rule(tokenizer, caps)
        require_frozen(connection, freezing, part)
        return count_pending(connection, freezing, find_labeler(connection, labeler, identity), part)
