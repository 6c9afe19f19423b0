"""The price of ingesting: `python -m benchmarks.ingest`.

- a first ingest against reading the same bytes and `json.loads`-ing them, in turn: wall time and process CPU time;
- a second, unchanged ingest of 10,000 trajectories against the first;
- peak memory of an ingest of 5,000 and of 50,000 short files, each in processes of its own. (With long ones the
  allocator's fragments differ by 5 MB from run to run, more than ten times the files make.)

The corpus is written for the occasion, one run per file, shaped like the recorded ones; if the recorded trajectories
are in the folder next to the project, they are measured too. The catalog is a new SQLite file each time. The exit code
is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.stage import RACY_SECONDS, ingest
from drsr.offline.store.artifacts import ArtifactStore

RATIO_TARGET, SECOND_TARGET, MEMORY_TARGET = 2.5, 0.05, 1.05
RECORDED = Path(__file__).parents[2] / "shared" / "trajectories"
FILES_PER_FOLDER = 500


class Spent(NamedTuple):
    wall: float
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--files", type=int, default=10_000, help="files of the large corpus")
    parser.add_argument("--peak", type=Path, metavar="FOLDER", help="print the peak of one ingest in MB and end")
    options = parser.parse_args()
    if options.peak:
        print(peak_megabytes(options.peak))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, count in (("small", 1_000), ("large", options.files)):
            write_corpus(folder / label, count, agent_run)
        for label, count in (("few", options.files // 2), ("many", options.files * 5)):
            write_corpus(folder / label, count, short_run)
        time.sleep(RACY_SECONDS)  # younger files are not trusted to be unchanged
        print(f"medians of {options.turns} turns; ratios by wall time, in brackets by process CPU time")
        met = [against_parsing("written trajectories", folder / "small", options.turns)]
        if RECORDED.is_dir():
            met.append(against_parsing("recorded trajectories", RECORDED, options.turns))
        met.append(second_against_first(folder / "large"))
        met.append(memory(folder / "few", folder / "many"))
    return 0 if all(met) else 1


def against_parsing(label: str, corpus: Path, turns: int) -> bool:
    parsing, ingesting = [], []
    for _ in range(turns):
        parsing.append(spent(lambda: parse_all(corpus)))
        with tempfile.TemporaryDirectory() as name:
            ingesting.append(spent_ingesting(corpus, Path(name)))
    megabytes = sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file()) / 1e6
    wall = statistics.median(one.wall for one in ingesting) / statistics.median(one.wall for one in parsing)
    cpu = statistics.median(one.cpu for one in ingesting) / statistics.median(one.cpu for one in parsing)
    speed = megabytes / statistics.median(one.wall for one in ingesting)
    print(
        f"{label}: {megabytes:.0f} MB, {speed:.0f} MB/s; first ingest {wall:.2f} [{cpu:.2f}] times reading and "
        f"parsing (at most {RATIO_TARGET}): {verdict(wall <= RATIO_TARGET)}"
    )
    return wall <= RATIO_TARGET


def second_against_first(corpus: Path) -> bool:
    with tempfile.TemporaryDirectory() as name:
        first = spent_ingesting(corpus, Path(name))
        again = [spent_ingesting(corpus, Path(name)) for _ in range(5)]
    second = Spent(statistics.median(one.wall for one in again), statistics.median(one.cpu for one in again))
    share = second.wall / first.wall
    print(
        f"second ingest of {len(list(corpus.rglob('*.json')))} trajectories: {second.wall * 1000:.0f} ms after "
        f"{first.wall:.1f} s, {share:.1%} [{second.cpu / first.cpu:.1%}] (at most {SECOND_TARGET:.0%}): "
        f"{verdict(share <= SECOND_TARGET)}"
    )
    return share <= SECOND_TARGET


def memory(small: Path, large: Path) -> bool:
    peaks = {}
    for corpus in (small, large):
        command = [sys.executable, "-m", "benchmarks.ingest", "--peak", str(corpus)]
        runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)]
        peaks[corpus] = statistics.median(float(run.stdout) for run in runs)
    growth = peaks[large] / peaks[small]
    shown = " and ".join(f"{peak:.0f} MB at {len(list(corpus.rglob('*.json'))):,}" for corpus, peak in peaks.items())
    print(
        f"peak memory, median of 3: {shown} files, {growth:.2f} times (at most {MEMORY_TARGET}): "
        f"{verdict(growth <= MEMORY_TARGET)}"
    )
    return growth <= MEMORY_TARGET


def verdict(passed: bool) -> str:
    return "met" if passed else "NOT MET"


def spent(work: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def spent_ingesting(corpus: Path, folder: Path) -> Spent:
    """Opening the catalog, and creating it if need be, is not counted: it takes the same time however much there is."""
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog:
        artifacts = ArtifactStore(str(folder / "artifacts"))
        return spent(lambda: ingest(catalog, artifacts, str(corpus)))


def parse_all(corpus: Path) -> None:
    """Read every file; parse it as a whole or, if it has one value per line, line by line."""
    for path in sorted(corpus.rglob("*")):
        if path.suffix in (".json", ".traj"):
            json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            with path.open("rb") as lines:
                for line in lines:
                    json.loads(line)


def peak_megabytes(corpus: Path) -> float:
    """Not by `getrusage`: its peak starts with that of the process which started this one."""
    with tempfile.TemporaryDirectory() as name:
        spent_ingesting(corpus, Path(name))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def write_corpus(folder: Path, count: int, run: Callable[[int], dict[str, Any]]) -> None:
    for number in range(count):
        path = folder / f"day-{number // FILES_PER_FOLDER:03d}" / f"run-{number:05d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run(number), indent=2))  # as most frameworks write it


def short_run(seed: int) -> dict[str, Any]:
    """Return the first messages of a run, cut: 2 KB."""
    run = agent_run(seed)
    return run | {"messages": [_cut(message) for message in run["messages"][:5]]}


def _cut(message: dict[str, Any]) -> dict[str, Any]:
    return message | ({"content": message["content"][:300]} if isinstance(message["content"], str) else {})


def agent_run(seed: int) -> dict[str, Any]:
    """Return a run like the recorded ones: 45 KB, 1.7 KB per message, outputs that show parts of the same files
    again."""
    draw = random.Random(seed)
    names = [f"{draw.choice(WORDS)}_{draw.choice(WORDS)}" for _ in range(12)]
    files = [listing(draw, names) for _ in range(4)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work in a terminal. " + " ".join(WORDS) * 10},
        {"role": "user", "content": f"Find out why {names[0]} fails after {draw.choice(WORDS)} and mend it. ({seed})"},
    ]
    for step in range(draw.randint(8, 16)):
        thought = f"The {draw.choice(names)} looks wrong; next I check {draw.choice(names)}. " * draw.randint(1, 4)
        arguments = json.dumps({"command": f"grep -rn {draw.choice(names)} src/ | head -{draw.randint(5, 40)}"})
        call = {"id": f"call_{step}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        shown = draw.choice(files)
        first = draw.randrange(len(shown) - 20)
        seen = "\n".join(shown[first : first + draw.randint(20, 60)])
        messages.append({"role": "assistant", "content": thought, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "content": seen})
    messages.append({"role": "assistant", "content": f"Mended: {names[1]} was read before {names[2]} was set."})
    return {"messages": messages}


def listing(draw: random.Random, names: list[str]) -> list[str]:
    """Lines of code, of a log, of JSON, or of a folder."""
    shape = draw.choice(
        (
            'src/{0}/{1}.py:{2}:\tassert {1}("{3}") == "{0}", f"{1} gave {3}"',
            "2026-03-{2:02d} 12:{2:02d}:07,{4:03d} INFO  [{0}] {1} finished {3} in {4} ms",
            '    "{0}": {{"{1}": {4}, "{3}": [{2}, {4}], "path": "/srv/{1}/{0}"}},',
            "-rw-r--r-- 1 agent agent {4:>8} Mar {2:>2} 09:41 {0}_{3}.txt",
        )
    )
    return [
        shape.format(*draw.choices(names, k=2), draw.randint(1, 28), draw.choice(names), draw.randint(1, 999))
        for _ in range(80)
    ]


WORDS = [
    *("report", "invoice", "parser", "timeout", "socket", "ledger", "cache", "branch", "token", "retry", "schema"),
    *("upload", "worker", "queue", "header", "cursor", "index", "session", "bucket", "policy", "region", "signal"),
    *("thread", "buffer", "layout", "ticket", "refund", "flight", "seat", "account", "order", "basket", "größe"),
]


if __name__ == "__main__":
    sys.exit(main())
