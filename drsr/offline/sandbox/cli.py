"""`drsr sandbox record`: record the sample corpus again, or check that the committed one is what recording gives."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command
from drsr.offline import samples

if TYPE_CHECKING:
    from drsr.offline.ingest.trajectories import Trajectory
    from drsr.offline.sandbox.corpus import Difference


def add_commands(commands: Commands) -> None:
    sandbox = commands.add_parser("sandbox", help="record the sample corpus with scripted agents and real tools")
    actions = sandbox.add_subparsers(dest="action", metavar="ACTION", required=True)
    parser = add_command(
        actions,
        "record",
        run_record,
        help="record the sample corpus",
        description="Runs every scripted agent with real tools in temporary folders and writes what happened. "
        "Example: drsr sandbox record --out corpus.jsonl.gz --count 20",
    )
    parser.add_argument(
        "--out", type=Path, help="file to write, or with --check to compare (default: the bundled corpus)"
    )
    parser.add_argument("--count", type=_positive, help="how many trajectories (default: 48)")
    parser.add_argument("--seed", type=int, help="another corpus of the same kind (default: 551)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file would change")


def run_record(options: argparse.Namespace) -> int:
    from drsr.offline.sandbox.corpus import COUNT, SEED, compare_corpus, record_corpus, write_corpus, write_sample

    path: Path = options.out or samples.CORPUS
    count: int = COUNT if options.count is None else options.count
    seed: int = SEED if options.seed is None else options.seed
    recording = _watched(record_corpus(seed, count), count)
    if options.check:
        return _report_check(compare_corpus(recording, path), path, options.json)
    written = write_corpus(recording, path)
    if (path, count, seed) == (samples.CORPUS, COUNT, SEED):
        write_sample(path, samples.REQUEST, samples.NEXT_OUTPUT)
    if options.json:
        print(json.dumps({"path": str(path), **written._asdict()}))
    else:
        print(f"{written.trajectories} trajectories, {written.bytes:,} bytes of JSONL, SHA-256 {written.sha256}")
        print(f"written to {path}")
    return 0


def _report_check(difference: Difference | None, path: Path, as_json: bool) -> int:
    if as_json:
        found = None if difference is None else difference._asdict()
        print(json.dumps({"path": str(path), "passed": difference is None, "difference": found}))
    elif difference is None:
        print(f"{path} is what recording gives")
    else:
        print(f"{path}: line {difference.line} differs from what recording gives")
        print(f"  recorded:  {_shortened(difference.recorded)}")
        print(f"  committed: {_shortened(difference.committed)}")
    return 0 if difference is None else 1


def _watched(recording: Iterator[Trajectory], count: int) -> Iterator[Trajectory]:
    """The same trajectories, with progress shown."""
    from drsr.offline.store.progress import progress

    with progress("sandbox record", "trajectories") as report:
        for done, trajectory in enumerate(recording, start=1):
            yield trajectory
            report(done, count)


def _shortened(line: str | None) -> str:
    if line is None:
        return "(nothing)"
    return line if len(line) <= 200 else f"{line[:200]}..."


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value
