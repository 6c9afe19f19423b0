"""Threads for online decisions, by measurement: more of them are slower if the cores are shared or the model is small.

use_quickest(backbone)      # at the start of a process that decides and does nothing else with torch
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM

PROBE = 256
"""Tokens of one measurement: what the language model reads at once."""
TURNS = 3
"""Measurements of each number; the quickest counts, since other processes only ever make it slower."""
GAIN = 1.15
"""Speed-up that more threads must bring: less is noise, and takes cores from other users of the machine."""


def use_quickest(backbone: FrozenLM) -> int:
    """Set torch to the number of threads that reads quickest here, by the clock on the wall, and return it."""
    import torch

    from drsr.backbone.continuation import Continuation

    if backbone.model.device.type != "cpu":
        return torch.get_num_threads()
    token_ids = np.arange(PROBE, dtype=np.int32) % 100

    def read(threads: int) -> float:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        Continuation(backbone, PROBE).extend(token_ids)
        return time.perf_counter() - start

    read(1)  # warm
    threads = quickest(_most(), read)
    torch.set_num_threads(threads)
    return threads


def quickest(most: int, seconds: Callable[[int], float]) -> int:
    """Return the number of threads among 1, 2, 4, ... and `most` that takes the fewest seconds; of nearly equal ones
    the smaller."""
    best, fewest = 1, min(seconds(1) for _ in range(TURNS))
    for threads in sorted({*(2**power for power in range(1, 10) if 2**power < most), most} - {1}):
        found = min(seconds(threads) for _ in range(TURNS))
        if found * GAIN < fewest:
            best, fewest = threads, found
    return best


def _most() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
