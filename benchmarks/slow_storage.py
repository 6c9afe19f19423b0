"""Storage that is slow: `python -m benchmarks.slow_storage`.

Wall time and calls of every stage from recorded runs to exports, and of a night that finds nothing new: on folders of
this machine, and on a real S3 server of which every call is held up by half a second. The runs are made up, the
language model is tiny, so that storage is what takes the time. The exit code is 1 where the two exports differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
from moto.server import ThreadedMotoServer

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.expectations.judging import AFTER, judge
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import kept_here
from drsr.request.view import caps_for
from tests.offline.chat_files import chat, write_json
from tests.offline.slow_storage import SlowStorageDouble
from tests.offline.small_pipeline import quick_params
from tests.tiny_models import build_tiny

STAGES = ("ingest", "freeze", "label", "featurize")


@dataclass
class Site:
    """A catalog, a store and runs, and what its nights take."""

    folder: Path
    runs: str
    artifacts: ArtifactStore
    catalog: Catalog
    backbone: FrozenLM
    calls: Callable[[], list[str]]
    spent: dict[str, tuple[float, Counter[str]]] = field(default_factory=dict)

    def night(self) -> None:
        self.spent = {}
        os.environ["DRSR_CACHE"] = str(self.folder / "cache")
        caps, loaded = caps_for(self.backbone.window), self.backbone
        scorer = TargetNll(loaded)
        exporter = Exporter(self.catalog, self.artifacts, quick_params(), self.folder / "exports")
        work: dict[str, Callable[[], object]] = {
            "ingest": lambda: ingest(self.catalog, self.artifacts, self.runs),
            "freeze": lambda: freeze(self.catalog, self.artifacts, loaded.tokenizer, caps),
            "label": lambda: label(self.catalog, self.artifacts, scorer, label_run(scorer, "float32", caps)),
            "featurize": lambda: materialize(
                self.catalog, self.artifacts, loaded, featurize_run(loaded, "float32", caps)
            ),
        }
        for stage in STAGES:
            self._measure(stage, work[stage])
            self._measure(f"judge after {stage}", lambda: self._judge(stage))  # noqa: B023 - called at once
            self._measure(f"export of {stage}", lambda: exporter.export(stage))  # noqa: B023 - called at once

    def _judge(self, stage: str) -> None:
        for verdict in judge(self.catalog, self.artifacts, AFTER[stage], kept=kept_here()):
            if not verdict.passed:
                raise SystemExit(f"after {stage}: {verdict}")

    def _measure(self, name: str, work: Callable[[], object]) -> None:
        self.calls()
        started = time.monotonic()
        work()
        self.spent[name] = time.monotonic() - started, Counter(self.calls())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--delay", type=float, default=0.5, help="seconds that every call is held up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        backbone = load_backbone(f"path:{build_tiny('llama', folder / 'model')}")
        assert isinstance(backbone, FrozenLM)
        for number in range(options.runs):
            write_json(folder / "runs" / f"{number:04}.json", chat(number, steps=6) | {"task": f"task-{number}"})
        with local(folder, backbone) as near, slow(folder, backbone, options.delay) as far:
            for night in ("first night", "with nothing new"):
                near.night()
                far.night()
                show(f"{night}, {options.runs} runs, {options.delay * 1000:.0f} ms a call", near, far)
            same = exported(near) == exported(far)
            print("what is exported is the same" if same else "WHAT IS EXPORTED DIFFERS")
            return 0 if same else 1


def exported(site: Site) -> dict[str, bytes]:
    files = (path for path in (site.folder / "exports").rglob("*") if path.is_file())
    return {str(path.relative_to(site.folder)): path.read_bytes() for path in files}


def show(title: str, near: Site, far: Site) -> None:
    print(title)
    for stage, (wall, calls) in far.spent.items():
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(calls.items())) or "none"
        print(f"  {stage:22} {near.spent[stage][0]:6.2f} s  {wall:7.2f} s  calls: {listed}")
    sums = [sum(wall for wall, _ in site.spent.values()) for site in (near, far)]
    print(
        f"  {'together':22} {sums[0]:6.2f} s  {sums[1]:7.2f} s  calls: {sum(c.total() for _, c in far.spent.values())}"
    )


@contextmanager
def site(folder: Path, runs: str, root: str, backbone: FrozenLM, calls: Callable[[], list[str]]) -> Iterator[Site]:
    folder.mkdir()
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog:
        yield Site(folder, runs, ArtifactStore(root), catalog, backbone, calls)


@contextmanager
def local(folder: Path, backbone: FrozenLM) -> Iterator[Site]:
    shutil.copytree(folder / "runs", folder / "near-runs" / "runs")
    with site(folder / "near", str(folder / "near-runs"), str(folder / "near-store"), backbone, list) as found:
        yield found


@contextmanager
def slow(folder: Path, backbone: FrozenLM, delay: float) -> Iterator[Site]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    storage = SlowStorageDouble("http://{}:{}".format(*server.get_host_and_port()), 0.0)
    os.environ |= {
        "AWS_ENDPOINT_URL_S3": storage.url,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    filesystem = fsspec.filesystem("s3")
    filesystem.mkdir("slow")
    filesystem.put(str(folder / "runs"), "slow/runs/runs", recursive=True)
    storage.delay = delay
    with site(folder / "far", "s3://slow/runs", "s3://slow/store", backbone, storage.taken) as found:
        yield found
    storage.stop()
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
