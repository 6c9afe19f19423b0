"""The price of judging: `python -m benchmarks.expectations --times 1 100 1000`.

The configured catalog (SQLite, with labels and features) is copied and every row of it repeated that many times, under
new names; then frames are read and rules are evaluated, dataset by dataset, in a process of its own, by process CPU
time. Copies of a trajectory share its stored bytes, and copies of a state have no features: what reading those costs is
measured once on the catalog as it is, per trajectory and per file. Shares of splits break when a small catalog is
repeated, as they should; nothing is claimed about verdicts here.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from drsr.offline.catalog.engine import parse_url, sqlite_path
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from drsr.settings import load_settings

FROM_THE_CATALOG = ("splits", "labels", "states")
FROM_FILES = ("trajectories", "features")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 100, 1_000])
    parser.add_argument("--judge", nargs=2, metavar=("CATALOG", "DATASET"), help="time one dataset, print it and end")
    options = parser.parse_args()
    settings = load_settings()
    if options.judge:
        print(timed(options.judge[0], settings.artifact_root, options.judge[1]))
        return 0
    path = sqlite_path(parse_url(settings.catalog_url))
    if path is None:
        parser.error("rows are repeated in an SQLite file: set DRSR_CATALOG_URL to one")
    with tempfile.TemporaryDirectory() as folder:
        for times in options.times:
            copied = Path(folder) / f"{times}.sqlite"
            copy_catalog(path, copied)
            repeat_rows(copied, times)
            for dataset in (*FROM_THE_CATALOG, *(FROM_FILES if times == 1 else ())):
                command = [sys.executable, "-m", "benchmarks.expectations", "--judge", str(copied), dataset]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                print(f"{times:>5} times {done.stdout}", end="", flush=True)
    return 0


def copy_catalog(path: Path, to: Path) -> None:
    """Copy it with SQLite itself: part of it may still be in the write-ahead log."""
    there, here = sqlite3.connect(path), sqlite3.connect(to)
    there.backup(here)
    there.close()
    here.close()


def timed(catalog_path: str, artifact_root: str, dataset: str) -> str:
    from drsr.expectations.evaluation import evaluate
    from drsr.expectations.frames import frames_of
    from drsr.expectations.suites import SUITES

    before = _peak()
    with open_catalog(f"sqlite:///{catalog_path}") as catalog:
        start = time.process_time()
        frames = frames_of(
            dataset, catalog, ArtifactStore(artifact_root), [part.name for part in SUITES[dataset].parts]
        )
        read = time.process_time()
        evaluate(SUITES[dataset], frames)
        judged = time.process_time()
    rows = ", ".join(f"{len(frame):,} {part}" for part, frame in frames.items())
    times = f"read in {read - start:.2f} s, judged in {judged - read:.2f} s"
    return f"{dataset}: {times}, {_peak() - before} MB above the libraries ({rows})"


def repeat_rows(path: Path, times: int) -> None:
    """Repeat every row that grows with the data, to that many in all."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;")
    connection.execute("CREATE TEMP TABLE copies (number INTEGER)")
    connection.executemany("INSERT INTO copies VALUES (?)", [(number,) for number in range(1, times)])
    step = {
        table: connection.execute(f"SELECT max(id) + 1 FROM {table}").fetchone()[0]
        for table in ("trajectory", "decision_state", "frozen_trajectory")
    }
    named = "t.{0} || '#' || copies.number"
    numbered = "t.{0} + copies.number * {1}"
    trajectory, state = step["trajectory"], step["decision_state"]
    changes: dict[str, dict[str, str]] = {
        "split_group": {"group_key": named},
        "trajectory": {"id": numbered, "external_id": named, "group_key": named, "task": named},
        "frozen_trajectory": {"id": numbered, "trajectory_id": numbered},
        "decision_state": {"id": numbered, "trajectory_id": numbered, "state_key": named},
        "candidate": {"state_id": numbered},
        "state_measurement": {"state_id": numbered},
        "label": {"state_id": numbered},
    }
    for table, change in changes.items():
        offsets = {"trajectory_id": trajectory, "state_id": state, "id": step.get(table, 0)}
        _repeat(connection, table, {name: how.format(name, offsets.get(name, 0)) for name, how in change.items()})
    connection.commit()
    connection.close()


def _repeat(connection: sqlite3.Connection, table: str, change: Mapping[str, str]) -> None:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = ", ".join(change.get(name, f"t.{name}") for name in columns)
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} t, copies")


def _peak() -> int:
    """Megabytes, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
