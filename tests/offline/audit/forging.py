"""Build the wheel of a release anew with other contents, every hash inside it in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from drsr.decide.distribution import DISTRIBUTION_FILE, TrainingDistribution
from drsr.offline.publish.package import build_package
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.generated import CARD_FILE
from drsr.policy.golden import GoldenRequest, read_golden
from drsr.policy.location import read_found
from drsr.scorer.ensemble import Ensemble
from tests.offline.audit.published import (
    PublishedPipeline,
)


def load_shipped(release: PublishedPipeline) -> Ensemble:
    scorer = read_found(str(release.wheel)).scorer
    assert isinstance(scorer, Ensemble)
    return scorer


def forge(
    release: PublishedPipeline,
    *,
    scorer: Ensemble | None = None,
    lineage: bytes | None = None,
    known: TrainingDistribution | None = None,
    golden: Sequence[GoldenRequest] | None = None,
    **numbers: Any,
) -> None:
    """Build the wheel anew with other contents, every hash inside it in order."""
    files = read_found(str(release.wheel))
    package = build_package(
        replace(files.numbers, **numbers),
        scorer or files.scorer,
        read_golden(files, str(release.wheel)) if golden is None else golden,
        lineage or files.others[LINEAGE_FILE],
        files.others[CARD_FILE].decode(),
        {} if known is None else {DISTRIBUTION_FILE: known.data},
    )
    release.wheel.write_bytes(package.data)
