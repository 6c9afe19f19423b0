"""prefect.yaml names flows that exist, with parameters that they take, on the two pools."""

from __future__ import annotations

import datetime
import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prefect import Flow

from drsr.errors import InputError
from drsr.flows import nightly as nightly_module
from drsr.flows import stage_tasks
from drsr.flows.stages.ingest import ingest
from drsr.offline.stages import NAMES

ROOT = Path(__file__).parents[2]
DOCUMENT = yaml.safe_load((ROOT / "prefect.yaml").read_text())
DEPLOYMENTS = {deployment["name"]: deployment for deployment in DOCUMENT["deployments"]}


def flow_of(deployment: dict[str, Any]) -> Flow:
    module, _, name = deployment["entrypoint"].rpartition(".")
    found = getattr(import_module(module), name)
    assert isinstance(found, Flow)
    return found


def test_there_is_one_for_every_flow() -> None:
    assert set(DEPLOYMENTS) == {*NAMES, "nightly", "backfill", "label-shard", "featurize-shard"}


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_a_deployment_runs_a_flow_of_its_name(name: str) -> None:
    deployment = DEPLOYMENTS[name]
    flow = flow_of(deployment)
    assert flow.name == name
    given = deployment.get("parameters", {})
    needed = {
        parameter.name: VALUES[parameter.name]
        for parameter in inspect.signature(flow.fn).parameters.values()
        if parameter.default is inspect.Parameter.empty
    }
    flow.validate_parameters(needed | given)
    assert bool(flow.timeout_seconds) is (name not in SEVERAL_STAGES)


@pytest.mark.parametrize("name", ["nightly", "ingest"])
def test_what_reads_runs_says_where_they_are(name: str) -> None:
    assert DEPLOYMENTS[name]["parameters"]["locations"]


def test_without_a_place_nothing_is_read() -> None:
    """Deployed without one, a night would train on the sample corpus."""
    with pytest.raises(InputError, match="no place to read recorded runs from"):
        ingest.fn()


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([{"uri": "s3://runs"}, {"uri": "s3://more"}], "nightly 2026-11-17 s3://runs and 1 more"),
        (None, "nightly 2026-11-17"),
    ],
)
def test_a_flow_run_is_named_by_its_day_and_place(places: Any, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(
        parameters={"locations": places}, scheduled_start_time=datetime.datetime(2026, 11, 17, 2, 15)
    )
    monkeypatch.setattr(nightly_module, "flow_run", runtime)
    assert nightly_module.run_name() == expected


def test_a_stage_s_flow_run_is_named_by_its_day_not_by_two_random_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard's is named by the stage that starts it, and a night's as above."""
    for name, deployment in DEPLOYMENTS.items():
        named = flow_of(deployment).flow_run_name
        expected = {"nightly": nightly_module.run_name, "label-shard": None, "featurize-shard": None}
        assert named is expected.get(name, stage_tasks.run_name), name
    runtime = SimpleNamespace(flow_name="label", scheduled_start_time=datetime.datetime(2026, 11, 17, 2, 15))
    monkeypatch.setattr(stage_tasks, "flow_run", runtime)
    assert stage_tasks.run_name() == "label 2026-11-17"


SEVERAL_STAGES = {"nightly", "backfill"}
"""Flows of flows: each stage of them has a limit, and they have none that would stand in its way."""
VALUES: dict[str, Any] = {"shard": 0, "of": 2, "days": {"since": "2026-11-01", "until": "2026-11-02"}}
"""For the parameters that have no default."""


def test_only_shards_need_the_gpu_pool_and_are_limited_there() -> None:
    on_gpu = {name for name, deployment in DEPLOYMENTS.items() if deployment["work_pool"]["name"] == "gpu"}
    assert on_gpu == {"label-shard", "featurize-shard"}
    assert all(DEPLOYMENTS[name]["concurrency_limit"]["limit"] >= 1 for name in on_gpu)


def test_the_night_is_scheduled_alone_and_fans_out_over_the_pool() -> None:
    nightly = DEPLOYMENTS["nightly"]
    assert [schedule["cron"] for schedule in nightly["schedules"] if schedule["active"]] == ["15 2 * * *"]
    assert nightly["concurrency_limit"]["limit"] == 1
    assert nightly["parameters"]["fan_out"]["over"] == "work-pool"


def test_the_night_leaves_pages_beside_its_index_and_records_only_where_a_team_says_so() -> None:
    """A worker's folder need not be a DVC repository: the image of docker/ is none."""
    nightly = DEPLOYMENTS["nightly"]
    defaults = {name: one.default for name, one in inspect.signature(flow_of(nightly).fn).parameters.items()}
    left = defaults | nightly["parameters"]
    assert (left["index"], left["docs"], left["dvc"]) == ("var/index", "var/docs", False)
    guide = (ROOT / "docs" / "guides" / "nightly.md").read_text()
    assert all(f"`{named}`" in guide for named in (left["index"], left["docs"], "dvc: true"))


def test_no_secret_is_a_parameter() -> None:
    words = ("password", "secret", "token", "key", "url")
    for deployment in DEPLOYMENTS.values():
        names = inspect.signature(flow_of(deployment).fn).parameters
        assert not [name for name in names if any(word in name for word in words)]
