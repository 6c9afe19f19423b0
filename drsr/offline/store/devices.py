"""Devices that computing can be spread over: how many this machine has, and what they are called."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_PROCESSOR = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_CPU_INFO = Path("/proc/cpuinfo")


def places(device: str) -> int:
    """Return how many workers compute at the same time here: cores, all GPUs for `cuda`, one for `cuda:1` or `mps`."""
    if device == "cpu":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if device == "cuda":
        import torch

        return max(1, torch.cuda.device_count())
    return 1


def device_name(device: str) -> str:
    """Return the maker's name of a device, so that rates of one kind of device are never taken for another's."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    if device != "cpu":
        return device
    try:
        found = _PROCESSOR.search(_CPU_INFO.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    return f"cpu {found[1].strip() if found else platform.processor() or platform.machine()}"
