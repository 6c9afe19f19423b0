"""The flow `nightly` with doubles of its stages: what one stage hands to another."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flows import nightly


def test_what_was_calibrated_tonight_is_what_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not whatever calibration happens to be the latest in the catalog."""
    asked: list[tuple[Any, ...]] = []

    def nothing(*arguments: Any) -> dict[str, Any]:
        return {}

    def publish(*arguments: Any) -> dict[str, Any]:
        asked.append(arguments)
        return {"published": False, "reason": "a double"}

    for stage in nightly.ORDER:
        monkeypatch.setattr(nightly, stage, nothing)
    monkeypatch.setattr(nightly, "calibrate", lambda *arguments: {"calibration_key": "feed"})
    monkeypatch.setattr(nightly, "publish", publish)
    monkeypatch.setattr(nightly, "get_run_logger", logging.getLogger)
    monkeypatch.setattr(nightly, "said", lambda stage, result: stage)
    monkeypatch.setattr(nightly, "nothing_new", lambda *arguments: None)
    for outside in ("note_end", "leave_summary", "judge_after"):
        monkeypatch.setattr(nightly, outside, nothing, raising=False)
    nightly.nightly.fn(index="packages", certified=True)
    assert asked == [("packages", "feed")]
