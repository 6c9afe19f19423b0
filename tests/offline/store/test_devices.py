"""The devices of a machine: counted as workers can use them, and named as their maker names them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drsr.offline.store import devices
from drsr.offline.store.devices import device_name, places


def test_as_many_workers_as_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert places("cuda") == 4
    assert (places("cuda:1"), places("mps")) == (1, 1)
    assert places("cpu") >= 1
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert places("cuda") == 1


def test_names_are_the_makers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Maker 9000 behind {device}")
    assert device_name("cuda:1") == "Maker 9000 behind cuda:1"
    assert device_name("mps") == "mps"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some Processor @ 2 GHz\n\nprocessor\t: 1\n")
    monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "cpuinfo")
    assert device_name("cpu") == "cpu Some Processor @ 2 GHz"
    monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "none")
    assert device_name("cpu").startswith("cpu ")
