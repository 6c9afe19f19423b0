"""What `drsr status` counts, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sqlalchemy import select

from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.deletion_sets import DeletionSet
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.ingest.absent_texts import AbsentTexts
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.ingest.withdrawals import take_back, withdraw
from drsr.offline.label.harm import MeasuredHarm, StateHarms
from drsr.offline.label.records import MeasuredState, ensure_labeler, record_measurements
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.status import LabelStatus
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.status import LAST_RUNS, SourceStatus, quarantined_items, read_status
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.history import Removal
from drsr.request.view import Caps
from tests.offline.catalog.read_runs import part, record_parts, run
from tests.offline.chat_files import chat, write_json

BACKBONE = ScriptedBackbone()
CAPS = Caps(10_000, 1_000)
RULE = freezing_rule(BACKBONE.tokenizer, CAPS)


def test_an_empty_catalog_counts_nothing(catalog: Catalog) -> None:
    status = read_status(catalog, RULE)
    nothing = LabelStatus("default", 0, 0, 0, 0, 0, {}, {}, 0)
    assert status == ([], {}, 0, 0, {}, AbsentTexts(0, 0, ()), {}, {}, {}, [nothing], [], [], [], [])


def test_current_and_superseded_trajectories_are_told_apart(catalog: Catalog) -> None:
    bad = part("c", source="unreadable")
    bad.file.quarantine(Quarantined("c", "binary", "no text"))
    record_parts(
        catalog, part("a", run("r", "one"), run("q", "one", split="test")), part("b", run("r", "two"), source="t")
    )
    record_parts(catalog, part("a", run("r", "three")), bad)
    status = read_status(catalog, RULE)
    assert status.sources == [
        SourceStatus("s", 1, 2, 1, 0, 0, 0, 0),
        SourceStatus("t", 1, 1, 0, 0, 0, 0, 0),
        SourceStatus("unreadable", 1, 0, 0, 1, 0, 0, 0),
    ]
    assert [row.to_freeze for row in status.sources] == [2, 1, 0]
    assert status.splits == {"train": 2, "test": 1}
    assert (status.tasks, status.groups, status.domains) == (0, 2, {})
    assert status.quarantined == {"binary": 1}
    assert quarantined_items(catalog) == [("c", "binary", "no text")]


def test_withdrawn_runs_are_counted_apart_while_they_are(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one"), run("q", "one", split="test"), run("p", "one")))
    with catalog.writing() as connection:
        for name in ("s/r", "s/q", "s/p"):
            withdraw(connection, name, "why not")
        take_back(connection, "s/p")
    status = read_status(catalog, RULE)
    assert status.sources == [SourceStatus("s", 1, 1, 0, 0, 0, 0, 0)], "withdrawn is not superseded"
    assert status.withdrawn == {"test": 1, "train": 1}


def test_what_depends_on_the_tokenizer_is_unknown_without_it(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one")))
    status = read_status(catalog, None)
    assert status.sources == [SourceStatus("s", 1, 1, 0, 0, None, None, None)]
    shown = json.loads(json.dumps(status.to_json()))
    assert (shown["labels"], shown["sources"][0]["to_freeze"]) == (None, None)


def labels(catalog: Catalog) -> dict[str, LabelStatus]:
    return {found.labeler: found for found in read_status(catalog, RULE).labels or []}


def test_labels_are_counted_for_the_current_states(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """Each labeler's own. Labels of states that became stale are told apart."""
    path = write_json(tmp_path / "runs" / "a.json", chat(1, steps=8))
    write_json(tmp_path / "runs" / "b.json", chat(2, steps=8))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    states = read_status(catalog, RULE).sources[0].states
    assert states
    scorer = TargetNll(BACKBONE)
    summary = label(catalog, artifacts, scorer, label_run(scorer, "float32", CAPS, labeler="another"))
    assert labels(catalog) == {
        "default": LabelStatus("default", 0, 0, states, 0, 0, {}, {}, 0),
        "another": LabelStatus("another", states, 0, 0, summary.sets, 0, {}, {}, 0),
    }
    label(catalog, artifacts, scorer, label_run(scorer, "float32", CAPS))
    assert labels(catalog)["default"] == labels(catalog)["another"]._replace(labeler="default")
    write_json(path, chat(1, steps=9))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    (row,) = read_status(catalog, RULE).sources
    assert row.stale_states
    found = labels(catalog)["default"]
    assert (found.labelled, found.waiting, found.stale) == (
        states - row.stale_states,
        row.stale_states,
        row.stale_states,
    )
    assert 0 < found.sets < summary.sets
    assert list(labels(catalog)) == ["default", "another"]


def test_why_there_is_no_label_is_counted(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """Of states and, in those that have some labels, of single sets."""
    write_json(tmp_path / "runs" / "a.json", chat(1, steps=8))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
    with catalog.reading() as connection:
        first, second, third = connection.execute(select(DecisionState.id).order_by(DecisionState.id)).scalars()
    too_long, no_room = (
        Exclusion(ExclusionReason.TARGET_TOO_LONG, "it is"),
        Exclusion(ExclusionReason.OUT_OF_MEMORY, "it was"),
    )
    target = np.array([3], np.int32)
    measured = MeasuredHarm(DeletionSet((0,), Removal(frozenset(), {}), 5, ()), 2.0, 2.5)
    results: dict[int, StateHarms | Exclusion] = {
        first: too_long,
        second: too_long,
        third: StateHarms(2.0, (measured,), {2: no_room, 3: no_room, 4: too_long}),
    }
    with catalog.writing() as connection:
        identity = label_run(TargetNll(BACKBONE), "float32", CAPS).identity
        labeler_id = ensure_labeler(connection, "default", identity)
        rows = [MeasuredState(state, target, 9, result, "direct") for state, result in results.items()]
        record_measurements(connection, labeler_id, rows)
    assert labels(catalog)["default"] == LabelStatus(
        labeler="default",
        labelled=1,
        excluded=2,
        waiting=0,
        sets=1,
        excluded_sets=3,
        why_excluded={"target_too_long": 2},
        why_excluded_sets={"out_of_memory": 2, "target_too_long": 1},
        stale=0,
    )


def test_the_latest_runs_come_first(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        for number in range(LAST_RUNS + 2):
            run_id = start_run(connection, "ingest", f"run {number}", "1")
        finish_run(connection, run_id, {"added": 1})
    status = read_status(catalog, RULE)
    assert [shown["subject"] for shown in status.runs] == [f"run {number}" for number in range(LAST_RUNS + 1, 1, -1)]
    assert status.runs[0]["counts"] == {"added": 1}
    assert json.loads(json.dumps(status.to_json()))["runs"][1]["finished_at"] is None
