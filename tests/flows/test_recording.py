"""DVC remembers every night: what was recorded is clean, travels to remotes, and comes back byte by byte."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.cli import build_parser
from drsr.errors import CatalogError, CatalogUnreachable, InputError
from drsr.flows.recording import changed, record
from drsr.flows.sample import main as sample_command
from drsr.flows.wishes import Wishes
from drsr.offline.audit.release import gated_order
from drsr.offline.freeze.stage import freeze
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.stages import NAMES
from drsr.offline.store import dvc_calls
from drsr.offline.store.dvc_calls import with_dvc
from drsr.offline.store.exports import CONTENTS
from drsr.request.view import caps_for
from scripts.code_map import ROOT
from tests.flows.dvc_repositories import commit, git, new_repository
from tests.offline.conftest import bucket as bucket  # noqa: PLC0414 - a fixture
from tests.offline.small_pipeline import Pipeline, add_runs, featurize, fit, publish_quickly, quick_params, run_stages
from tests.offline.test_stage_exports import content, evaluated

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC's use of pygtrie
DVC_YAML = yaml.safe_load((ROOT / "dvc.yaml").read_text())


class Nights(NamedTuple):
    """A repository with two recorded nights."""

    repository: Path
    revisions: list[str]
    exports: list[dict[str, str]]
    """What lay in exports/ after each."""
    outputs: list[dict[str, str]]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """All stages, recorded; then more runs, and all stages again."""
    folder = tmp_path_factory.mktemp("nights")
    repository = new_repository(folder / "repository")
    pipeline = run_stages(folder / "pipeline")
    found = Nights(repository, [], [], [])
    with pytest.MonkeyPatch.context() as environment:
        environment.chdir(repository)
        for name, value in pipeline.settings.items():
            environment.setenv(name, value)
        for night in range(2):
            if night:
                pipeline = grown(pipeline)
            evaluated(pipeline)
            order = gated_order(folder / "index", version=f"1.{night}")
            publish_quickly(pipeline, order)
            outputs = [record(stage).outputs for stage in NAMES]
            found.outputs.append({path: value for each in outputs for path, value in each.items()})
            assert changed() == {}
            found.revisions.append(commit(repository, f"night {night}"))
            found.exports.append(content(repository / "exports"))
    pipeline.catalog.close()
    return found


def grown(pipeline: Pipeline) -> Pipeline:
    """The stages again after more runs came."""
    catalog, artifacts = pipeline.catalog, pipeline.artifacts
    backbone = load_backbone(pipeline.backbone)
    assert isinstance(backbone, FrozenLM)
    caps = caps_for(backbone.window)
    add_runs(catalog, artifacts, pipeline.folder, first=700, runs={"train": 1, "validation": 1})
    freeze(catalog, artifacts, backbone.tokenizer, caps)
    scorer = TargetNll(backbone)
    label(catalog, artifacts, scorer, label_run(scorer, "float32", caps))
    featurize(catalog, artifacts, backbone, caps)
    return pipeline._replace(calibration=fit(catalog, artifacts, pipeline.folder, quick_params()))


def test_the_stages_of_dvc_yaml_are_the_stages() -> None:
    assert tuple(DVC_YAML["stages"]) == NAMES
    for stage, found in DVC_YAML["stages"].items():
        outs = [next(iter(out)) if isinstance(out, dict) else out for out in found["outs"]]
        assert outs == [f"exports/{stage}/{CONTENTS[stage]}"]
        assert found["metrics"] == [f"exports/{stage}/summary.json"]


def test_the_commands_of_dvc_yaml_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = build_parser()
    for stage, found in DVC_YAML["stages"].items():
        assert found["cmd"][-1].startswith(f"python -m drsr export exports --stage {stage}")
        for line in found["cmd"]:
            python, _, module, *arguments = line.split()
            assert python == "python"
            if module == "drsr":
                assert parser.parse_args(arguments).run
            else:
                assert (module, arguments) == ("drsr.flows.sample", ["--if-it-fits"])
                monkeypatch.setenv("DRSR_CATALOG_URL", "sqlite:////nowhere/catalog.sqlite")
                assert sample_command(arguments) == 2  # the option is known; the catalog is not


def test_a_refresh_looks_whether_its_recording_is_still_here(
    nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at what another clone has, nor at an older revision, nor at files that somebody removed."""
    repository = shutil.copytree(nights.repository, tmp_path / "repository")
    monkeypatch.chdir(repository)
    wishes, (first, second) = Wishes("index", dvc=True), nights.outputs
    assert wishes.are_met({"published": False, "recorded": second})
    assert not wishes.are_met({"published": False, "recorded": first}), "clean, and of another night"
    (repository / "other.txt").write_text("a team's own")
    with_dvc(repository, lambda repo: repo.add("other.txt"))
    (repository / "other.txt").write_text("changed since")
    assert wishes.are_met({"published": False, "recorded": second}), "what else is in the repository does not matter"
    (repository / "exports" / "publish" / "summary.json").unlink()
    assert not wishes.are_met({"published": False, "recorded": second})


def test_dvc_lock_names_what_was_exported(nights: Nights) -> None:
    lock = yaml.safe_load((nights.repository / "dvc.lock").read_text())
    named = {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage["outs"]}
    assert named == nights.outputs[1]
    assert set(named) == {f"exports/{stage}/{name}" for stage in NAMES for name in (CONTENTS[stage], "summary.json")}
    assert git(nights.repository, "status", "--porcelain") == ""  # the files themselves are DVC's


def test_nothing_is_left_to_reproduce(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nights.repository)
    done = with_dvc(nights.repository, lambda repo: repo.reproduce())
    assert done == []


