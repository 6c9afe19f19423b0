"""The plan against what the stages then do, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline import plan as planning
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Candidate, DecisionState
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.plan import FreezePlan, Plan, make_plan, tokens_of
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import Caps
from tests.offline.chat_files import chat, task_in_split, write_json

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)
STEPS = (3, 5, 8, 9)
"""Of the runs. The first is too short to have a state."""


@pytest.fixture
def ingested(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Catalog:
    for seed, steps in enumerate(STEPS):
        task = task_in_split("train" if seed % 2 else "test")
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps) | {"task": task})
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    return catalog


def planned(
    catalog: Catalog, artifacts: ArtifactStore, part: Selection | None = None, labeler_id: int | None = None
) -> Plan:
    return make_plan(catalog, artifacts, BACKBONE.tokenizer, CAPS, labeler_id, part or Selection())


def test_the_plan_counts_what_the_run_then_does(ingested: Catalog, artifacts: ArtifactStore) -> None:
    freeze(ingested, artifacts, BACKBONE.tokenizer, CAPS)
    plan = planned(ingested, artifacts)
    assert plan.freeze == (0, {})
    assert plan.label.why == {"never measured": plan.label.states}
    assert not plan.label.is_estimate
    with ingested.reading() as connection:
        states = connection.execute(select(DecisionState.candidates)).scalars().all()
        assert connection.execute(select(func.count()).select_from(Candidate)).scalar_one() == sum(states)
    assert plan.label.sets == sum(2**candidates - 1 for candidates in states)
    assert plan.label.tokens_shared < plan.label.tokens_naive
    assert tokens_of(plan.label.naive) == plan.label.tokens_naive
    assert tokens_of(plan.label.shared) == plan.label.tokens_shared
    scorer = TargetNll(BACKBONE)
    summary = label(ingested, artifacts, scorer, label_run(scorer, "float32", CAPS))
    assert summary.states == plan.label.states
    assert summary.tokens_naive == plan.label.tokens_naive
    assert planned(ingested, artifacts, labeler_id=1).label.states == 0


def test_what_is_not_frozen_yet_is_counted_as_if_it_were(ingested: Catalog, artifacts: ArtifactStore) -> None:
    before = planned(ingested, artifacts)
    assert before.freeze == FreezePlan(len(STEPS), {"never frozen": len(STEPS)})
    assert before.label.why == {"not frozen yet": before.label.states}
    with ingested.reading() as connection:
        assert connection.execute(select(func.count()).select_from(DecisionState)).scalar_one() == 0
    freeze(ingested, artifacts, BACKBONE.tokenizer, CAPS)
    after = planned(ingested, artifacts).label
    assert after.states == before.label.states == before.label.not_frozen > 0
    assert after._replace(not_frozen=0, why={}, sampled=0) == before.label._replace(not_frozen=0, why={}, sampled=0)


def test_few_stand_for_many(ingested: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = planned(ingested, artifacts).label
    monkeypatch.setattr(planning, "SAMPLE", 2)
    estimate = planned(ingested, artifacts).label
    assert (estimate.sampled, estimate.is_estimate) == (2, True)
    assert estimate.states == 6, "of every second run: none and three, twice"
    assert everything.states == 7


def test_why_trajectories_wait_to_be_frozen(ingested: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    freeze(ingested, artifacts, BACKBONE.tokenizer, CAPS._replace(context=9_000))
    write_json(tmp_path / "runs" / "2.json", chat(2, steps=10) | {"task": task_in_split("test")}, long_ago=False)
    write_json(tmp_path / "runs" / "new.json", chat(77, steps=5) | {"task": task_in_split("train")})
    ingest(ingested, artifacts, str(tmp_path / "runs"), source="runs")
    assert planned(ingested, artifacts).freeze.why == {
        "frozen under another rule or tokenizer": 3,
        "a run that has changed since": 1,
        "never frozen": 1,
    }


def test_a_part_is_a_part_of_what_waits_to_be_frozen_too(ingested: Catalog, artifacts: ArtifactStore) -> None:
    train = planned(ingested, artifacts, Selection(split="train"))
    test = planned(ingested, artifacts, Selection(split="test"))
    assert (train.freeze.trajectories, test.freeze.trajectories) == (2, 2)
    assert train.label.states + test.label.states == planned(ingested, artifacts).label.states
    assert planned(ingested, artifacts, Selection(source="elsewhere")) == planned_nothing()


def planned_nothing() -> Plan:
    return Plan(FreezePlan(0, {}), planning.LabelPlan(0, 0, 0, 0, 0, 0, 0, False, {}))
