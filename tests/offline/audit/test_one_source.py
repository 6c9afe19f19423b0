"""A policy of one source, such as one tenant's: made from its states alone, said so, and judged so again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.cli import main
from drsr.offline.audit.journal import CHECK as JOURNAL
from drsr.offline.audit.running import RETRAIN
from drsr.offline.freeze.stage import freeze
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.params import Params
from drsr.offline.publish.lineage import trace
from drsr.offline.publish.refreshes import new_labels
from drsr.offline.publish.stage import find_calibration
from drsr.offline.publish.succession import released_policy
from drsr.offline.train.ablations import FULL, column_group
from drsr.offline.train.stage import read_inputs, run_key
from drsr.policy.location import read_found
from drsr.request.view import caps_for
from tests.made_once import made_once
from tests.offline.audit.published import WITHOUT_MODEL, audited, by_hand, failures, publish_again
from tests.offline.small_pipeline import Pipeline, add_runs, copy_of, featurize, fit, found, quick_params, write_params

TENANT = "acme"


def of_tenant() -> Params:
    numbers = quick_params()
    return replace(numbers, train=replace(numbers.train, source=TENANT))


@pytest.fixture(scope="session")
def finished_tenants(finished_pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The small pipeline with a second source, and a scorer of its own for that one. Never to be changed."""

    def make(folder: Path) -> None:
        folder = folder / "copy"
        copied = copy_of(finished_pipeline, folder)
        loaded = load_backbone(copied.backbone)
        assert isinstance(loaded, FrozenLM)
        caps = caps_for(loaded.window)
        add_runs(copied.catalog, copied.artifacts, folder, first=500, source=TENANT)
        freeze(copied.catalog, copied.artifacts, loaded.tokenizer, caps)
        scorer = TargetNll(loaded)
        label(copied.catalog, copied.artifacts, scorer, label_run(scorer, "float32", caps))
        featurize(copied.catalog, copied.artifacts, loaded, caps)
        fit(copied.catalog, copied.artifacts, folder, of_tenant())
        copied.catalog.close()

    return found(made_once(tmp_path_factory, "tenants", make) / "copy", finished_pipeline.backbone)


@pytest.fixture
def tenants(finished_tenants: Pipeline, tmp_path: Path) -> Pipeline:
    copied = copy_of(finished_tenants, tmp_path / "tenants")
    return copied._replace(calibration=find_calibration(copied.catalog, None, source=TENANT))


def test_a_policy_of_one_source_says_so_and_passes_its_audit(tenants: Pipeline, tmp_path: Path) -> None:
    traced = trace(tenants.catalog, tenants.artifacts, tenants.calibration)
    assert traced.problems == ()
    assert {state.source for state in traced.states} == {TENANT}
    assert traced.run.source == TENANT
    facts = {link.link: link.facts for link in traced.links}
    assert facts["trajectories"]["sources"] == {TENANT: 7}
    assert facts["training"]["params"]["source"] == TENANT
    release = publish_again(tenants, tmp_path / "packages")
    files = read_found(str(release.wheel)).others
    assert f"of the source {TENANT}: it is a policy for its runs alone" in files["MODEL_CARD.md"].decode()
    assert failures(audited(release, [*WITHOUT_MODEL, JOURNAL, RETRAIN])) == {}
    newest = released_policy(tenants.catalog, source=TENANT)
    assert newest is not None
    assert newest.calibration.calibration_key == tenants.calibration.calibration_key
    assert released_policy(tenants.catalog) is None


def test_other_sources_change_nothing_for_it(tenants: Pipeline) -> None:
    whole = read_inputs(tenants.catalog, tenants.artifacts, "default", "default", "train")
    alone = read_inputs(tenants.catalog, tenants.artifacts, "default", "default", "train", TENANT)
    assert {name.partition("/")[0] for name in whole.train.trajectory_ids} == {TENANT, "runs"}
    mine = [name for name in whole.train.trajectory_ids if name.startswith(f"{TENANT}/")]
    assert list(alone.train.trajectory_ids) == mine
    assert len(alone.train) == sum(whole.train.trajectory_ids[state].startswith(TENANT) for state in whole.train.state)
    # A plain calibration and this one do not take each other's place.
    assert find_calibration(tenants.catalog, None).training_run_id != tenants.calibration.training_run_id
    new = new_labels(tenants.catalog, "default", "default", TENANT)
    assert new is not None
    assert (new.states, new.others_gone) == (0, False)
    everything = new_labels(tenants.catalog, "default", "default")
    assert everything is not None
    assert everything.states == new.seen  # what the plain scorer has not seen is all that this one has


def test_a_scorer_that_only_says_it_is_of_one_source(tenants: Pipeline) -> None:
    """Made from all, with every key in order."""
    forged = fit(tenants.catalog, tenants.artifacts, tenants.folder, quick_params())
    traced = trace(tenants.catalog, tenants.artifacts, forged)
    assert traced.problems == ()
    run = traced.run
    claimed = {**run.params, "source": TENANT}
    groups = tuple(map(column_group, traced.view.columns))
    key = run_key(run.version, claimed, FULL, groups, run.train_hash, run.validation_hash)
    by_hand(tenants, "UPDATE training_run SET params = ?, run_key = ? WHERE id = ?", orjson.dumps(claimed), key, run.id)
    keys = [state.state_key for state in traced.states]
    problems = trace(tenants.catalog, tenants.artifacts, forged, keys).problems
    others = sum(state.source != TENANT for state in traced.states)
    assert others > 0
    assert len(problems) == others
    assert all(f"said to be of source {TENANT} alone, and was made from state" in problem for problem in problems)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tenants: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in the pipeline's folder."""
    monkeypatch.chdir(tenants.folder)
    write_params(tenants.folder)
    for name, value in tenants.settings.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(arguments), *capsys.readouterr()

    return run


def test_the_commands_agree_on_the_source(tenants: Pipeline, run: Run) -> None:
    code, out, _ = run("train", "--source", TENANT, "--json")
    assert (code, json.loads(out)[0]["is_new"]) == (0, False)
    code, out, _ = run("calibrate", "--source", TENANT, "--json")
    assert (code, json.loads(out)["calibration_key"]) == (0, tenants.calibration.calibration_key)
    code, out, _ = run("train", "--source", TENANT)
    assert f"only of the source {TENANT}\n" in out
    for command in ("train", "calibrate", "evaluate"):
        code, _, err = run(command, "--source", "nobody")
        assert (code, f"the sources are {TENANT}, runs" in err) == (2, True), err
    code, _, err = run("publish", "--source", "runs", "--without-expectations")
    assert (code, "drsr train --source runs, then drsr calibrate --source runs" in err) == (2, True), err
