"""How far remeasured labels may be from the recorded ones: what the dtype of the labeler rounds."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.audit.checks import labels
from drsr.offline.label.remeasure import Remeasured, remeasure
from tests.offline.audit.published import PublishedPipeline, audited, failures

APART = 5e-3


@pytest.mark.parametrize(("agreement", "caught"), [(1.5e-2, []), (1e-4, ["labels remeasured"])])
def test_harms_may_be_apart_by_what_the_dtype_rounds(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, agreement: float, caught: list[str]
) -> None:
    def rounded(*arguments: Any, **options: Any) -> Remeasured:
        found = remeasure(*arguments, **options)
        apart = tuple(label._replace(direct=label.direct + APART) for label in found.compared)
        return found._replace(agreement=agreement, compared=apart, largest_difference=APART)

    monkeypatch.setattr(labels, "remeasure", rounded)
    audit = audited(release, [labels.CHECK])
    assert list(failures(audit)) == caught
    (verdict,) = audit.verdicts
    assert verdict.evidence["agreement"] == agreement
    if not caught:
        assert "(allowed 0.015 in float32)" in verdict.detail
