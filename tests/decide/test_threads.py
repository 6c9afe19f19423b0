"""The number of threads is the quickest by measurement, and the smallest of nearly equal ones."""

from __future__ import annotations

import pytest
import torch
import transformers

from drsr.decide import threads
from drsr.decide.threads import quickest, use_quickest
from tests.tiny_backbones import small_backbone


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 1.0, 2: 0.55, 4: 0.3, 6: 0.2}, 6),
        ({1: 1.0, 2: 0.55, 4: 0.5, 6: 0.9}, 2),
        ({1: 1.0, 2: 0.95, 4: 1.3, 6: 2.0}, 1),
        ({1: 1.0, 2: 5.0, 4: 0.4, 6: 0.39}, 4),
    ],
)
def test_quickest(seconds: dict[int, float], expected: int) -> None:
    assert quickest(6, seconds.__getitem__) == expected


def test_one_disturbed_measurement_decides_nothing() -> None:
    found = iter([1.0, 1.0, 1.0, 9.0, 0.5, 9.0])
    assert quickest(2, lambda _: next(found)) == 2


def test_torch_is_set_to_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "_most", lambda: 1)  # two threads on busy cores take a minute
    monkeypatch.setattr(threads, "PROBE", 16)
    try:
        assert use_quickest(small_backbone(transformers.LlamaConfig)) == torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
