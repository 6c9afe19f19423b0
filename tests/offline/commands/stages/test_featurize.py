"""`drsr featurize`, and how `label`, `status` and `plan` speak of features, with a tiny language model on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.chat_files import chat, task_in_split, write_json
from tests.offline.commands.conftest import Drsr
from tests.tiny_models import build_tiny

COLUMNS = 58 + 4 * (4 * 3 + 5) + 4 * 5 + 4 * 128


@pytest.fixture
def ready(drsr: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drsr:
    """Runs of two splits with four states, frozen for a tiny Llama."""
    build_tiny("llama", tmp_path / "llama")
    monkeypatch.setenv("DRSR_BACKBONE", f"path:{tmp_path / 'llama'}")
    for seed, (steps, split) in enumerate(((5, "train"), (8, "test"))):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps) | {"task": task_in_split(split)})
    drsr("ingest", "runs")
    assert "2 trajectories frozen" in drsr("freeze").out
    return drsr


def test_what_waits_is_featurized_once(ready: Drsr) -> None:
    first = ready("featurize", "--limit", "1")
    assert first.code == 0
    assert "1 states featurized with " in first.out
    rest = ready("featurize", "--json").json
    assert (rest["states"], rest["featurized"], rest["excluded"]) == (3, 3, {})
    assert ready("featurize").out == "nothing to featurize: every frozen state has its features\n"
    assert ready("featurize", "--json").json == {"states": 0}
    (view,) = ready("status", "--json").json["views"]
    assert view.pop("backbone").startswith("path:")
    assert view == {
        "name": "default",
        "version": 1,
        "columns": COLUMNS,
        "stored": 4,
        "excluded": 0,
        "waiting": 0,
        "stale": 0,
        "files": 2,
    }
    assert "feature view" in ready("status").out


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_workers_and_parts(ready: Drsr) -> None:
    assert ready("featurize", "--where", "split=train", "--json").json["states"] == 1
    assert ready("featurize", "--workers", "2", "--json").json["states"] == 3


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_labelling_fills_the_view_and_the_plan_says_so(ready: Drsr) -> None:
    before = ready("plan", "--no-price", "--json").json["featurize"]
    assert (before["states"], before["with_labels"], before["tokens"]) == (4, 4, 0)
    labelled = ready("label", "--where", "split=train")
    assert "features of 1 states were collected in the same walk" in labelled.out
    after = ready("plan", "--no-price").out
    assert "featurize: 3 states, 3 of them while they are labelled" in after
    ready("label")
    assert "featurize: nothing to do" in ready("plan").out
    assert ready("featurize").out.startswith("nothing to featurize")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_plan_prices_what_labelling_will_not_bring(ready: Drsr) -> None:
    ready("label")
    other = ready("plan", "--view", "other")
    assert "label: nothing to do" in other.out
    assert "featurize: 4 states, 0 of them while they are labelled" in other.out
    assert "tokens of 2 trajectories, about " in other.out


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_statistics_per_column(ready: Drsr) -> None:
    ready("featurize")
    shown = ready("featurize", "--statistics")
    assert shown.code == 0
    assert f"feature view default version 1: {COLUMNS} columns" in shown.out
    assert "drift from train" in shown.out
    found = ready("featurize", "--statistics", "--json").json
    assert [split["split"] for split in found["splits"]] == ["train", "test"]
    assert all(len(split["columns"]) == COLUMNS for split in found["splits"])


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--limit", "0"), "--limit must be at least 1"),
            (("--workers", "0"), "--workers must be at least 1"),
            (("--where", "split=dev"), "is not understood"),
            (("--source", "nope"), "no source is called 'nope'"),
            (("--statistics", "--view", "nope"), "no feature view is called 'nope'"),
        ],
    )
    def test_bad_options(self, ready: Drsr, arguments: tuple[str, ...], words: str) -> None:
        refused = ready("featurize", *arguments)
        assert (refused.code, refused.out) == (2, "")
        assert words in refused.err

    def test_a_double_without_layers(self, drsr: Drsr, tmp_path: Path) -> None:
        write_json(tmp_path / "runs" / "a.json", chat(1, steps=8))
        drsr("ingest", "runs")
        refused = drsr("featurize")
        assert refused.code != 0
        assert "the backbone 'scripted' has no layers to read features from" in refused.err
        assert "featurize: refused, the backbone 'scripted' has no layers" in drsr("plan", "--no-price").out

    def test_another_language_model_under_the_same_name(
        self, ready: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ready("featurize")
        build_tiny("llama", tmp_path / "other", seed=1)
        monkeypatch.setenv("DRSR_BACKBONE", f"path:{tmp_path / 'other'}")
        ready("freeze")
        refused = ready("featurize")
        assert refused.code == 2
        assert "read from a language model with backbone_identity" in refused.err
        labelled = ready("label", "--labeler", "other")
        assert labelled.code == 0
        assert "features" not in labelled.out, "labels can be measured with any model, the view is one model's"
        assert ready("featurize", "--view", "other", "--json").json["states"] == 4
