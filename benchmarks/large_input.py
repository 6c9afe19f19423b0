"""Large input: `python -m benchmarks.large_input`.

- peak memory of an ingest of one run of 250 MB, as one JSON object on one line and over many;
- processor time and memory of listing 200,000 files in 200 folders.

The files are written for the occasion, the run shaped like the recorded ones. Each peak is that of a process of its
own. The exit code is 1 when the target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.ingest import agent_run, verdict
from drsr.offline.store.locations import open_location

MEGABYTES, MEMORY_TARGET = 250, 500
FILES, FOLDERS = 200_000, 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path, metavar="FOLDER", help="print what listing it takes and end")
    options = parser.parse_args()
    if options.list:
        print(listed(options.list))
        return 0
    with tempfile.TemporaryDirectory() as name:
        met = [document(Path(name) / f"indent-{indent}", indent) for indent in (None, 2)]
        listing(Path(name) / "files")
    return 0 if all(met) else 1


def document(folder: Path, indent: int | None) -> bool:
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(long_run(MEGABYTES * 1_000_000), indent=indent))
    command = [sys.executable, "-m", "benchmarks.ingest", "--peak", str(folder)]
    peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    layout = "on one line" if indent is None else "over many lines"
    met = peak <= MEMORY_TARGET
    print(f"one run of {MEGABYTES} MB {layout}: peak {peak:.0f} MB (at most {MEMORY_TARGET}): {verdict(met)}")
    return met


def long_run(size: int) -> dict[str, Any]:
    """One run of about so many bytes, of the messages of many."""
    messages: list[dict[str, Any]] = []
    written = 0
    for seed in count():
        more = agent_run(seed)["messages"][1 if messages else 0 :]
        messages += more
        written += sum(len(json.dumps(message)) + 2 for message in more)
        if written >= size:
            return {"messages": messages}
    raise AssertionError("runs do not end")


def listing(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"day-{number % FOLDERS:03d}" / f"run-{number:06d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    command = [sys.executable, "-m", "benchmarks.large_input", "--list", str(folder)]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def listed(folder: Path) -> str:
    before, cpu = resident(), time.process_time()
    files = sum(1 for _ in open_location(str(folder)))
    spent = time.process_time() - cpu
    return f"listing {files:,} files: {spent:.1f} s of CPU; memory {before:.0f} MB before, {resident():.0f} MB after"


def resident() -> float:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
