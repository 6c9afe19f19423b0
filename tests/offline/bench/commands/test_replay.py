"""`drsr evaluate --replay` on a small published policy, and `drsr report` on that: what they show and what they refuse.

One replay serves all tests, so both commands are in this file.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from drsr.backbone.frozen_lm import FrozenLM
from drsr.cli import main
from drsr.decide import representation
from drsr.offline.bench.comparators.drsr_policy import ALONE, STORED
from drsr.offline.bench.comparators.registry import Registry
from drsr.offline.bench.harness.results_file import ResultsFile
from drsr.offline.bench.replay import ablation_methods, chosen_methods, measured_steps, recorded_runs
from drsr.offline.bench.replay import stage as replay_module
from drsr.offline.bench.replay.file import read_replay
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.trainings import different_trainings
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.evaluate import stage as scorer_evaluation
from drsr.offline.featurize.views import get_view
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS, FULL, method_name
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.frames import get_training_frame
from drsr.policy.loading import load_policy
from drsr.policy.policy import Policy
from drsr.scorer.ensemble import Ensemble, HarmScale
from tests.offline.audit import published
from tests.offline.audit.published import PublishedPipeline, ask
from tests.offline.bench.harness.settings import ORDER
from tests.offline.bench.harness.test_summary import EPISODES
from tests.offline.bench.harness.test_task_tables import ABOUT
from tests.offline.bench.loopback_endpoint import Reply, loopback_endpoint
from tests.offline.small_pipeline import write_params
from tests.policy_wheels import versioned, wheel_of
from tests.real_browser import NO_NETWORK, Browser

SOME = ("baseline", "sliding_window_5", "selfcompact", "drsr")
REPLAY = ("evaluate", "--replay", "--window", "400", "--replicates", "20")


class Replaying(NamedTuple):
    """A folder in which the commands find a small catalog, and a replay of everything in it."""

    folder: Path
    release: PublishedPipeline
    shown: dict[str, Any]

    @property
    def rows(self) -> list[Replayed]:
        return read_replay(self.folder / "var" / "evaluation" / "replay-test.jsonl").rows

    @property
    def frame(self) -> ExampleFrame:
        settings = self.release.pipeline.settings
        with open_catalog(settings["DRSR_CATALOG_URL"]) as catalog:
            artifacts = ArtifactStore(settings["DRSR_ARTIFACT_ROOT"])
            return get_training_frame(catalog, artifacts, split="test", purpose="evaluate")


@pytest.fixture(scope="module")
def replaying(finished_release: PublishedPipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaying]:
    folder = tmp_path_factory.mktemp("replaying")
    release = published.copy_of(finished_release, folder / "release")
    release.pipeline.catalog.close()
    write_params(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in {**release.pipeline.settings, "DRSR_CACHE": str(folder / "cache")}.items():
            patch.setenv(name, value)
        output = folder / "shown.json"
        with output.open("w") as stream, pytest.MonkeyPatch.context() as printing:
            printing.setattr("sys.stdout", stream)
            assert main([*REPLAY, "--ablations", "--policy", str(release.wheel), "--json"]) == 0
        yield Replaying(folder, release, json.loads(output.read_text()))


def test_every_method_and_ablation_on_every_decision(replaying: Replaying) -> None:
    shown, frame = replaying.shown, replaying.frame
    methods = [found["method"] for found in shown["methods"]]
    assert shown["decisions"] == len(frame.state_ids)
    assert len(methods) == len(set(methods))
    for wanted in (
        "baseline",
        "sliding_window_5",
        "periodic_summary_3",
        "self_gc",
        "sam",
        "litellm_trim_messages",
        "drsr",
    ):
        assert wanted in methods
    assert "not trained" in shown["left_out"]["lre"]  # in made-up runs no name comes up again
    # Of the two decisions the model reads one as a whole.
    assert shown["measured"] == 1
    assert shown["not_measured"] == {"the request, context too long": 1}
    assert {found["removal"]["support"] for found in shown["methods"]} == {1}
    assert {found["removal_of_all"]["support"] for found in shown["methods"]} == {2}
    # One run is too few to exchange states in: the control says so; every other ablation is there.
    control = method_name("mismatched-state")
    assert {method_name(name) for name in ABLATIONS if name != FULL.name} - set(methods) == {control}
    assert "too few of other trajectories" in shown["left_out"][control]
    assert "Python 3.12" in shown["left_out"]["openhands_condenser"]
    assert "not task reward" in shown["notice"]
    assert list(shown["by_domain"]) == ["no domain"]
    baseline = shown["methods"][0]
    assert (baseline["removal"]["value"], baseline["harm"]["value"], baseline["abstained"]["value"]) == (0, 0, 1)


def test_harms_of_drsr_and_its_ablations_are_the_labels_of_what_they_deleted(replaying: Replaying) -> None:
    frame = replaying.frame
    changed = [row for row in replaying.rows if row.method.startswith("drsr") and row.changed]
    assert {method_name("no-abstention"), "drsr"} <= {row.method for row in changed}
    measured = [row for row in changed if row.harm is not None]
    assert len(measured) > 3
    for row in measured:
        state = frame.state_ids.index(row.state_key)
        mine = (frame.state == state) & (frame.direct_saving == row.removed_tokens)
        assert row.harm is not None
        assert np.abs(frame.harm[mine] - row.harm).min() < 1e-4
    for row in changed:
        if row.harm is None:  # of a cut request the label holds the cut fixed, which other methods cannot
            assert row.why_not_measured.startswith("context_too_long")


def test_ablations_decide_in_the_replay_as_in_the_study(
    replaying: Replaying, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--ablations", "--replicates", "20", "--json"]) == 0
    for policy in json.loads(capsys.readouterr().out)["policies"]:
        if policy["name"] == FULL.name:
            continue
        studied = {metric["name"]: metric["value"] for metric in policy["metrics"]}
        rows = [row for row in replaying.rows if row.method == method_name(policy["name"])]
        removal = [row.removed_tokens / row.request_tokens for row in rows]
        assert np.mean([row.changed for row in rows]) == pytest.approx(studied["pruned"])
        assert np.mean(removal) == pytest.approx(studied["mean removal"])


def test_with_stored_features_the_policy_decides_as_online_and_nothing_is_read(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for the features, and not for the harms: what it deletes has labels."""
    monkeypatch.delattr(representation, "candidate_features")
    file = replaying.folder / "stored.jsonl"
    chosen = ("--methods", "drsr", "--stored-features", "--output", str(file), "--json")
    assert main([*REPLAY, *chosen, "--policy", str(replaying.release.wheel)]) == 0
    capsys.readouterr()
    stored = read_replay(file)
    assert [note.assumptions for note in stored.described] == [(ALONE, STORED)]
    read = {row.state_key: row for row in replaying.rows if row.method == "drsr"}
    assert len(stored.rows) == len(read) == 2
    for row in stored.rows:
        assert (row.removed_tokens, row.version) == (read[row.state_key].removed_tokens, read[row.state_key].version)
    assert main([*REPLAY, *chosen]) == 2
    assert "--stored-features is of a full policy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"layout_hash": "of light columns"}, "reads other columns than those of view 'default'"),
        (
            {"backbone": "tiny-int8", "backbone_identity": "other"},
            "was read with tiny-int8 in float32, the policy reads",
        ),
    ],
)
def test_features_of_another_view_or_language_model_are_refused(
    replaying: Replaying,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: dict[str, str],
    said: str,
) -> None:
    def renamed(connection: Any, name: str) -> Any:
        found = get_view(connection, name)
        return found._replace(identity=found.identity._replace(**other))

    monkeypatch.setattr(ablation_methods, "get_view", renamed)
    chosen = ("--methods", "drsr", "--stored-features", "--output", str(replaying.folder / "refused.jsonl"))
    assert main([*REPLAY, *chosen, "--policy", str(replaying.release.wheel)]) == 2
    assert said in capsys.readouterr().err


