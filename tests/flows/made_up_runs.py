"""Recorded runs, a tiny language model and parameters with which a whole refresh takes seconds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from drsr.offline.ingest.splits import assign_split, group_key
from tests.offline.chat_files import chat, write_json

ROOT = Path(__file__).parents[2]
SPLITS = {"train": 4, "validation": 3, "test": 1}


def write_runs(folder: Path, runs: Mapping[str, int] = SPLITS, *, first: int = 0, steps: int = 6) -> Path:
    """So many runs of every split, as OpenAI chat files."""
    for split, count in runs.items():
        tasks = (f"task-{number}" for number in itertools.count(first))
        mine = (task for task in tasks if assign_split(group_key("", "", task)) == split)
        for seed, task in enumerate(itertools.islice(mine, count)):
            run = chat(1_000 * len(split) + first + seed, steps) | {"task": task, "id": f"{split}-{first}-{seed}"}
            write_json(folder / f"{split}-{first}-{seed}.json", run)
    return folder


def write_params(folder: Path) -> Path:
    """The real parameters with few epochs, two members, and limits that a model without sense can keep to."""
    text = (ROOT / "params.yaml").read_text()
    for old, new in {
        "seeds: [11, 29, 47]": "seeds: [11, 29]",
        "max_epochs: 300": "max_epochs: 10",
        "\n  max_unsafe_rate: 0.10": "\n  max_unsafe_rate: 0.9",
        "max_mean_harm: 0.02": "max_mean_harm: 1.0",
    }.items():
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "params.yaml"
    path.write_text(text)
    return path
