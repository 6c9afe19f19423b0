"""`drsr evaluate --tasks`: whole tasks with methods in between, from the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.bench.harness import summary
from drsr.offline.bench.harness.endpoint_agent import EndpointAgent
from drsr.offline.bench.harness.episode import Episode
from drsr.offline.bench.harness.sandbox_suite import sandbox_task
from drsr.offline.bench.harness.shared_runs import Shared, shared_runs
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.sandbox.corpus import write_corpus
from drsr.offline.sandbox.recorder import record
from drsr.offline.store import progress
from drsr.policy.scripted import scripted_policy
from tests.offline.bench.harness.settings import BALANCE, ORDER
from tests.offline.bench.loopback_endpoint import Asked, Reply, completion, loopback_endpoint
from tests.offline.commands.conftest import Drsr
from tests.offline.sandbox.conversations import agent

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
QUICK = ("--replicates", "50")
METHODS = ("--methods", "sliding_window_5,structural_pruning")


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two tasks without a subprocess."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)
    value = {
        "format": "drsr tasks/1",
        "name": "two",
        "suite": "sandbox",
        "weighting": "tasks",
        "counts": {"office": 1, "web": 1},
        "tasks": [task._asdict() for task in (BALANCE, ORDER)],
    }
    path = tmp_path / "two.json"
    path.write_text(json.dumps(value))
    return str(path)


def test_two_tasks_with_three_methods(drsr: Drsr, manifest: str, tmp_path: Path) -> None:
    outcome = drsr("evaluate", "--tasks", manifest, "--agent", "scripted", *METHODS, *QUICK)
    assert (outcome.code, outcome.err) == (0, "")
    for words in ("Whole tasks", "Structural Pruning", "cache creation", "reported by the paper", "tasks-two.jsonl"):
        assert words in outcome.out
    results = tmp_path / "var" / "evaluation" / "tasks-two.jsonl"
    told, *rows = [json.loads(line) for line in results.read_text().splitlines()[1:]]
    assert told["told"][:4] == ["--tasks", manifest, "--agent", "scripted"]
    assert {"--methods", METHODS[1], "--seed", "--step-limit"} <= set(told["told"])
    assert told["versions"] == {"baseline": "", "sliding_window_5": "", "structural_pruning": ""}
    methods = ["baseline", "sliding_window_5", "structural_pruning"]
    assert [(row["task"], row["method"]) for row in rows] == [(t.id, m) for t in (BALANCE, ORDER) for m in methods]
    assert all(row["reward"] == 1.0 for row in rows if row["method"] == "baseline")
    tables = sorted(path.name for path in results.with_suffix("").iterdir())
    kinds = [
        f"{name}.{kind}" for name in ("task_paths", "task_tokens", "tasks", "tasks_by_domain") for kind in ("csv", "md")
    ]
    assert tables == sorted([*kinds, "results.json"])
    before = results.read_bytes()
    found = drsr("evaluate", "--tasks", manifest, *METHODS, *QUICK, "--json").json
    assert results.read_bytes() == before
    assert found == json.loads((results.with_suffix("") / "results.json").read_text())
    assert [row["method"] for row in found["methods"]] == methods
    base, window, _ = found["methods"]
    assert (base["tasks"], base["failed"], base["change"]["tasks"]["value"]) == (2, 0, 0)
    assert window["direct"] > 0
    assert window["decomposition"]["saved"] == pytest.approx(window["direct"] + window["decomposition"]["residual"])
    assert set(found["domains"]) == {"office", "web"}


def test_results_are_summarised_once(drsr: Drsr, manifest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the tables and for JSON: all intervals are drawn in it."""
    summarised = []

    def counted(episodes: list[Episode]) -> Shared:
        summarised.append(episodes)
        return shared_runs(episodes)

    monkeypatch.setattr(summary, "shared_runs", counted)
    assert drsr("evaluate", "--tasks", manifest, "--methods", "baseline", *QUICK).code == 0
    assert [len(episodes) for episodes in summarised] == [2]


def test_a_policy_is_a_method_and_the_baseline_comes_along(drsr: Drsr, manifest: str, tmp_path: Path) -> None:
    scripted_policy().save(tmp_path / "policy")
    options = ("--methods", "drsr", "--policy", str(tmp_path / "policy"), "--limit", "1")
    found = drsr("evaluate", "--tasks", manifest, *options, *QUICK, "--json").json
    assert [row["method"] for row in found["methods"]] == ["baseline", "drsr"]
    assert found["tasks"] == 1
    assert found["methods"][1]["direct"] > 0


