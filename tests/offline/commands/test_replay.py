"""`drsr evaluate --replay` on a small published policy, and `drsr report` on that: what they show and what they refuse.

One replay serves all tests, so both commands are in this file.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from drsr.cli import main
from drsr.offline.ablations import ABLATIONS, FULL
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.evaluation.ablation_methods import method_name
from drsr.offline.evaluation.harness.results_file import ResultsFile
from drsr.offline.evaluation.replay import Replayed
from drsr.offline.evaluation.replay_file import read_replay
from drsr.offline.examples import ExampleFrame
from drsr.offline.feature_store import get_training_frame
from tests.offline.audit import published
from tests.offline.audit.published import PublishedPipeline, ask
from tests.offline.evaluation.harness.test_summary import EPISODES
from tests.offline.evaluation.harness.test_task_tables import ABOUT
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
    assert {found["decisions"] for found in shown["methods"]} == {len(frame.state_ids)}
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
    assert {found["measured"] for found in shown["methods"]} == {1}
    # One run is too few to exchange states in: the control says so; every other ablation is there.
    control = method_name("mismatched-state")
    assert {method_name(name) for name in ABLATIONS if name != FULL.name} - set(methods) == {control}
    assert "too few of other trajectories" in shown["left_out"][control]
    assert "Python 3.12" in shown["left_out"]["openhands_condenser"]
    assert "not task reward" in shown["notice"]
    assert list(shown["domains"]) == ["no domain"]
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


def test_again_nothing_is_measured_and_the_same_is_shown(
    replaying: Replaying, capsys: pytest.CaptureFixture[str]
) -> None:
    file = replaying.folder / "var" / "evaluation" / "replay-test.jsonl"
    before = file.read_bytes()
    chosen = ("--methods", ", ".join(SOME))
    assert main([*REPLAY, "--ablations", "--policy", str(replaying.release.wheel), *chosen]) == 0
    out = capsys.readouterr().out
    assert file.read_bytes() == before
    assert "decisions of 1 runs" in out
    assert "not task reward" in out
    for name in SOME:
        assert f"\n  {name} " in out
    assert "self_gc" not in out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--methods", "baseline,nonsense"), "no method is called 'nonsense'"),
        (("--methods", " , "), "no method is called ''"),
        (("--methods", "openhands_condenser"), "openhands_condenser cannot be replayed: its package needs"),
        (("--methods", "drsr"), "drsr cannot be replayed: no policy was handed in"),
        (("--source", "elsewhere"), "split test: there are no labelled states"),
        (("--labeler", "nobody"), "labeler 'nobody' has measured nothing yet"),
        (("--policy", "nowhere.whl"), "nowhere.whl"),
        (("--policy", "other.whl"), "give the policy the backbone that it names"),
        (("--output", "params.yaml/replay.jsonl"), "cannot be written to"),
        (("--output", "params.yaml"), "is no replay"),
        (("--window", "0"), "--window must be at least 1"),
        (("--limit", "0"), "--limit must be at least 1"),
        (("--summariser", "somebody"), "nobody called 'somebody' writes summaries"),
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
            if isinstance(value, dict) and value["value"] is not None:
                assert math.isfinite(value["value"])


@pytest.fixture(scope="module")
def reported(replaying: Replaying) -> Path:
    """The folder of a report on all of this, and what was printed about it."""
    tasks = ResultsFile(replaying.folder / "tasks.jsonl", ABOUT)
    for episode in EPISODES:
        tasks.add(episode)
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
        *("replay", "replay_costs", "methods", "scorers", "singleton_rules", "policies"),
        *("non_compositionality", "reconstruction", "granularity", "interaction_properties", "margin_sweep"),
        *("score_distributions", "gate_curve", "beta_sensitivity", "attention_cases"),
        *("paper_eval40", "paper_ablations", "paper_full260"),
    }
    # What one test run does not allow, and what is not installed, is left out with the reason.
    assert {"mismatched-state", "layer_relations", "OpenHands condenser", "LRE"} <= set(printed["left_out"])
    assert {path.name for path in (reported / "tables").iterdir()} == {
        f"{name}.{kind}" for name in printed["tables"] for kind in ("csv", "md")
    }
    page = (reported / "index.html").read_text()
    tables_only = {"replay_costs", "methods", "paper_eval40", "paper_ablations", "paper_full260"}
    tables_only |= {"task_tokens", "task_paths", "tasks_by_domain"}
    assert page.count("<svg") == len(printed["tables"]) - len(tables_only)
    for words in ("not task reward", "reported by the paper", "What differs from the paper", "drsr evaluate --replay"):
        assert words in page
    assert "drsr evaluate --tasks sandbox --agent scripted --window 2048 --step-limit 24" in page
    for note in read_replay(replaying.folder / "var" / "evaluation" / "replay-test.jsonl").notes.values():
        for assumption in note.assumptions:
            assert html.escape(assumption) in page
    rows = list(csv.DictReader((reported / "tables" / "replay.csv").read_text().splitlines()))
    assert [row["method"] for row in rows][:2] == ["Baseline", "Sliding Window (K=5)"]
    assert any(row["method"] == "DRSR, without a risk gate" for row in rows)


def test_the_report_opens_without_a_network_in_light_and_dark(reported: Path, browser: Browser) -> None:
    ground = browser.grounds((reported / "index.html").as_uri(), NO_NETWORK)
    assert 0.9 < ground["light"] <= 1.0
    assert 0.0 < ground["dark"] < 0.2  # the style's own: unstyled it would be black
    page = (reported / "index.html").read_text()
    loaded = re.findall(r"""(?:src|srcset|action|poster|data|xlink:href|href)=["']([^"']*)""", page)
    assert all(value.startswith(("#", "tables/", "data:,")) for value in loaded)
    assert "url(http" not in page
    assert "@import" not in page


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
    assert (tmp_path / "var" / "report" / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--output", "params.yaml/page"), "params.yaml/page: cannot be written to"),
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl: there is no replay here"),
        (("--replay", "params.yaml"), "params.yaml: is no replay"),
        (("--tasks", "nowhere.jsonl"), "nowhere.jsonl: there are no results here"),
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
