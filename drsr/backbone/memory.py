"""A device's memory: whether an error says that it ran out, and where a model is placed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drsr.errors import NotEnoughMemory

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
"""How torch says it, by device."""
SMALLEST_CHUNK = 16
"""Tokens per forward below which a smaller forward saves nothing worth its time."""
ROOM_TO_WORK = 1.2
"""A model fills one GPU only if its weights times this fit: keys, values and activations come on top."""
SPREAD = "auto"
"""The device map that lets accelerate spread a model over all GPUs."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the memory of a device, or of the machine, did not suffice."""
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    return said or isinstance(error, (MemoryError, NotEnoughMemory))


def too_large_for(device: str, what: str, complaint: str) -> NotEnoughMemory:
    """Return the error for a model that does not fit on a device."""
    others = "cuda without a number spreads it over all GPUs, " if device.startswith("cuda:") else ""
    return NotEnoughMemory(
        f"the weights do not fit into the memory of {device}: {complaint}",
        where=what,
        hint=f"{others}DRSR_DTYPE=float16-mixed halves them, otherwise a smaller backbone or DRSR_DEVICE=cpu",
    )


def weight_bytes(folder: Path) -> int:
    """The size of a model's weights as they lie in its folder."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def spread_over(device: str, size: int, free: Sequence[int]) -> str | None:
    """Return how to spread a model over several GPUs, None where one holds it or a single one was asked for.

    `free` is what each GPU has free, in bytes; `size` what the weights take there.
    """
    if device != "cuda" or len(free) < 2 or size * ROOM_TO_WORK <= free[0]:
        return None
    return SPREAD


def free_on_gpus() -> list[int]:
    """Return the free bytes of each GPU of this machine."""
    import torch

    return [torch.cuda.mem_get_info(number)[0] for number in range(torch.cuda.device_count())]
