"""Reading a frame of examples from the store: `python -m benchmarks.frames [--trajectories 640] [--columns 976]`.

Made-up states, labels and features (by the tests' own rows) in an SQLite catalog and a local artifact store; a file per
trajectory as the stages leave them, then merged. Exit code 1 if a merged frame takes longer than the target.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.upkeep import merge_small_files
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.frames import get_training_frame
from tests.offline.frames import rows
from tests.offline.stored_examples import Rows, store_examples

TARGET_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=640, help="of three states each")
    parser.add_argument("--columns", type=int, default=976, help="those of smollm2-135m by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_catalog(f"sqlite:///{folder}/c.sqlite", create=True) as catalog:
        artifacts = ArtifactStore(f"{folder}/artifacts")
        made_up = Rows(*rows("train", options.trajectories, states=3, columns=options.columns))
        view = store_examples(catalog, artifacts, "train", made_up, files=options.trajectories)
        read(catalog, artifacts, f"{options.trajectories:,} files")
        start = time.perf_counter()
        merged = merge_small_files(catalog, artifacts, view)
        print(f"merging {merged:,} files: {time.perf_counter() - start:.1f} s")
        seconds = read(catalog, artifacts, "merged")
    print(f"at most {TARGET_SECONDS:.0f} s: {'met' if seconds <= TARGET_SECONDS else 'NOT MET'}")
    return 0 if seconds <= TARGET_SECONDS else 1


def read(catalog: Catalog, artifacts: ArtifactStore, label: str) -> float:
    start = time.perf_counter()
    frame = get_training_frame(catalog, artifacts, split="train", purpose="train")
    seconds = time.perf_counter() - start
    states, _, columns = frame.features.shape
    print(f"{label}: {len(frame):,} labels of {states:,} states with {columns:,} columns in {seconds:.2f} s")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