def test_again_nothing_is_measured_and_the_same_is_shown(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run is loaded, nothing is scored, no regression is fitted and no ablation trained for rows that are there."""
    monkeypatch.delattr(TargetNll, "score")
    monkeypatch.delattr(recorded_runs, "load_states")
    monkeypatch.delattr(chosen_methods, "fit_lre")
    file = replaying.folder / "var" / "evaluation" / "replay-test.jsonl"
    before = file.read_bytes()
    chosen = ("--methods", ", ".join(SOME))
    assert main([*REPLAY, "--ablations", "--policy", str(replaying.release.wheel), *chosen]) == 0
    out = capsys.readouterr().out
    assert file.read_bytes() == before
    assert "Decisions that every method has: 2, of 1 runs; tasks: 1. Measured for every method: 1 of them" in out
    assert "not task reward" in out
    for name in SOME:
        assert f"\n  {name} " in out
    assert "self_gc" not in out


def test_another_policy_is_measured_alone_and_rows_of_superseded_states_are_not_shown(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a decision of a run's earlier content, and DRSR's rows are of a policy before: the latter alone are
    measured, none of both is shown."""
    copy = replaying.folder / "var" / "evaluation" / "copy.jsonl"
    lines = (replaying.folder / "var" / "evaluation" / "replay-test.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in lines]
    kept = [value for value in values if value.get("method") in ("baseline", "drsr", None)]
    kept = [{**value, "version": "before"} if value.get("method") == "drsr" else value for value in kept]
    kept += [{**value, "state_key": "superseded"} for value in kept if value.get("method")]
    kept.append({"decisions": [*replaying.frame.state_ids, "superseded"]})
    copy.write_text("".join(json.dumps(value) + "\n" for value in kept))
    measured: list[str] = []
    forgotten: list[Registry] = []
    original = replay_module.replay

    def watched(run: Any, methods: Any, *others: Any) -> list[Replayed]:
        assert len(forgotten) == 1  # what was counted for the run before says nothing about this one's time
        measured.extend(method.name for method in methods)
        return original(run, methods, *others)

    monkeypatch.setattr(replay_module, "replay", watched)
    monkeypatch.setattr(Registry, "forget", lambda self: forgotten.append(self))
    arguments = ("--output", str(copy), "--methods", "baseline,drsr", "--policy", str(replaying.release.wheel))
    assert main([*REPLAY, *arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert measured == ["drsr"]
    assert shown["decisions"] == len(replaying.frame.state_ids)
    assert shown["rows_left_out"] == {}
    found = read_replay(copy)
    assert found.earlier["DRSR"] == 4
    assert "superseded" not in {row.state_key for row in found.current}
    copy.unlink()


def test_a_replay_of_a_part_leaves_the_rest_in_the_report(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first decision of every run takes the place of one source among several."""
    copy = replaying.folder / "var" / "evaluation" / "part.jsonl"
    copy.write_bytes((copy.parent / "replay-test.jsonl").read_bytes())
    monkeypatch.setattr(recorded_runs, "spread", lambda rows: [first_decision(row) for row in rows])
    assert main([*REPLAY, "--output", str(copy), "--methods", "baseline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == 1
    assert read_replay(copy).decisions == frozenset(replaying.frame.state_ids)
    copy.unlink()


def first_decision(row: recorded_runs.RunRow) -> recorded_runs.RunRow:
    return row._replace(states=dict([min(row.states.items())]))


def test_rows_of_another_training_than_the_policys_are_named(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The guide's own way to a new policy: the ablations of the training before stay beside it."""
    file, policy = replaying.folder / "var" / "evaluation" / "apart.jsonl", load_policy(replaying.release.wheel)
    file.write_bytes((file.parent / "replay-test.jsonl").read_bytes())
    ablation = method_name("no-abstention")
    both = ("--output", str(file), "--methods", f"drsr,{ablation}", "--ablations", "--json", "--policy")
    assert main([*REPLAY, *both, str(replaying.release.wheel)]) == 0
    assert json.loads(capsys.readouterr().out)["different_trainings"] == ""
    scorer = policy.frozen.scorer
    assert isinstance(scorer, Ensemble)
    newer = replace(scorer, harm_scale=HarmScale(scorer.harm_scale.mean + 1, scorer.harm_scale.scale))
    Policy(policy.numbers, newer, policy.frozen.representation).save(tmp_path / "newer")
    assert main([*REPLAY, *both, str(tmp_path / "newer")]) == 0
    said = json.loads(capsys.readouterr().out)["different_trainings"]
    assert said.startswith("DRSR and its ablations are of different trainings")
    assert main([*REPLAY, "--output", str(file), "--methods", "drsr", "--policy", str(tmp_path / "newer")]) == 0
    out = capsys.readouterr().out
    assert "different trainings" not in out  # of this run's one row
    assert "claims broken" in out
    assert "of different trainings" in different_trainings(read_replay(file).described)
    file.unlink()


def test_a_summariser_out_of_reach_stops_the_replay_and_keeps_what_is_done(
    replaying: Replaying, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong key: no row says that a method fell back, and methods that ask nobody keep theirs."""
    monkeypatch.setenv("DRSR_SUMMARISER_KEY", "wrong")
    file = replaying.folder / "other.jsonl"
    with loopback_endpoint(lambda asked: Reply({}, 401)) as url:
        arguments = (*REPLAY, "--output", str(file), "--summariser", url, "--methods")
        assert main([*arguments, "baseline"]) == 0
        capsys.readouterr()
        assert main([*arguments, "baseline,periodic_summary_3"]) == 2
    captured = capsys.readouterr()
    assert "status 401" in captured.err
    assert "DRSR_SUMMARISER_KEY" in captured.err
    assert "wrong" not in captured.err
    assert {row.method for row in read_replay(file).rows} == {"baseline"}
    file.unlink()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--methods", "baseline,nonsense"), "no method is called 'nonsense'"),
        (("--methods", " , "), "no method is called ''"),
        (("--methods", "openhands_condenser"), "openhands_condenser cannot run here: its package needs"),
        (("--methods", "drsr"), "drsr cannot run here: no policy was handed in"),
        (("--source", "elsewhere"), "split test: there are no labelled states"),
        (("--labeler", "nobody"), "labeler 'nobody' has measured nothing yet"),
        (("--policy", "nowhere.whl"), "nowhere.whl"),
        (("--policy", "other.whl"), "give the policy the backbone that it names"),
        (("--output", "params.yaml/replay.jsonl"), "cannot be written to"),
        (("--output", "params.yaml"), "holds no replayed decisions"),
        (("--window", "0"), "--window must be at least 1"),
        (("--limit", "0"), "--limit must be at least 1"),
        (("--summariser", "somebody"), "unknown summariser 'somebody'"),
        (("--window", "500", "--output", "var/evaluation/replay-test.jsonl"), "was made with"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    replaying: Replaying, arguments: tuple[str, str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pipeline = replaying.folder, replaying.release.pipeline
    if arguments[1] == "other.whl":
        wheel_of(versioned("1.0"), folder / "others").rename(folder / "other.whl")
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    reads = ask(pipeline, "SELECT count(*) FROM split_read")
    assert main([*REPLAY, "--output", "new.jsonl", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert what in captured.err
    assert "Traceback" not in captured.err
    assert ask(pipeline, "SELECT count(*) FROM split_read") == reads
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path for path in kept | after if kept.get(path) != after.get(path)} == set()


def test_numbers_are_finite_or_left_empty(replaying: Replaying) -> None:
    for found in replaying.shown["methods"]:
        for value in found.values():
            if isinstance(value, dict) and value.get("value") is not None:
                assert math.isfinite(value["value"])


@pytest.fixture(scope="module")
def reported(replaying: Replaying) -> Path:
    """The folder of a report on all of this, and what was printed about it."""
    with ResultsFile(replaying.folder / "tasks.jsonl", ABOUT) as tasks:
        for episode in EPISODES:
            tasks.add(episode)
        tasks.tell(["--tasks", "sandbox", "--agent", "scripted", "--window", "2048", "--limit", "3"], {"short": ""})
    arguments = ["report", "--ablations", "--steps", "1", "--tasks", "tasks.jsonl", "--replicates", "20"]
    with (replaying.folder / "reported.json").open("w") as stream, pytest.MonkeyPatch.context() as printing:
        printing.setattr("sys.stdout", stream)
        assert main([*arguments, "--output", "page", "--json"]) == 0
    return replaying.folder / "page"


def test_the_report_has_every_table_and_figure(replaying: Replaying, reported: Path) -> None:
    printed = json.loads((replaying.folder / "reported.json").read_text())
    assert printed["page"] == str(Path("page", "index.html"))
    assert set(printed["tables"]) == {
        *("tasks", "task_tokens", "task_paths", "tasks_by_domain"),
        *("replay", "replay_costs", "replay_failures", "methods", "scorers", "singleton_rules", "policies"),
        *("non_compositionality", "reconstruction", "granularity", "interaction_properties", "margin_sweep"),
        *("score_distributions", "gate_curve", "beta_sensitivity", "attention_cases"),
        *("supervision", "calibration", "representations"),
        *("paper_eval40", "paper_eval40_totals", "paper_ablations", "paper_full260"),
    }
    # What one test run does not allow, and what is not installed, is left out with the reason.
    assert {"mismatched-state", "layer_relations", "OpenHands condenser", "LRE"} <= set(printed["left_out"])
    assert {path.name for path in (reported / "tables").iterdir()} == {
        f"{name}.{kind}" for name in printed["tables"] for kind in ("csv", "md")
    }
    page = (reported / "index.html").read_text()
    tables_only = {"replay_costs", "replay_failures", "methods", "paper_eval40", "paper_ablations", "paper_full260"}
    tables_only |= {"task_tokens", "task_paths", "tasks_by_domain", "supervision", "calibration", "representations"}
    tables_only |= {"paper_eval40_totals"}
    assert page.count("<svg") == len(printed["tables"]) - len(tables_only)
    for words in (
        "not task reward",
        "reported by the paper",
        "What differs from the paper",
        "566 runs with 1,698 states",
    ):
        assert words in page
    assert "all from outside WorkBuddyBench" in page
    assert "0.701 is printed as overall" in page  # what does not add up in the paper
    assert "the intervals of this report say little" in page  # of one run
    assert "0.0.1, not that of this report" in page
    for note in read_replay(replaying.folder / "var" / "evaluation" / "replay-test.jsonl").notes.values():
        for assumption in note.assumptions:
            assert html.escape(assumption) in page
    rows = list(csv.DictReader((reported / "tables" / "replay.csv").read_text().splitlines()))
    assert [row["method"] for row in rows][:2] == ["Baseline", "Sliding Window (K=5)"]
    assert any(row["method"] == "DRSR, without a risk gate" for row in rows)


@pytest.fixture
def one_task(replaying: Replaying) -> str:
    """A manifest of one task."""
    counts, tasks = {"web": 1}, [ORDER._asdict()]
    one = {"format": "drsr tasks/1", "name": "one", "suite": "sandbox", "weighting": "tasks"}
    (replaying.folder / "one.json").write_text(json.dumps({**one, "counts": counts, "tasks": tasks}))
    return "one.json"


def test_ablations_work_on_whole_tasks_too(one_task: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As in the paper's ablation, end to end. They are trained already; each computes its features as it goes."""
    chosen = [method_name(name) for name in ("no-abstention", "no-pair-pooling", "structural-only")]
    command = ["evaluate", "--tasks", one_task, "--ablations", "--replicates", "5", "--json"]
    assert main([*command, "--methods", ",".join(chosen)]) == 0
    found = {row["method"]: row for row in json.loads(capsys.readouterr().out)["methods"]}
    assert list(found) == ["baseline", *chosen]
    assert found[method_name("no-abstention")]["direct"] > 0
    assert {row["fell_back"] for row in found.values()} == {0}
    assert main([*command, "--methods", method_name("mismatched-state")]) == 2
    assert "has no recorded decision to exchange its state with" in capsys.readouterr().err


def test_policy_ablations_and_summariser_share_one_language_model(
    replaying: Replaying, one_task: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Any] = []
    load = FrozenLM.from_folder

    def counted(*arguments: Any, **options: Any) -> FrozenLM:
        loaded.append(arguments)
        return load(*arguments, **options)

    monkeypatch.setattr(FrozenLM, "from_folder", counted)
    methods = ("--methods", f"drsr,{method_name('no-abstention')}")
    command = ["evaluate", "--tasks", one_task, "--step-limit", "6", "--replicates", "5", "--json", *methods]
    shared = ("--ablations", "--policy", str(replaying.release.wheel), "--summariser", "embedded")
    assert main([*command, *shared, "--output", "shared.jsonl"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in found["methods"]] == ["baseline", "drsr", method_name("no-abstention")]
    assert len(loaded) == 1
    # Summaries are as the weights are, whatever the model is called.
    head, *lines = (replaying.folder / "shared.jsonl").read_text().splitlines()
    weights = load_policy(replaying.release.wheel).numbers.backbone.identity
    assert json.loads(head)["summariser_weights"] == f"{weights} float32"
    other = replaying.folder / "other.jsonl"
    other.write_text("\n".join([head.replace(weights, "0" * 64), *lines]) + "\n")
    assert main([*command, *shared, "--output", "other.jsonl"]) == 2
    assert "was made with summariser_weights" in capsys.readouterr().err


def test_ablations_that_nobody_asks_for_are_not_trained_for_whole_tasks(
    one_task: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(scorer_evaluation, "train_ablations")
    command = ["evaluate", "--tasks", one_task, "--ablations", "--step-limit", "6", "--replicates", "5", "--json"]
    assert main([*command, "--methods", "baseline", "--output", "alone.jsonl"]) == 0
    assert [row["method"] for row in json.loads(capsys.readouterr().out)["methods"]] == ["baseline"]


def commands_of(page: Path) -> list[list[str]]:
    (shown,) = re.findall(r"<pre>(.*?)</pre>", page.read_text(), re.DOTALL)
    return [shlex.split(line) for line in html.unescape(shown).splitlines()]


def test_the_commands_that_it_prints_give_the_same_again(
    replaying: Replaying, reported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = commands_of(reported / "index.html")
    ingested = [command for command in commands if command[1] == "ingest"]
    assert [Path(place).name for _, _, place, *_ in ingested] == ["runs"]
    version = replaying.release.wheel.name.split("-")[1]
    publish = next(command for command in commands if command[1] == "publish")
    assert publish[publish.index("--version") + 1] == version
    replayed, tasks, report = commands[-3:]
    assert replayed[:3] == ["drsr", "evaluate", "--replay"]
    assert Path(replayed[replayed.index("--policy") + 1]).name == replaying.release.wheel.name
    assert set(replayed[replayed.index("--methods") + 1].split(",")) == {row.method for row in replaying.rows}
    assert "--limit" not in replayed
    assert tasks[2:] == [
        *("--tasks", "sandbox", "--agent", "scripted", "--window", "2048", "--limit", "3", "--output", "tasks.jsonl")
    ]
    again = [word if word != "page" else "again" for word in report]
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(measured_steps, "measure_steps")  # what was measured is kept
        assert main(again[1:]) == 0
    capsys.readouterr()
    for path in (reported / "tables").iterdir():
        assert (replaying.folder / "again" / "tables" / path.name).read_bytes() == path.read_bytes()
    assert len(list((replaying.folder / "again" / "tables").iterdir())) == len(list((reported / "tables").iterdir()))


def test_the_report_on_paper(reported: Path, browser: Browser, tmp_path: Path) -> None:
    """It has pages, and nothing on them is wider than they are; what is closed on screen is open."""
    page, paper = reported / "index.html", tmp_path / "page.pdf"
    browser.open(page.as_uri(), NO_NETWORK, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) > 5
    # The same style and width on screen, so that a script can measure it.
    measured = tmp_path / "measured.html"
    text = page.read_text().replace("@media print", "@media all")
    text = re.sub(r"<meta http-equiv[^>]*>", "", text).replace("<body>", '<body style="width: 273mm">')
    script = """<script>
      const edge = document.body.getBoundingClientRect().right + 1;
      const wide = [...document.querySelectorAll("table, figure, pre, p")].filter(
        (found) => found.getBoundingClientRect().right > edge || found.scrollWidth > edge);
      const closed = [...document.querySelectorAll("details table")].filter((found) => found.offsetHeight == 0);
      const names = (found) => found.map((one) => one.closest("section")?.querySelector("h3").id ?? one.tagName);
      document.title = JSON.stringify({wide: names(wide), closed: names(closed),
        details: document.querySelectorAll("details").length});
    </script>"""
    measured.write_text(text.replace("</body>", f"{script}</body>"))
    found = re.search(r"<title>(.*?)</title>", browser.open(measured.as_uri(), NO_NETWORK, "--dump-dom"))
    assert found is not None
    shown = json.loads(html.unescape(found[1]))
    assert (shown["wide"], shown["closed"]) == ([], [])
    assert shown["details"] > 0


def test_the_report_opens_without_a_network_in_light_and_dark(reported: Path, browser: Browser) -> None:
    ground = browser.grounds((reported / "index.html").as_uri(), NO_NETWORK)
    assert 0.9 < ground["light"] <= 1.0
    assert 0.0 < ground["dark"] < 0.2  # the style's own: unstyled it would be black
    page = (reported / "index.html").read_text()
    loaded = re.findall(r"""(?:src|srcset|action|poster|data|xlink:href|href)=["']([^"']*)""", page)
    assert all(value.startswith(("#", "tables/", "data:,")) for value in loaded)
    assert "url(http" not in page
    assert "@import" not in page


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"split": "validation"}, "is a replay of the split validation, this report judges test"),
        ({"labeler": {"dtype": "bfloat16"}}, "was scored with dtype 'bfloat16', the labels of labeler 'default' with"),
    ],
)
def test_a_replay_of_something_else_is_refused(
    replaying: Replaying, change: dict[str, Any], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = (replaying.folder / "var" / "evaluation" / "replay-test.jsonl").read_text().splitlines()
    about = json.loads(head)
    labeler = about["labeler"] | change.get("labeler", {})
    (tmp_path / "other.jsonl").write_text("\n".join([json.dumps(about | change | {"labeler": labeler}), *rows]) + "\n")
    assert main(["report", "--replay", str(tmp_path / "other.jsonl"), "--output", str(tmp_path / "page")]) == 2
    assert what in capsys.readouterr().err


def test_the_report_without_a_replay_says_so(
    replaying: Replaying, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--replicates", "20"]) == 0
    out = capsys.readouterr().out
    assert "left out: replay: nothing was replayed: drsr evaluate --replay" in out
    assert "left out: granularity: no Steps were measured" in out
    assert "drsr report --ablations" in out
    assert "left out: tasks: no tasks were run: drsr evaluate --tasks sandbox" in out
    page = (tmp_path / "var" / "report" / "index.html").read_text()
    assert "No method was replayed" in page
    assert "A replay with a fixed target" not in page


def test_the_guide_keeps_its_word(replaying: Replaying, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/guides/compare-methods.md from top to bottom, on the replay that is there: what it has is not run again."""
    guide = (Path(__file__).parents[4] / "docs" / "guides" / "compare-methods.md").read_text()
    blocks = re.findall(r"```(console|python)\n(.*?)```", guide, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["console", "console", "console", "python"]
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "compare-methods.md", "exec"), {})  # noqa: S102 - our own text, the point of the test
            assert "Baseline 0.0" in capsys.readouterr().out
            continue
        command, shown = text.removeprefix("$ drsr ").split("\n", 1)
        said = command.replace("POLICY.whl", str(replaying.release.wheel)).replace("1024", "400")
        assert main(shlex.split(said)) == 0, command
        lines = [".*" if line.strip() == "..." else _pattern(line) for line in shown.splitlines()]
        assert re.match("".join(lines), capsys.readouterr().out, re.DOTALL), command


def _pattern(line: str) -> str:
    return re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--output", "params.yaml/page"), "params.yaml/page: cannot be written to"),
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl: there are no replayed decisions here"),
        (("--replay", "params.yaml"), "params.yaml: holds no replayed decisions"),
        (("--tasks", "nowhere.jsonl"), "nowhere.jsonl: there are no results of tasks here"),
        (("--tasks", "params.yaml"), "params.yaml: holds no results of tasks"),
        (("--labeler", "nobody"), "no labeler is called 'nobody'"),
        (("--view", "none"), "none"),
        (("--replicates", "0"), "--replicates must be at least 1"),
        (("--steps", "-1"), "--steps must be at least 0"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused(
    replaying: Replaying, arguments: tuple[str, str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path for path in replaying.folder.rglob("*") if path.is_file()}
    assert main(["report", "--output", "other", "--replicates", "20", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert what in captured.err
    assert {path for path in replaying.folder.rglob("*") if path.is_file()} == before
