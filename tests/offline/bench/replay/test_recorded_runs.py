"""Which runs come first: those of different tasks and domains, whatever their names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline.bench.replay import recorded_runs
from drsr.offline.bench.replay.recorded_runs import RunRow, runs_of, spread, with_earlier
from drsr.offline.catalog.engine import Catalog
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.records import labeler_named
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import Caps
from tests.offline.chat_files import chat, write_json


def run(name: str, group: str, domain: str | None = None) -> RunRow:
    return RunRow(0, "", "test", "s", name, group, domain, {})


def test_one_run_of_every_task_first_and_domains_by_turns() -> None:
    rows = [
        *(run(f"air-1-{trial}", "air-1", "airline") for trial in range(3)),
        *(run(f"air-2-{trial}", "air-2", "airline") for trial in range(2)),
        *(run(f"ret-1-{trial}", "ret-1", "retail") for trial in range(2)),
    ]
    assert [row.external_id for row in spread(rows)] == [
        *("air-1-0", "ret-1-0", "air-2-0"),
        *("air-1-1", "ret-1-1", "air-2-1"),
        "air-1-2",
    ]


def test_a_limit_takes_the_beginning_of_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [run(f"{task}-{trial}", task) for task in "abc" for trial in range(2)]
    recorded: list[list[RunRow]] = []
    doubles: dict[str, Any] = {
        "find_labeler": lambda *asked: 1,
        "get_view": lambda *asked: None,
        "runs_of": lambda *asked: rows,
        "record_read": lambda catalog, view, labeler, split, read: recorded.append(read),
    }
    for name, double in doubles.items():
        monkeypatch.setattr(recorded_runs, name, double)
    nothing: Any = MagicMock()  # the catalog and the model, which the doubles above do without
    found = recorded_runs.open_runs(nothing, nothing, "test", labeler="default", view="default", limit=4)
    assert [row.external_id for row in found] == ["a-0", "b-0", "c-0", "a-1"]
    assert recorded == [found]


runs = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", "c"]), st.sampled_from([None, "x", "y"])),
    unique_by=lambda one: one[0],
    max_size=12,
)


@given(runs, st.randoms(use_true_random=False))
def test_any_beginning_is_as_even_as_it_can_be(values: list[tuple[int, str, str | None]], random: Random) -> None:
    """No task has a second run before every task has a first, and so on; the order they came in does not matter."""
    rows = [run(f"r{name}", task, domain) for name, task, domain in values]
    found = spread(rows)
    random.shuffle(rows)
    assert spread(rows) == found
    assert sorted(row.external_id for row in found) == sorted(row.external_id for row in rows)
    every, taken = Counter(row.group for row in rows), Counter[str]()
    for row in found:
        taken[row.group] += 1
        fewest = min(taken[task] for task in every if taken[task] < every[task] or task == row.group)
        assert taken[row.group] <= fewest + 1


def slow_spread(rows: list[RunRow]) -> list[RunRow]:
    """Looking through all tasks of a domain for every run."""
    tasks: dict[str, list[str]] = {}
    places: list[tuple[int, int, RunRow]] = []
    for row in sorted(rows, key=lambda row: (row.source, row.external_id)):
        trial = sum(row.group == earlier.group for _, _, earlier in places)
        known = tasks.setdefault(row.domain_name, [])
        if row.group not in known:
            known.append(row.group)
        places.append((trial, known.index(row.group), row))
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


@given(runs)
def test_the_order_is_that_of_its_slow_twin(values: list[tuple[int, str, str | None]]) -> None:
    rows = [run(f"r{name}", task, domain) for name, task, domain in values]
    assert spread(rows) == slow_spread(rows)


def test_a_replay_of_one_source_keeps_the_decisions_of_the_others_while_they_are_current(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    backbone, caps = ScriptedBackbone(), Caps(10_000, 1_000)
    for place, source in enumerate(("air", "web")):
        for seed in range(3):  # so many that both have one in the train split
            write_json(tmp_path / source / f"{seed}.json", chat(10 * place + seed, steps=5))
        ingest(catalog, artifacts, str(tmp_path / source), source=source)
    freeze(catalog, artifacts, backbone.tokenizer, caps)
    run = label_run(scorer := TargetNll(backbone), "float32", caps)
    label(catalog, artifacts, scorer, run)
    tools: Any = SimpleNamespace(identity=run.identity, freezing=run.freezing)
    labelled = {"labeler": "default"}
    with catalog.reading() as connection:
        labeler_id = labeler_named(connection, "default")
    assert labeler_id is not None
    air, web = (runs_of(catalog, "train", labeler_id, run.freezing, source=name) for name in ("air", "web"))
    of_air, of_web = ({key for row in rows for key in row.states.values()} for rows in (air, web))
    assert of_air
    assert of_web
    assert with_earlier(catalog, tools, "train", rows=air, earlier=[], **labelled) == of_air
    assert with_earlier(catalog, tools, "train", rows=web, earlier=of_air, **labelled) == of_air | of_web
    assert with_earlier(catalog, tools, "train", rows=web, earlier=["superseded"], **labelled) == of_web
