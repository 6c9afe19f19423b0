"""Everything in a folder of real recorded runs, or in one that is written for the test where there is none."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.locations import open_location
from drsr.request.history import BlockKind, Step
from tests.offline.ingest.formats.files import history
from tests.offline.ingest.formats.miniatures import MINIATURES
from tests.trajectory_files import trajectories_folder


class Expected(NamedTuple):
    """What a source holds: behind the prefix, so that demonstrations do not count."""

    runs: int
    tool_steps: tuple[float, int]
    """Median and largest number of Steps with calls."""
    calls: int
    unanswered: int = 0


REAL = {
    "tau-bench": Expected(200, (5, 27), 1164),
    "tau2-bench": Expected(20, (5, 9), 148),
    "swe-agent-v0": Expected(20, (14.5, 46), 359, 20),
    "swe-agent-demos": Expected(22, (11, 21), 230, 17),
    "moatless-tools": Expected(6, (7, 8), 41, 6),
    "openhands-v0": Expected(3, (33, 49), 105, 2),
    "pi-coding-agent": Expected(1, (369, 369), 391, 18),
    "inspect-log": Expected(1, (4, 4), 4),
    "agentdojo": Expected(164, (8, 16), 1727, 26),
    "agentdojo-llama33": Expected(29, (16, 16), 396, 20),
    "autopenbench": Expected(64, (21, 60), 1382),
    "docent-inspect-ctf": Expected(2, (5.5, 8), 11),
    "intercode": Expected(3399, (5, 15), 18855),
    "mini-swe-agent-gemini3": Expected(40, (22, 35), 891, 40),
    "openclaw-sessions": Expected(9, (9, 17), 109),
    "openhands-codeact-0.15": Expected(24, (13.5, 32), 365),
    "tau-bench-retail-avaljotsingh": Expected(200, (8, 24), 1669),
    "tau-bench-retail-xuanfeiren": Expected(632, (6, 19), 4338),
    "tau2-adaptive-airline": Expected(49, (7, 20), 428),
    "tau2-bench-airline-retail": Expected(643, (5, 100), 5566),
}
NAMELESS = {"openhands-codeact-0.15": 24, "autopenbench": 14}
"""Runs whose files do not name their task; corpora/public/tasks.csv does."""
FAILED = 50
"""Recorded runs of the tau benchmarks in which the agent never said anything."""
WRITTEN = {
    "tau_bench": Expected(2, (1, 1), 2),
    "swe_agent_text": Expected(1, (2, 2), 2, 1),
    "moatless": Expected(1, (2, 2), 2, 1),
    "openhands_v0": Expected(1, (2, 2), 3, 1),
    "pi": Expected(1, (1, 1), 2, 1),
    "inspect": Expected(1, (1, 1), 1),
}


class Corpus(NamedTuple):
    folder: Path
    expected: dict[str, Expected]
    items: dict[str, list[Trajectory]]
    quarantined: list[Quarantined]
    files: int


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder, expected = trajectories_folder(), REAL
    if folder is None:
        folder, expected = tmp_path_factory.mktemp("corpus"), WRITTEN
        for name in WRITTEN:
            (folder / name).mkdir()
            (folder / name / "runs.json").write_bytes(MINIATURES[name].data)
            (folder / name / "SOURCE.txt").write_text("written for the test")
    items: dict[str, list[Trajectory]] = {}
    quarantined: list[Quarantined] = []
    files = list(gather(open_location(str(folder))))
    for file in files:
        for item in read(file):
            if isinstance(item, Quarantined):
                quarantined.append(item)
            else:
                items.setdefault(file.source, []).append(item)
    return Corpus(folder, expected, items, quarantined, len(files))


def test_every_file_is_read_or_quarantined_with_a_reason(corpus: Corpus) -> None:
    assert {name: len(items) for name, items in corpus.items.items()} == {
        name: expected.runs for name, expected in corpus.expected.items()
    }
    texts = [path for path in corpus.folder.rglob("*") if path.suffix in (".txt", ".md", ".csv")]
    failed = {"no_assistant_message": FAILED} if corpus.expected is REAL else {}
    assert Counter(item.reason for item in corpus.quarantined) == {"not_data": len(texts), **failed}


def test_steps_and_calls(corpus: Corpus) -> None:
    for name, expected in corpus.expected.items():
        steps = [_tool_steps(item) for item in corpus.items[name]]
        counts = [len(run) for run in steps]
        exchanges = [step for run in steps for step in run]
        calls = sum(_calls(step) for step in exchanges)
        answered = sum(
            len(block.parts) == 2
            for step in exchanges
            for block in step.blocks
            if block.kind is BlockKind.TOOL_EXCHANGE
        )
        found = Expected(len(steps), (statistics.median(counts), max(counts)), calls, calls - answered)
        assert found == expected, name


def _tool_steps(trajectory: Trajectory) -> list[Step]:
    return [step for step in history(trajectory).steps if _calls(step)]


def _calls(step: Step) -> int:
    return sum(block.kind is BlockKind.TOOL_EXCHANGE for block in step.blocks)


def test_ids_are_unique_in_a_source_and_reading_again_gives_the_same(corpus: Corpus) -> None:
    for items in corpus.items.values():
        assert len({item.external_id for item in items}) == len(items)
    again = [item for file in gather(open_location(str(corpus.folder))) for item in read(file)]
    hashes = Counter(item.content_hash for item in again if isinstance(item, Trajectory))
    assert hashes == Counter(item.content_hash for items in corpus.items.values() for item in items)


def test_tasks_are_known_where_the_format_knows_them(corpus: Corpus) -> None:
    for name, items in corpus.items.items():
        assert sum(item.task is None for item in items) == NAMELESS.get(name, 0), name
    tau = corpus.items.get("tau-bench", [])
    assert Counter(Counter(item.task for item in tau).values()) in (Counter({4: 50}), Counter())


def test_counts_agree_with_the_raw_files(corpus: Corpus) -> None:
    """The same numbers, counted in the files without any reader."""
    raw: dict[str, int] = {}
    for path in corpus.folder.rglob("*"):
        if path.suffix in (".json", ".jsonl", ".traj"):
            source = path.relative_to(corpus.folder).parts[0]
            raw[source] = raw.get(source, 0) + sum(_raw_calls(value) for value in _values(path))
    for name in ("tau-bench", "tau2-bench", "swe-agent-v0", "swe-agent-demos", "pi-coding-agent", "tau_bench", "pi"):
        if name in corpus.expected:
            assert raw[name] == corpus.expected[name].calls, name


def _values(path: Path) -> list[Any]:
    if path.suffix == ".jsonl" or path.parent.name == "pi":
        return [json.loads(line) for line in path.read_text().splitlines()]
    value = json.loads(path.read_text())
    return value if isinstance(value, list) else [value]


def _raw_calls(value: Any) -> int:
    if "traj" in value:
        return sum(len(message.get("tool_calls") or []) for message in value["traj"])
    if "simulations" in value:
        return sum(len(m.get("tool_calls") or []) for run in value["simulations"] for m in run["messages"])
    if "history" in value:
        return sum(bool(m.get("action", "").strip()) for m in value["history"] if not m.get("is_demo"))
    content = value["message"].get("content") if "message" in value else None
    return sum(block["type"] == "toolCall" for block in content) if isinstance(content, list) else 0
