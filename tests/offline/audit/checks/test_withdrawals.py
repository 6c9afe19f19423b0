"""Withdrawn runs in the audit and in the rules: shown, judged, and out of what is current."""

from __future__ import annotations

from pathlib import Path

from drsr.expectations.judging import judge
from drsr.offline.audit.checks import splits, withdrawals
from drsr.offline.audit.running import run_audit
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.ingest.withdrawals import take_back, withdraw
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import PublishedPipeline, ask, audited, by_hand, failures, trained_again
from tests.offline.chat_files import task_in_split, write_json
from tests.offline.small_pipeline import Pipeline


def taken_out(pipeline: Pipeline, name: str, reason: str) -> None:
    with pipeline.catalog.writing() as connection:
        withdraw(connection, name, reason)


def let_in_again(pipeline: Pipeline, name: str) -> None:
    with pipeline.catalog.writing() as connection:
        take_back(connection, name)


def of_split(pipeline: Pipeline, split: str) -> str:
    return "runs/" + str(ask(pipeline, "SELECT external_id FROM trajectory WHERE split = ? ORDER BY id", split)[0][0])


def test_withdrawals_are_shown_with_their_reasons(release: PublishedPipeline) -> None:
    pipeline = release.pipeline
    assert audited(release, [withdrawals.CHECK]).verdicts[0].detail == "no run is withdrawn"
    taken_out(pipeline, of_split(pipeline, "train"), "names a customer")
    taken_out(pipeline, of_split(pipeline, "test"), "too hard")
    audit = audited(release)
    assert failures(audit) == {}  # the policy was made before, and can still be traced
    (verdict,) = [verdict for verdict in audit.verdicts if verdict.check == "withdrawn runs"]
    assert "1 of train and validation (1 x 'names a customer'), 1 of test (1 x 'too hard')" in verdict.detail
    assert len(verdict.evidence["withdrawn"]) == 2


def test_a_policy_without_it_is_made_and_one_with_it_is_caught(release: PublishedPipeline, tmp_path: Path) -> None:
    pipeline = release.pipeline
    name = of_split(pipeline, "train")
    before = len(ask(pipeline, "SELECT id FROM training_run"))
    taken_out(pipeline, name, "names a customer")
    forged = trained_again(pipeline, tmp_path / "without")
    assert len(ask(pipeline, "SELECT id FROM training_run")) == before + 1
    assert failures(audited(forged)) == {}
    by_hand(pipeline, "UPDATE withdrawal SET external_id = ?", of_split(pipeline, "validation").partition("/")[2])
    caught = failures(audited(forged, [withdrawals.CHECK]))
    assert "was withdrawn before the scorer was trained, and the policy was made from it all the same" in str(caught)
    by_hand(pipeline, "UPDATE withdrawal SET reason = ''")
    assert "was withdrawn without a reason" in str(failures(audited(forged, [withdrawals.CHECK])))


def test_a_run_that_is_taken_back_once_the_policy_is_out_is_named(release: PublishedPipeline, tmp_path: Path) -> None:
    """Whoever withdraws what is inconvenient, trains, publishes and undoes it leaves a trace."""
    pipeline = release.pipeline
    name, tested = of_split(pipeline, "validation"), of_split(pipeline, "test")
    taken_out(pipeline, name, "too hard")
    taken_out(pipeline, tested, "too hard, too")
    forged = trained_again(pipeline, tmp_path / "without")
    let_in_again(pipeline, name)
    let_in_again(pipeline, tested)
    said = withdrawals_of(forged)
    assert said.detail.startswith("no run is withdrawn; made without these, which were taken back: ")
    assert f"{name} (validation, withdrawn 2" in said.detail
    assert f"{tested} (test, withdrawn 2" in said.detail
    assert [[run, reason] for run, _, reason, *_ in said.evidence["taken back"]] == [
        [tested, "too hard, too"],
        [name, "too hard"],
    ]
    assert withdrawals_of(release).evidence["taken back"] == [], "the policy before was published before that"
    # Withdrawn again it is listed among what is withdrawn.
    taken_out(pipeline, name, "really")
    assert f"{name} (" not in withdrawals_of(forged).detail
    assert "1 of train and validation (1 x 'really')" in withdrawals_of(forged).detail


