"""Many shards on a Dask cluster that loses a worker: `python -m benchmarks.dask_shards [--shards 200] [--workers 4]`.

A scheduler and workers of Dask run as processes of their own, as on machines of their own. The flow `label` spreads the
labels of made-up runs over them, a shard per task of Prefect; when half of the states are measured, one worker is
killed. The language model is tiny, so what is measured is what a shard costs around it. Then one process labels the
same runs in another catalog. Exit code 1 if a label differs in a bit, or if there is one too few or too many.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select

from drsr.flows.embedded_server import with_embedded_server

STEPS = 5
"""Tool calls of a run: each run gives one decision state."""
STATES_PER_SHARD = 2
START_SECONDS = 120.0


class Found(NamedTuple):
    shards: int
    workers: int
    states: int
    sets: int
    measured_before: int
    """States that were measured when a worker was killed."""
    different: int
    """Labels that are not those of one process, to the bit, or that only one of the two catalogs has."""
    seconds: float
    """Of the flow, by the clock."""
    workers_cpu: float
    """CPU seconds of the workers that were left."""
    alone_cpu: float
    """CPU seconds of the one process, with what starting takes."""

    @property
    def text(self) -> str:
        return (
            f"{self.shards} shards, {self.states} states, {self.sets} sets on {self.workers} workers of Dask; one was "
            f"killed when {self.measured_before} states were measured: {self.different} labels differ\n"
            f"  {self.seconds:.0f} s by the clock, {1e3 * self.seconds / self.shards:.0f} ms per shard; CPU of the "
            f"{self.workers - 1} workers that were left {self.workers_cpu:.0f} s, of one process for the same labels "
            f"{self.alone_cpu:.0f} s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), options.shards, options.workers)
    print(found.text)
    return 1 if found.different else 0


def measure(folder: Path, shards: int, workers: int) -> Found:
    from drsr.flows.parameters import FanOut, Part
    from drsr.flows.stages.label import label
    from drsr.offline.catalog.migrations import open_catalog
    from tests.flows.test_team import labels_of, labels_of_one_process
    from tests.tiny_models import build_tiny

    model = f"path:{build_tiny('llama', folder / 'model')}"
    runs = write_runs(folder / "runs", shards * STATES_PER_SHARD)
    url = prepare(folder, runs, model)
    with ExitStack() as stack:
        catalog = stack.enter_context(open_catalog(url))
        stack.enter_context(with_embedded_server(folder / "prefect"))
        address, started = stack.enter_context(cluster(folder, workers))
        killing = Killing(url, started[-1], shards * STATES_PER_SHARD // 2)
        began = time.monotonic()
        choice = FanOut(over="dask", dask_scheduler=address, states_per_shard=STATES_PER_SHARD, most_shards=shards)
        killing.start()
        done = label(Part(), choice)
        seconds = time.monotonic() - began
        killing.join()
        spent = sum(cpu_seconds(process.pid) for process in started[:-1])
        spread = labels_of(catalog)
    before = time.process_time()
    alone = labels_of_one_process(folder / "alone", runs, model)
    different = sum(spread.get(key) != alone.get(key) for key in spread.keys() | alone.keys())
    assert killing.measured is not None, "everything was measured before a worker could be killed"
    return Found(
        shards=done["shards"],
        workers=workers,
        states=done["states"],
        sets=len(spread),
        measured_before=killing.measured,
        different=different,
        seconds=seconds,
        workers_cpu=spent,
        alone_cpu=time.process_time() - before,
    )


def write_runs(folder: Path, count: int) -> Path:
    from tests.offline.chat_files import chat, write_lines

    write_lines(folder / "runs.jsonl", [chat(seed, STEPS) | {"task": f"task-{seed}"} for seed in range(count)])
    return folder


def prepare(folder: Path, runs: Path, model: str) -> str:
    """Ingest and freeze; returns the catalog's URL. This process and the workers read places from the environment."""
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from tests.flows.test_team import fill

    url = f"sqlite:///{folder}/catalog.sqlite"
    settings = {"DRSR_CATALOG_URL": url, "DRSR_ARTIFACT_ROOT": str(folder / "artifacts"), "DRSR_BACKBONE": model}
    os.environ.update(settings)
    with open_catalog(url, create=True) as catalog:
        fill(catalog, ArtifactStore(settings["DRSR_ARTIFACT_ROOT"]), runs, model)
    return url


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address and the workers' processes; no worker has a nanny that would start it again."""
    address_file = folder / "scheduler.json"
    scheduler = ["dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
    worker = [
        "dask",
        "worker",
        "--nthreads",
        "1",
        "--nworkers",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--memory-limit",
        "0",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with ExitStack() as stack, (folder / "dask.log").open("wb") as log:

        def start(command: list[str]) -> subprocess.Popen[bytes]:
            known = ["--scheduler-file", str(address_file)]
            process = subprocess.Popen(
                [sys.executable, "-m", *command, *known], env=environment, cwd=folder, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start(scheduler)
        started = [start(worker) for _ in range(workers)]
        yield address_of(address_file, workers), started


def address_of(scheduler_file: Path, workers: int) -> str:
    """The address of the scheduler, once all workers have come."""
    from distributed import Client

    deadline = time.monotonic() + START_SECONDS
    while not scheduler_file.exists():
        assert time.monotonic() < deadline, "the scheduler did not start"
        time.sleep(0.2)
    with Client(scheduler_file=str(scheduler_file), timeout=START_SECONDS) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(workers, timeout=START_SECONDS)
        return str(client.scheduler.address)


class Killing(threading.Thread):
    """Kill a process as soon as so many states are measured."""

    def __init__(self, url: str, victim: subprocess.Popen[bytes], after: int) -> None:
        super().__init__(daemon=True)
        self._url, self._victim, self._after = url, victim, after
        self.measured: int | None = None

    def run(self) -> None:
        from drsr.offline.catalog.label_tables import StateMeasurement
        from drsr.offline.catalog.migrations import open_catalog

        with open_catalog(self._url) as catalog:
            while self.measured is None:
                with catalog.reading() as connection:
                    count = connection.execute(select(func.count()).select_from(StateMeasurement)).scalar_one()
                if count >= self._after:
                    os.kill(self._victim.pid, signal.SIGKILL)
                    self.measured = count
                time.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
