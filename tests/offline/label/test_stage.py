"""The label stage on both databases, with the scripted double for a language model: what is written, and only once."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import ArtifactCorrupt, SettingsError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim, Interaction, Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.freeze import shared_work
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.freeze.selection import Selection, Shard
from drsr.offline.freeze.stage import freeze
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE, measure_harm
from drsr.offline.label.records import find_labeler, forget_excluded, pending_states
from drsr.offline.label.stage import count_pending, label, label_run
from drsr.offline.label.status import label_status
from drsr.offline.label.target_nll import Pair, Scores, TargetNll
from drsr.offline.plan import make_plan
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.rendering import render_output
from drsr.request.view import Caps
from tests.offline.chat_files import chat, write_json
from tests.offline.logical_content import content_hash_of_catalog

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)


@pytest.fixture(scope="module")
def scorer() -> TargetNll:
    return TargetNll(BACKBONE)


@pytest.fixture
def frozen(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Catalog:
    """Three runs: one too short, one with a single eligible decision, one with three states."""
    for seed, steps in enumerate((3, 5, 8)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    return catalog


def run(catalog: Catalog, artifacts: ArtifactStore, scorer: TargetNll, **options: Any) -> Any:
    return label(catalog, artifacts, scorer, label_run(scorer, "float32", CAPS, **options))


def test_every_set_of_every_state_is_measured_on_the_real_rewrite(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll
) -> None:
    summary = run(frozen, artifacts, scorer)
    with frozen.reading() as connection:
        states = connection.execute(
            select(DecisionState.id, DecisionState.decision_index, DecisionState.candidates, Trajectory.blob).join(
                Trajectory, Trajectory.id == DecisionState.trajectory_id
            )
        ).all()
        labels = connection.execute(select(Label)).all()
        measured = {row.state_id: row for row in connection.execute(select(StateMeasurement))}
    assert summary.labelled == len(states) == len(measured) == 4
    for state_id, decision, candidates, blob in states:
        mine = {row.mask: row for row in labels if row.state_id == state_id}
        assert sorted(mine) == list(range(1, 2**candidates))
        found = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), BACKBONE.tokenizer, CAPS)
        state = next(state for state in found.states if state.decision == decision)
        target = render_output(state.next_output, BACKBONE.tokenizer)
        assert measured[state_id].target_tokens == len(target)
        for direct in measure_harm(BACKBONE, state.state, target):
            row = mine[direct.deletion_set.mask]
            assert row.harm == pytest.approx(direct.harm, abs=1e-9)
            assert row.harm == row.deleted_nll - measured[state_id].intact_nll
            assert row.unsafe == (row.harm > HARM_TOLERANCE)
            assert row.direct_saving == direct.deletion_set.direct_saving
            assert row.cardinality == row.mask.bit_count()


def test_interactions_are_residuals_of_the_labels(frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll) -> None:
    run(frozen, artifacts, scorer)
    with frozen.reading() as connection:
        harms = {(row.state_id, row.mask): row.harm for row in connection.execute(select(Label))}
        residuals = {(row.state_id, row.mask): row.residual for row in connection.execute(select(Interaction))}
    assert set(residuals) == {key for key in harms if key[1].bit_count() > 1}
    for (state, mask), residual in residuals.items():
        singles = sum(harms[state, 1 << bit] for bit in range(4) if mask & (1 << bit))
        assert residual == pytest.approx(harms[state, mask] - singles, abs=1e-12)


def test_labelling_again_changes_nothing(frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll) -> None:
    run(frozen, artifacts, scorer)
    with frozen.reading() as connection:
        before = content_hash_of_catalog(connection)
    assert run(frozen, artifacts, scorer).states == 0
    with frozen.reading() as connection:
        assert content_hash_of_catalog(connection) == before
        assert connection.execute(select(func.count()).select_from(Claim)).scalar_one() == 0


def test_parts_of_the_work_add_up_to_the_whole(frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll) -> None:
    first = run(frozen, artifacts, scorer, limit=1)
    assert 1 <= first.states <= 3, "whole trajectories: the states of one share their tree"
    nothing = run(frozen, artifacts, scorer, part=Selection(source="elsewhere"))
    assert nothing.states == 0
    with frozen.reading() as connection:
        split = connection.execute(select(Trajectory.split).order_by(Trajectory.id.desc())).scalars().first()
    run(frozen, artifacts, scorer, part=Selection(split=split))
    run(frozen, artifacts, scorer)
    plan = label_run(scorer, "float32", CAPS)
    with frozen.reading() as connection:
        labeler_id = find_labeler(connection, "default", plan.identity)
        assert count_pending(connection, plan.freezing, labeler_id, Selection()) == 0


def test_shards_have_nothing_in_common_and_days_are_whole(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll
) -> None:
    plan = label_run(scorer, "float32", CAPS)
    today = datetime.datetime.now(datetime.UTC).date()
    yesterday, tomorrow = (today + datetime.timedelta(days=days) for days in (-1, 1))

    def states(part: Selection) -> list[int]:
        with frozen.reading() as connection:
            query = pending_states([DecisionState.id], plan.freezing, None, part)
            return sorted(connection.execute(query).scalars())

    everything = states(Selection())
    for of in (1, 2, 3, 5):
        shards = [states(Selection(shard=Shard(number, of))) for number in range(of)]
        assert sorted(state for shard in shards for state in shard) == everything
    assert states(Selection(since=yesterday, until=tomorrow)) == everything
    assert states(Selection(until=yesterday)) == states(Selection(since=tomorrow)) == []
    halves = [run(frozen, artifacts, scorer, part=Selection(shard=Shard(number, 2))).states for number in range(2)]
    assert sum(halves) == len(everything) == 4


def test_another_backbone_needs_another_labeler(frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll) -> None:
    run(frozen, artifacts, scorer)
    changed = label_run(scorer, "float32", CAPS)
    changed = changed._replace(identity=changed.identity._replace(backbone_identity="f" * 64))
    with pytest.raises(SettingsError, match="name a new labeler"):
        label(frozen, artifacts, scorer, changed)
    other = label(frozen, artifacts, scorer, changed._replace(labeler="other"))
    assert other.states > 0, "under its own name it measures everything anew"


def test_the_same_backbone_may_be_elsewhere(frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll) -> None:
    """A machine that has the weights in another folder measures the same."""
    here = label_run(scorer, "float32", CAPS, limit=1)
    first = label(frozen, artifacts, scorer, here)
    elsewhere = here._replace(identity=here.identity._replace(backbone="path:/mnt/weights"), limit=None)
    assert first.states + label(frozen, artifacts, scorer, elsewhere).states == 4


def test_superseded_trajectories_are_not_measured(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "2.json", chat(2, steps=4), long_ago=False)
    ingest(frozen, artifacts, str(tmp_path / "runs"), source="runs")
    run(frozen, artifacts, scorer)
    with frozen.reading() as connection:
        stale = select(DecisionState.id).join(Trajectory).where(Trajectory.superseded_by.is_not(None))
        assert connection.execute(stale).all() != []
        measured = select(StateMeasurement.state_id).where(StateMeasurement.state_id.in_(stale))
        assert connection.execute(measured).all() == []


def test_superseded_while_it_is_measured(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between claim and record, by somebody else's ingest: the run goes on, and the new version is measured anew."""
    taken: list[int] = []

    def superseded_meanwhile(catalog: Catalog, artifacts: ArtifactStore, item: TrajectoryItem, *more: Any) -> Any:
        if not taken:
            write_json(tmp_path / "runs" / "1.json", chat(1, steps=9), long_ago=False)
            assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs").superseded == 1
        taken.append(item.number)
        return load_states(catalog, artifacts, item, *more)

    monkeypatch.setattr(shared_work, "load_states", superseded_meanwhile)
    assert run(frozen, artifacts, scorer).labelled == 4
    rule = label_run(scorer, "float32", CAPS).freezing
    with frozen.reading() as connection:
        replaced = select(Trajectory.id).where(Trajectory.superseded_by.is_not(None))
        assert connection.execute(replaced).scalar_one() == taken[0]
        (status,) = label_status(connection, rule)
    assert (status.labelled, status.waiting, status.stale) == (3, 0, 1)
    freeze(frozen, artifacts, BACKBONE.tokenizer, CAPS)
    assert run(frozen, artifacts, scorer).labelled == 3
    with frozen.reading() as connection:
        (status,) = label_status(connection, rule)
        assert connection.execute(select(func.count()).select_from(Claim)).scalar_one() == 0
    assert (status.labelled, status.waiting, status.stale) == (6, 0, 1)


