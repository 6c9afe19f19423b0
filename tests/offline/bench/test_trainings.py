from __future__ import annotations

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy, training_of
from drsr.offline.bench.replay.file import note_of
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.bench.trainings import different_trainings
from drsr.policy.scripted import scripted_policy

POLICY = DrsrPolicy(scripted_policy())
FULL = training_of(scripted_policy().frozen.scorer)
ABLATION = DrsrPolicy(scripted_policy(seed=5), name="drsr_structural_only", title="DRSR, less", training=FULL)


def said(*methods: Comparator) -> str:
    return different_trainings([note_of(method, ScriptedSummariser(ScriptedTokenizer())) for method in methods])


def test_an_ablation_is_of_the_training_of_its_full_scorer() -> None:
    """Its own weights are others."""
    assert POLICY.training == FULL != training_of(ABLATION.policy.frozen.scorer)
    assert said(Baseline(), POLICY, ABLATION) == ""


def test_another_operating_point_is_of_the_same_training() -> None:
    stricter = DrsrPolicy(scripted_policy(risk_threshold=None))
    assert stricter.identity != POLICY.identity
    assert said(stricter, ABLATION) == ""


def test_other_weights_are_of_another_training() -> None:
    newer = DrsrPolicy(scripted_policy(seed=5))
    assert f"of {newer.training[:12]} DRSR; of {FULL[:12]} DRSR, less" in said(Baseline(), newer, ABLATION)
