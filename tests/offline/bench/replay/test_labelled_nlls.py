"""What a label has measured is not measured again: the same numbers, and DRSR asks the language model nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import ArtifactCorrupt
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.sliding_window import SlidingWindow
from drsr.offline.bench.replay.labelled_nlls import labelled_nlls, pair_key
from drsr.offline.bench.replay.stage import RecordedRun, Replayed, replay
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.tables import Trajectory
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import Pair, Scores, TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import render_output
from drsr.request.view import Caps
from drsr.settings import DTYPES
from tests.offline.chat_files import chat, write_json

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)


class CountingScorer(TargetNll):
    """Counts the pairs that it is asked about."""

    asked = 0

    def score(self, pairs: Sequence[Pair], watches: Any = None) -> Scores:
        self.asked += len(pairs)
        return super().score(pairs, watches)


@pytest.fixture
def run(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> RecordedRun:
    write_json(tmp_path / "runs" / "0.json", chat(3, steps=8))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    label(catalog, artifacts, (scorer := TargetNll(BACKBONE)), label_run(scorer, "float32", CAPS))
    with catalog.reading() as connection:
        row = connection.execute(select(Trajectory.id, Trajectory.blob, Trajectory.split)).one()
    rule = freezing_rule(BACKBONE.tokenizer, CAPS)
    item = TrajectoryItem(row.id, row.blob, row.split, "")
    return RecordedRun("runs/0", "task", "code", load_states(catalog, artifacts, item, BACKBONE.tokenizer, CAPS, rule))


def replayed(run: RecordedRun, known: dict[str, float]) -> tuple[list[Replayed], int]:
    scorer = CountingScorer(BACKBONE)
    methods: list[Comparator] = [DrsrPolicy(scripted_policy()), SlidingWindow(3)]
    rows = replay(run, methods, ScriptedSummariser(BACKBONE.tokenizer), scorer, known)
    return [row._replace(seconds=0.0) for row in rows], scorer.asked


def test_the_same_rows_without_asking_again(catalog: Catalog, run: RecordedRun) -> None:
    known = labelled_nlls(catalog, "default", run.states, BACKBONE.tokenizer)
    slow, asked_for_all = replayed(run, {})
    fast, asked = replayed(run, known)
    assert len(run.states) == 3
    assert any(row.changed for row in fast if row.method == "drsr")
    changed_elsewhere = sum(row.changed for row in fast if row.method != "drsr")
    assert 0 < asked <= changed_elsewhere < asked_for_all
    for one, other in zip(fast, slow, strict=True):
        assert one._replace(intact_nll=0.0, rewritten_nll=0.0) == other._replace(intact_nll=0.0, rewritten_nll=0.0)
        assert (one.intact_nll, one.rewritten_nll) == pytest.approx((other.intact_nll, other.rewritten_nll), abs=1e-5)


def test_every_label_is_found_by_its_tokens(catalog: Catalog, run: RecordedRun) -> None:
    known = labelled_nlls(catalog, "default", run.states, BACKBONE.tokenizer)
    with catalog.reading() as connection:
        labels = {(row.state_id, row.mask): row.deleted_nll for row in connection.execute(select(Label))}
    assert labels
    for state in run.states:
        target = render_output(state.frozen.next_output, BACKBONE.tokenizer)
        for deletion_set, context in contexts_of(state.frozen.state).deleted:
            assert known[pair_key(Pair(context, target))] == labels[state.id, deletion_set.mask]
            # A token that moves from the context to the target makes another pair.
            assert pair_key(Pair(context[:-1], target)) not in known
    assert labelled_nlls(catalog, "nobody", run.states, BACKBONE.tokenizer) == {}


def test_an_output_that_was_not_the_measured_one_is_refused(catalog: Catalog, run: RecordedRun) -> None:
    with catalog.writing() as connection:
        connection.execute(update(StateMeasurement).values(target_hash="0" * 64))
    with pytest.raises(ArtifactCorrupt, match="not the one that was measured"):
        labelled_nlls(catalog, "default", run.states, BACKBONE.tokenizer)


@pytest.mark.parametrize("dtype", DTYPES)
def test_labels_answer_in_the_one_precision_in_which_all_ways_of_computing_agree(
    catalog: Catalog, run: RecordedRun, dtype: str
) -> None:
    """In half precision a label and a rewrite that is measured now may round differently: then all are measured now."""
    with catalog.writing() as connection:
        connection.execute(update(Labeler).values(dtype=dtype))
    assert bool(labelled_nlls(catalog, "default", run.states, BACKBONE.tokenizer)) is (dtype == "float32")
