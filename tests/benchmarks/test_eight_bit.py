"""Requests decided twice by an 8-bit backbone: the benchmark's own code on a few runs with a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.eight_bit import decided_twice, featurized, shown
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from tests.features.states import run_messages
from tests.tiny_models import build_tiny


def test_offline_and_online_give_the_same_verdicts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for seed in (3, 4):
        body = {"messages": run_messages(9, seed=seed)}
        (runs / f"{seed}.json").write_text(json.dumps(body))
    backbone = load_backbone(f"int8:path:{build_tiny('llama', tmp_path / 'model')}")
    assert isinstance(backbone, FrozenLM)
    stored = featurized(backbone, str(runs), 4, tmp_path)
    assert len(stored) == 4
    found = list(decided_twice(backbone, stored))
    assert all(one.is_same and one.difference < 1e-5 for one in found)
    assert any(one.offline for one in found), "the threshold lets some pass"
    assert "4 of 4 verdicts are the same" in shown("tiny", found)
    other = [one._replace(matrix=one.matrix + 10) for one in stored]
    assert not all(one.difference < 1 for one in decided_twice(backbone, other)), "other features are seen"