def test_damaged_bytes_of_one_run_stop_only_that_run(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll, monkeypatch: pytest.MonkeyPatch
) -> None:
    with frozen.reading() as connection:
        blobs = connection.execute(select(Trajectory.blob).order_by(Trajectory.id)).scalars().all()
    get = artifacts.get

    def damaged(key: str) -> bytes:
        if key == blobs[1]:
            raise ArtifactCorrupt(f"artifact {key} is cut short")
        return get(key)

    monkeypatch.setattr(artifacts, "get", damaged)
    plan = label_run(scorer, "float32", CAPS)
    with pytest.raises(ArtifactCorrupt, match=r"^run runs/1\.json#run-1: artifact .* is cut short$"):
        label(frozen, artifacts, scorer, plan)
    assert make_plan(frozen, artifacts, BACKBONE.tokenizer, CAPS, 1, Selection()).label.states == 1
    with frozen.reading() as connection:
        assert count_pending(connection, plan.freezing, 1, Selection()) == 1
        assert connection.execute(select(func.count()).select_from(Claim)).scalar_one() == 0
    monkeypatch.setattr(artifacts, "get", get)
    assert label(frozen, artifacts, scorer, plan).labelled == 1


def test_what_was_excluded_for_want_of_memory_is_measured_again_when_asked(
    frozen: Catalog, artifacts: ArtifactStore, scorer: TargetNll, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole state, and one set of another; the others are left as they are."""
    plan = label_run(scorer, "float32", CAPS)
    score, calls = scorer.score, 0
    no_room = Exclusion(ExclusionReason.OUT_OF_MEMORY, "planted")

    def short_of_memory(pairs: Sequence[Pair], watches: Any = None) -> Scores:
        nonlocal calls
        scores = score(pairs, watches)
        calls += 1
        lost = {1: [0], 2: [1]}.get(calls, [])  # an intact context, a rewrite
        nlls = tuple(no_room if place in lost else nll for place, nll in enumerate(scores.nlls))
        return scores._replace(nlls=nlls)

    monkeypatch.setattr(scorer, "score", short_of_memory)
    label(frozen, artifacts, scorer, plan)
    monkeypatch.setattr(scorer, "score", score)
    assert label(frozen, artifacts, scorer, plan).states == 0
    everything = select(Label.state_id, Label.mask, Label.harm)
    with frozen.reading() as connection:
        before = connection.execute(everything).all()
    with frozen.writing() as connection:
        labeler_id = find_labeler(connection, plan.labeler, plan.identity)
        assert labeler_id is not None
        assert forget_excluded(connection, labeler_id, "non_finite", Selection()) == 0
        assert forget_excluded(connection, labeler_id, "out_of_memory", Selection()) == 2
    again = label(frozen, artifacts, scorer, plan)
    assert again.states >= 2  # the walk is over whole trajectories
    assert again.excluded == {}
    with frozen.reading() as connection:
        assert set(before) < set(connection.execute(everything).all())
        assert connection.execute(select(LabelExclusion)).all() == []
        assert count_pending(connection, plan.freezing, labeler_id, Selection()) == 0


def test_a_target_that_cannot_be_measured_is_an_exclusion(
    catalog: Catalog, artifacts: ArtifactStore, scorer: TargetNll, tmp_path: Path
) -> None:
    body = chat(1, steps=9)
    body["messages"][-1]["content"] = "too long " * 2_000
    write_json(tmp_path / "runs" / "x.json", body)
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, BACKBONE.tokenizer, Caps(10_000, 100))
    plan = label_run(scorer, "float32", Caps(10_000, 100))
    summary = label(catalog, artifacts, scorer, plan)
    with catalog.reading() as connection:
        rows = connection.execute(select(StateMeasurement).where(StateMeasurement.outcome == "excluded")).all()
    assert sum(summary.excluded.values()) == len(rows)
    assert summary.excluded == {"target_too_long": 1}
    assert [row.reason for row in rows] == ["target_too_long"]
