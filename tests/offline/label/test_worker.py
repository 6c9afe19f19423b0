"""Placing the processes of one host: a GPU each, and words about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drsr.errors import NotEnoughMemory
from drsr.offline.freeze.selection import Selection
from drsr.offline.label import worker
from drsr.offline.label.worker import WorkOrder, placed, placement_said
from drsr.settings import Settings
from tests.tiny_backbones import tiny_backbone

SETTINGS = Settings("sqlite://", "artifacts", device="cuda")
ORDER = WorkOrder("label", SETTINGS, "default", Selection(), None)


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated host."""
    monkeypatch.setattr(worker, "places", {"cuda": 4}.__getitem__)


def devices(workers: int, device: str = "cuda") -> list[str]:
    order = ORDER._replace(settings=replace(SETTINGS, device=device), workers=workers)
    orders = placed(order)
    assert all(found._replace(settings=order.settings) == order for found in orders)
    return [found.settings.device for found in orders]


def test_every_process_has_a_gpu_of_its_own() -> None:
    assert devices(4) == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert devices(2) == ["cuda:0", "cuda:1"]
    assert placement_said(placed(ORDER._replace(workers=4))) == "4 processes on cuda:0, cuda:1, cuda:2, cuda:3"


def test_more_processes_than_gpus_share_them_and_it_is_said() -> None:
    assert devices(6) == ["cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:0", "cuda:1"]
    said = str(placement_said(placed(ORDER._replace(workers=6))))
    assert said.startswith("6 processes on cuda:0, cuda:1, cuda:2, cuda:3; up to 2 share one")


def test_one_process_and_a_device_that_was_chosen_stay_as_they_are() -> None:
    assert devices(1) == ["cuda"]  # which may spread a large model over all of them
    assert devices(3, "cuda:2") == ["cuda:2"] * 3
    assert devices(3, "cpu") == ["cpu"] * 3
    assert placement_said(placed(ORDER._replace(workers=1))) is None
    assert placement_said([ORDER._replace(settings=replace(SETTINGS, device="cpu"))] * 3) is None


def test_the_twin_is_read_on_the_cpu_if_it_does_not_fit_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(settings: Settings) -> object:
        asked.append((settings.device, settings.dtype))
        if settings.device != "cpu":
            raise NotEnoughMemory("the weights do not fit")
        return tiny_backbone("llama")

    monkeypatch.setattr(worker, "_language_model", load)
    scorer = worker._exact_twin(replace(SETTINGS, dtype="float16-mixed"), 100)
    assert asked == [("cuda", "float32"), ("cpu", "float32")]
    assert scorer.backbone is tiny_backbone("llama")