def test_the_second_night_adds_to_the_first(nights: Nights) -> None:
    first, second = nights.exports
    for stage in ("ingest", "freeze", "label", "featurize"):
        parts = {name: value for name, value in first.items() if name.startswith(f"{stage}/{CONTENTS[stage]}/")}
        assert parts.items() < second.items()
    assert first["train/scorer/scorer.safetensors"] != second["train/scorer/scorer.safetensors"]
    assert "publish/policy/drsr_policy-1.0-py3-none-any.whl" in first
    assert "publish/policy/drsr_policy-1.0-py3-none-any.whl" not in second


def test_an_older_revision_comes_back_byte_by_byte(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nights.repository)
    for night in (0, 1):
        git(nights.repository, "checkout", "--quiet", nights.revisions[night])
        with_dvc(nights.repository, lambda repo: repo.checkout(force=True))
        assert content(nights.repository / "exports") == nights.exports[night]
        assert changed() == {}


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_clone_pulls_what_was_pushed(
    kind: str, nights: Nights, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "remote") if kind == "local" else f"{bucket}/dvc"
    for revision in nights.revisions:
        git(nights.repository, "checkout", "--quiet", revision)
        assert with_dvc(nights.repository, lambda repo: repo.push(remote=remote(repo, url))) > 0
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(nights.repository), str(clone))
    monkeypatch.chdir(clone)
    for night in (1, 0):
        git(clone, "checkout", "--quiet", nights.revisions[night])
        with_dvc(clone, lambda repo: repo.pull(remote=remote(repo, url), force=True))
        assert content(clone / "exports") == nights.exports[night]
        assert changed() == {}


def test_the_guide_does_what_it_says(nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of docs/guides/history.md, in a repository whose last night is not committed yet."""
    repository = tmp_path / "repository"
    git(nights.repository, "checkout", "--quiet", nights.revisions[1])
    with_dvc(nights.repository, lambda repo: repo.checkout(force=True))
    shutil.copytree(nights.repository, repository)
    (repository / ".dvc" / "config.local").unlink(missing_ok=True)  # another test's remote
    git(repository, "reset", "--quiet", "--soft", nights.revisions[0])
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "nobody")
    text = (ROOT / "docs" / "guides" / "history.md").read_text()
    blocks = "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", blocks, re.MULTILINE)
    assert len(commands) == 8
    for line, shown in commands:
        words = shlex.split(line.replace("/srv/dvc", str(tmp_path / "remote")))
        command = [sys.executable, "-m", "dvc", *words[1:]] if words[0] == "dvc" else words
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        if shown != "...\n":
            assert done.stdout == shown, line
    assert content(repository / "exports") == nights.exports[0]
    pushed = [path for path in (tmp_path / "remote").rglob("*") if path.is_file()]
    assert len(pushed) > len(NAMES)


def remote(repo: Any, url: str) -> str:
    """Configures it for this repository only; `dvc remote add --local` does the same."""
    with repo.config.edit("local") as settings:
        settings["remote"]["shared"] = {"url": url}
    return "shared"


def test_the_page_of_plots_asks_nobody(nights: Nights, tmp_path: Path) -> None:
    """DVC's own loads scripts from the network. Every number that is drawn stands in ours."""
    command = [sys.executable, "-m", "dvc", "plots", "show", "--out", str(tmp_path / "plots")]
    subprocess.run(command, cwd=nights.repository, check=True, capture_output=True)
    page = (tmp_path / "plots" / "index.html").read_text()
    assert not re.findall(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=|@import|url\(|fetch\(|XMLHttp""", page)
    assert "function vegaEmbed(" in page
    specs = [json.loads(found) for found in re.findall(r"var spec = (\{.*?\});\n", page, re.DOTALL)]
    drawn = {spec["title"]["text"]: spec for spec in specs}
    named = {plot["title"]: (path, plot) for each in DVC_YAML["plots"] for path, plot in each.items()}
    assert set(drawn) == set(named)
    for title, (path, plot) in named.items():
        rows = list(csv.DictReader((nights.repository / path).read_text().splitlines()))
        spec = drawn[title]
        assert (spec["mark"]["type"], spec["encoding"]["x"]["field"]) == ("point", plot["x"]), "what the page can draw"
        found = [(row[plot["x"]], row[plot["y"]]) for row in spec["data"]["values"]]
        assert found == [(row[plot["x"]], row[plot["y"]]) for row in rows]


def test_nothing_phones_home() -> None:
    settings = (ROOT / ".dvc" / "config").read_text()
    assert "analytics = false" in settings
    assert "check_update = false" in settings


def test_elsewhere_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not a DVC repository .* has no .dvc"):
        record("label")
    assert list(tmp_path.iterdir()) == []


def test_what_dvc_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = new_repository(tmp_path / "repository")
    monkeypatch.chdir(repository)
    with pytest.raises(CatalogError, match=r"DVC refuses: .*exports"):
        with_dvc(repository, lambda repo: repo.commit("label", force=True))


def test_another_dvc_command_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = new_repository(tmp_path / "repository")
    tried = threading.Event()

    def busy(repo: Any) -> str:
        from dvc.lock import LockError

        if tried.is_set():
            return "done"
        tried.set()
        raise LockError("another process is at it")

    assert with_dvc(repository, busy) == "done"
    monkeypatch.setattr(dvc_calls, "LOCK_SECONDS", -1.0)
    tried.clear()
    with pytest.raises(CatalogUnreachable, match="another process is at it"):
        with_dvc(repository, busy)
