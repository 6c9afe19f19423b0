"""The label stage in several processes: one single-threaded process per core measures faster than threads.

The processes share nothing but the catalog. One that dies is no loss: the others take its trajectory over.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, NamedTuple, cast

from drsr.errors import DrsrError
from drsr.offline.labels import Selection


class LabelOrder(NamedTuple):
    """What a worker process is told: plain values only, so that they can be sent to it."""

    catalog_url: str
    artifact_root: str
    backbone: str
    device: str
    dtype: str
    labeler: str
    part: Selection
    limit: int | None


class WorkerFailed(DrsrError):
    """A worker process ended with an error."""


def work(order: LabelOrder, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure in this process, on one thread if on the CPU, until nothing is left."""
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.label import label, label_run
    from drsr.offline.target_nll import TargetNll
    from drsr.view import caps_for

    torch.set_num_threads(1)
    backbone = load_backbone(order.backbone, device=order.device, dtype=order.dtype)
    scorer = TargetNll(backbone)
    run = label_run(
        scorer, order.dtype, caps_for(backbone.window), labeler=order.labeler, part=order.part, limit=order.limit
    )
    with open_catalog(order.catalog_url) as catalog:
        summary = label(
            catalog,
            ArtifactStore(order.artifact_root),
            scorer,
            run,
            progress=lambda so_far: report(so_far.to_json()),
        )
    return summary.to_json() | {"method": scorer.method.value, "why": scorer.why}


def work_together(order: LabelOrder, workers: int, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The same in several processes; `report` is called with what all of them did so far."""
    if workers == 1:
        return work(order, report)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["drsr.offline.label_workers", "drsr.offline.label", "transformers"])
    share = None if order.limit is None else -(-order.limit // workers)
    started = [_start(context, order._replace(limit=share)) for _ in range(workers)]
    latest: dict[int, dict[str, Any]] = {}
    failures: list[str] = []
    waiting: dict[Any, int] = {pipe: number for number, (_, pipe) in enumerate(started)}
    while waiting:
        for pipe in wait(list(waiting)):
            try:
                kind, value = cast(Pipe, pipe).recv()
            except EOFError:  # the worker has ended, one way or the other
                del waiting[pipe]
                continue
            if kind == "failed":
                failures.append(value)
            else:
                latest[waiting[pipe]] = value
                report(_added(latest))
    for process, _ in started:
        process.join()
    died = [process.exitcode for process, _ in started if process.exitcode]
    if failures:
        raise WorkerFailed(
            failures[0], where=f"{len(failures)} of {workers} workers", hint="the others went on; run again"
        )
    if len(died) == workers:
        raise WorkerFailed(f"all workers were killed (exit codes {died})", hint="nothing is lost; run again")
    return _added(latest)


def _start(context: ForkServerContext, order: LabelOrder) -> tuple[ForkServerProcess, Pipe]:
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(order, sending))
    process.start()
    sending.close()
    return process, receiving


def _process(order: LabelOrder, pipe: Pipe) -> None:
    try:
        pipe.send(("done", work(order, lambda so_far: pipe.send(("so far", so_far)))))
    except DrsrError as error:
        pipe.send(("failed", str(error)))
    finally:
        pipe.close()


def _added(latest: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The workers' summaries as one: numbers added up, seconds the longest, words the last one's."""
    total: dict[str, Any] = {}
    for summary in latest.values():
        for key, value in summary.items():
            if isinstance(value, dict):
                there = total.setdefault(key, {})
                for reason, count in value.items():
                    there[reason] = there.get(reason, 0) + count
            elif isinstance(value, str):
                total[key] = value
            else:
                total[key] = max(total.get(key, 0), value) if key == "seconds" else total.get(key, 0) + value
    return total