def test_a_model_behind_an_endpoint(drsr: Drsr, manifest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint is the sandbox's own agent, so it must do as well as the double does."""
    asked: list[Asked] = []

    def reply(found: Asked) -> Reply:
        asked.append(found)
        size = len(json.dumps(found.body["messages"])) // 4
        return Reply(completion(agent(found.body["messages"]), size, 20, cached_tokens=size // 2))

    monkeypatch.setenv("DRSR_AGENT_KEY", "secret")
    with loopback_endpoint(reply) as url:
        options = ("--agent", url, "--agent-model", "tiny", "--run-commands", "--methods", "baseline", "--seed", "4")
        found = drsr("evaluate", "--tasks", manifest, *options, *QUICK, "--json").json
    (row,) = found["methods"]
    assert (row["reward"]["tasks"]["value"], row["failed"]) == (1.0, 0)
    assert row["requests"] * 2 == len(asked)
    assert row["tokens"]["output"] == 20 * row["requests"]
    assert 0 < row["tokens"]["cache_read"] < row["tokens"]["input"]
    assert {(one.authorization, one.body["model"], one.body["seed"]) for one in asked} == {("Bearer secret", "tiny", 4)}
    assert "secret" not in json.dumps(found)


def test_an_endpoint_that_is_not_there(drsr: Drsr, manifest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = EndpointAgent.__init__

    def hurried(self: EndpointAgent, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options, pause=lambda seconds: None)

    monkeypatch.setattr(EndpointAgent, "__init__", hurried)
    with loopback_endpoint(lambda asked: Reply({})) as url:
        pass
    outcome = drsr(
        "evaluate",
        "--tasks",
        manifest,
        "--agent",
        url,
        "--agent-model",
        "tiny",
        "--run-commands",
        "--methods",
        "baseline",
    )
    assert outcome.code == 2
    assert "no answer after 5 attempts" in outcome.err


def test_tasks_that_were_learned_from_are_refused(drsr: Drsr, manifest: str, tmp_path: Path) -> None:
    split = assign_split(group_key("sandbox", "", BALANCE.id))
    assert split == "train"
    write_corpus([record(sandbox_task(BALANCE.id), 0)], tmp_path / "runs.jsonl.gz")
    assert drsr("ingest", str(tmp_path / "runs.jsonl.gz")).code == 0
    outcome = drsr("evaluate", "--tasks", manifest, *METHODS)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"1 of its tasks were learned from: {BALANCE.id}" in outcome.err
    assert not (tmp_path / "var" / "evaluation").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--tasks", "full260"), "claims 80 code, 50 office, 60 security, 70 web"),
        (("--tasks", "eval40"), "nothing here can run tasks of 'workbuddybench'"),
        (("--tasks", "nothing.json"), "there is no such list of tasks"),
        (("--tasks", "two.json", "--methods", "magic"), "no method is called 'magic'"),
        (("--tasks", "two.json", "--methods", "lre"), "lre cannot run here: not trained"),
        (("--tasks", "two.json", "--methods", ","), "no method is called ''"),
        (("--tasks", "two.json", "--agent", "somebody"), "unknown agent 'somebody'"),
        (("--tasks", "two.json", "--agent", "http://127.0.0.1:1/v1"), "needs the name of a model"),
        (("--tasks", "two.json", "--agent", "http://127.0.0.1:1/v1", "--agent-model", "m"), "with your rights"),
        (("--tasks", "two.json", "--step-limit", "0"), "--step-limit must be at least 1"),
        (("--tasks", "two.json", "--limit", "0"), "--limit must be at least 1"),
        (("--tasks", "two.json", "--replay"), "a separate evaluation"),
        (("--tasks", "two.json", "--ablations"), "ablations are trained from labels, and there is no catalog here"),
    ],
)
def test_bad_usage(drsr: Drsr, manifest: str, tmp_path: Path, options: tuple[str, ...], complaint: str) -> None:
    outcome = drsr("evaluate", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert complaint in outcome.err
    assert not (tmp_path / "var").exists()


def test_two_machines_make_what_one_makes(drsr: Drsr, manifest: str) -> None:
    whole = drsr("evaluate", "--tasks", manifest, *METHODS, *QUICK, "--parallel", "3", "--json").json
    for part in ("1", "2"):
        some = drsr(
            "evaluate", "--tasks", manifest, *METHODS, *QUICK, "--part", f"{part}/2", "--output", f"{part}.jsonl"
        )
        assert some.code == 0
    files = ("--merge", "1.jsonl", "2.jsonl", "--output", "both.jsonl")
    merged = drsr("evaluate", "--tasks", manifest, *METHODS, *QUICK, *files, "--json")
    assert merged.err == "drsr: 6 results of other files taken over\n"
    assert merged.json == whole


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2"])
def test_a_part_is_a_part(drsr: Drsr, manifest: str, part: str) -> None:
    refused = drsr("evaluate", "--tasks", manifest, f"--part={part}")
    assert (refused.code, refused.out) == (2, "")
    assert "is not part of a whole" in refused.err


def test_long_tasks_have_more_steps(drsr: Drsr, manifest: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A suite that is not the sandbox: its tasks take hundreds of requests."""
    from drsr.offline.bench.harness import suite
    from drsr.offline.bench.harness.sandbox_suite import SandboxSuite

    monkeypatch.setattr(suite, "find_suite", lambda name: SandboxSuite())
    long = json.loads(Path(manifest).read_text()) | {"suite": "long", "name": "long"}
    Path("long.json").write_text(json.dumps(long))
    with loopback_endpoint(lambda asked: Reply(completion(agent(asked.body["messages"]), 100, 20))) as url:
        endpoint = ("--agent", url, "--agent-model", "m", "--run-commands")
        assert drsr("evaluate", "--tasks", "long.json", *endpoint, "--methods", "baseline", *QUICK).code == 0
    about = json.loads((tmp_path / "var" / "evaluation" / "tasks-long.jsonl").read_text().splitlines()[0])
    assert about["step_limit"] == 400