def test_a_run_that_is_taken_back_while_the_scorer_is_trained_is_named(
    release: PublishedPipeline, tmp_path: Path
) -> None:
    """Training has read its data when it begins, and says at its end when it was."""
    pipeline = release.pipeline
    name = of_split(pipeline, "train")
    taken_out(pipeline, name, "too hard")
    forged = trained_again(pipeline, tmp_path / "without")
    let_in_again(pipeline, name)
    by_hand(pipeline, "UPDATE withdrawal SET taken_back_at = withdrawn_at")
    assert f"made without these, which were taken back: {name} (train, " in withdrawals_of(forged).detail
    # Taken back before training, it is in the policy, and nothing is to be told.
    assert withdrawals_of(trained_again(pipeline, tmp_path / "with")).detail == "no run is withdrawn"


def test_a_calibration_that_is_not_published_yet(pipeline: Pipeline) -> None:
    name = of_split(pipeline, "train")
    taken_out(pipeline, name, "too hard")
    let_in_again(pipeline, name)
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order())
    assert run_audit(subject, [withdrawals.CHECK]).verdicts[0].detail == "no run is withdrawn"
    by_hand(pipeline, "UPDATE withdrawal SET withdrawn_at = datetime(withdrawn_at, '-1 day')")
    (verdict,) = run_audit(subject, [withdrawals.CHECK]).verdicts
    assert verdict.passed
    assert f"made without these, which were taken back: {name} (train, " in verdict.detail


def withdrawals_of(release: PublishedPipeline) -> Verdict:
    (verdict,) = audited(release, [withdrawals.CHECK]).verdicts
    assert verdict.passed
    return verdict


def test_a_near_duplicate_stops_nothing_once_it_is_withdrawn(release: PublishedPipeline, tmp_path: Path) -> None:
    """The rule names the command with the run; after it the rule, and the audit of the splits, hold again."""
    pipeline = release.pipeline
    blob = ask(pipeline, "SELECT blob FROM trajectory WHERE split = 'train' ORDER BY id")[0][0]
    run = Trajectory.from_json(pipeline.artifacts.get(blob))
    copied = {**run.request, "id": "again", "task": task_in_split("test")}
    write_json(tmp_path / "more" / "copy.json", copied)
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    caught, disguised, opened_alike = broken(pipeline)
    assert caught.check == "trajectories: no near-duplicates across splits"
    assert disguised.check == "trajectories: no copy in disguise across splits"
    assert opened_alike.check == "splits: no subject on two sides of a split"
    assert "drsr withdraw 'more/copy.json#again' --reason" in caught.detail
    assert ", or 'runs/train-0-0.json#train-0-0'; or give both" in caught.detail
    assert "splits hold" in failures(audited(release, [splits.CHECK]))
    taken_out(pipeline, "more/copy.json#again", "a copy")
    assert broken(pipeline) == []
    assert failures(audited(release, [splits.CHECK])) == {}


def test_a_run_of_an_evaluation_task_stops_nothing_once_it_is_withdrawn(release: PublishedPipeline) -> None:
    pipeline = release.pipeline
    name = of_split(pipeline, "train")
    by_hand(
        pipeline, "UPDATE trajectory SET task = 'bb-bin-dns-parse-010' WHERE external_id = ?", name.partition("/")[2]
    )
    (caught,) = broken(pipeline)
    assert caught.check == "splits: evaluation tasks disjoint from supervision"
    assert f"drsr withdraw '{name}' --reason" in caught.detail
    taken_out(pipeline, name, "a task of Eval40")
    assert broken(pipeline) == []


def broken(pipeline: Pipeline) -> list[Verdict]:
    verdicts = judge(pipeline.catalog, pipeline.artifacts, ["trajectories", "splits"])
    return [verdict for verdict in verdicts if not verdict.passed]
