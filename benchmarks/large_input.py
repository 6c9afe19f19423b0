"""Large input: `python -m benchmarks.large_input`.

- peak memory of an ingest of one run of 250 MB, as one JSON object on one line and over many;
- time and memory of an ingest of 200 MB of runs as a folder, a zip archive and tar archives;
- time and memory until 10 GB in at most 11 MB are refused, by every way of packing them;
- processor time and memory of listing 200,000 files in 200 folders.

The files are written for the occasion, the runs shaped like the recorded ones. Each peak is that of a process of its
own. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import IO, Any

import zstandard

from benchmarks.ingest import agent_run, verdict, write_corpus
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.locations import open_location

MEGABYTES, MEMORY_TARGET = 250, 500
FILES, FOLDERS = 200_000, 200
PACKED_RUNS = 4_600
"""About 200 MB."""
BOMB, BOMB_SECONDS = 10_000_000_000, 10
PARTS = ("document", "packed", "bombs", "listing")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"which of {', '.join(PARTS)}; by default all")
    parser.add_argument("--list", type=Path, metavar="FOLDER", help="print what listing it takes and end")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="print what an ingest takes and gives, and end")
    options = parser.parse_args()
    if options.list or options.read:
        print(listed(options.list) if options.list else json.dumps(ingested(options.read)))
        return 0
    met = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "document" in options.parts:
            met += [document(folder / f"indent-{indent}", indent) for indent in (None, 2)]
        if "packed" in options.parts:
            packed(folder / "packed")
        if "bombs" in options.parts:
            met += bombs(folder / "bombs")
        if "listing" in options.parts:
            listing(folder / "files")
    return 0 if all(met) else 1


def ingested(folder: Path) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as name,
        open_catalog(f"sqlite:///{name}/catalog.sqlite", create=True) as catalog,
    ):
        before, wall, cpu = resident(), time.perf_counter(), time.process_time()
        summary = ingest(catalog, ArtifactStore(f"{name}/artifacts"), str(folder))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = {"runs": summary.added, "quarantined": summary.quarantined, "before": before}
    return found | {"wall": wall, "cpu": cpu, "peak": memory("VmHWM")}


def read_by_itself(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.large_input", "--read", str(folder)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def peaks(found: dict[str, Any]) -> str:
    return f"peak {found['peak']:.0f} MB, {found['before']:.0f} MB before"


def packed(folder: Path) -> None:
    """The same runs in every packing, one after another; they must give as many runs."""
    runs = folder / "folder"
    write_corpus(runs, PACKED_RUNS, agent_run)
    size = sum(path.stat().st_size for path in runs.rglob("*.json"))
    shown = ("folder", "zip", "tar", "tar.gz", "tar.zst", "tar.xz")
    for kind in shown:
        if kind != "folder":
            pack(runs, folder / kind / f"runs.{kind}")
    for kind in shown:
        found = read_by_itself(folder / kind)
        if (found["runs"], found["quarantined"]) != (PACKED_RUNS, {}):
            raise SystemExit(f"{kind}: {found}")
        took = f"{found['wall']:5.1f} s, {found['cpu']:5.1f} s of CPU"
        print(f"{PACKED_RUNS:,} runs of {size / 1e6:.0f} MB, {kind:8} {took}; {peaks(found)}")


def pack(runs: Path, target: Path) -> None:
    target.parent.mkdir()
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(runs.rglob("*.json")):
                archive.write(path, str(path.relative_to(runs)))
        return
    with compressing(target) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        tar.add(runs, ".")


def compressing(target: Path) -> IO[bytes]:
    opened: dict[str, Callable[[Path], Any]] = {
        ".tar": lambda path: path.open("wb"),
        ".gz": lambda path: gzip.open(path, "wb", compresslevel=6),  # noqa: SIM115
        ".zst": lambda path: zstandard.open(path, "wb"),
        ".xz": lambda path: lzma.open(path, "wb", preset=1),  # noqa: SIM115
    }
    found: IO[bytes] = opened[target.suffix](target)
    return found


def bombs(folder: Path) -> list[bool]:
    """One JSON text of 10 GB in every packing, beside a sound run."""
    met = []
    for kind in ("zip", "json.gz", "json.zst", "tar.gz", "tar.zst"):
        target = folder / kind / f"bomb.{kind}"
        target.parent.mkdir(parents=True)
        if kind == "zip":
            with (
                zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
                archive.open("a.json", "w", force_zip64=True) as member,
            ):
                inflate(member)
        else:
            with compressing(target) as file:
                if kind.startswith("tar"):
                    entry = tarfile.TarInfo("a.json")
                    entry.size = BOMB
                    file.write(entry.tobuf(tarfile.GNU_FORMAT))
                inflate(file)
        (target.parent / "sound.json").write_text(json.dumps(agent_run(1)))
        found = read_by_itself(target.parent)
        is_met = found["runs"] == 1 and set(found["quarantined"]) == {"zip_bomb"} and found["wall"] < BOMB_SECONDS
        met.append(is_met)
        what = f"{BOMB / 1e9:.0f} GB in {target.stat().st_size / 1e6:.1f} MB of {kind:8}"
        said = f"{found['quarantined']} after {found['wall']:.1f} s"
        print(f"{what} {said}; {peaks(found)}: {verdict(is_met)}")
        target.unlink()
    return met


def inflate(file: IO[bytes]) -> None:
    file.write(b'{"messages": "')
    piece = b"a" * 10_000_000
    for _ in range(BOMB // len(piece)):
        file.write(piece)


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
    return memory("VmRSS")


def memory(name: str) -> float:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
