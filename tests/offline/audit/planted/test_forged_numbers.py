"""Numbers in the wheel that no calibration chooses, and that claim more than was measured: every hash is in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drsr.decide.numbers import PolicyNumbers
from drsr.offline.audit.checks import calibration, chain
from drsr.offline.audit.release import gated_order
from drsr.offline.publish import stage
from drsr.offline.publish.candidate import policy_numbers
from drsr.offline.publish.gates import AGREEMENT
from drsr.offline.publish.stage import publish
from tests.offline.audit.published import PublishedPipeline, audited, failures
from tests.offline.small_pipeline import Pipeline, passed_unseen

Forgery = Callable[[PolicyNumbers], PolicyNumbers]


@pytest.fixture
def publish_forged(pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Publish with other numbers, and with no gate that would look."""

    def forged(forge: Forgery) -> PublishedPipeline:
        monkeypatch.setattr(stage, "policy_numbers", lambda *made: forge(policy_numbers(*made)))
        monkeypatch.setattr(stage, "AGREEMENT", AGREEMENT._replace(run=passed_unseen))
        order = replace(gated_order(index=tmp_path / "packages"), checks=(), wheel_checks=())
        done = publish(pipeline.catalog, pipeline.artifacts, pipeline.calibration, order)
        return PublishedPipeline(pipeline, tmp_path / "packages", done.wheel)

    return forged


def test_honest_numbers(publish_forged: Callable[[Forgery], PublishedPipeline]) -> None:
    release = publish_forged(lambda numbers: numbers)
    assert failures(audited(release, [chain.CHECK, calibration.CHECK])) == {}


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (
            lambda numbers: replace(numbers, harm_tolerance=0.001),
            "harm tolerance of the labels is 0.02, the policy has 0.001",
        ),
        (lambda numbers: replace(numbers, target_cap=99), "target cap of the labels is "),
        (lambda numbers: replace(numbers, context_cap=numbers.context_cap // 2), "candidate rule of the features is "),
        (
            lambda numbers: replace(numbers, calibration={**numbers.calibration, "mode": "certified"}),
            "shipped mode is certified, searched again it is plain",
        ),
    ],
)
def test_a_number_that_claims_more(
    publish_forged: Callable[[Forgery], PublishedPipeline], forge: Forgery, says: str
) -> None:
    caught = failures(audited(publish_forged(forge), [chain.CHECK, calibration.CHECK]))
    assert list(caught) == ["calibration repeated"]
    assert says in caught["calibration repeated"]
