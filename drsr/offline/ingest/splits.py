"""Splits of trajectories: 80:10:10 by a salted stable hash of their group.

A group is a task, where it is known: trials of one task never stand on both sides. A corpus may say that several tasks
are about the same thing and form one group (`task_names.py`). The assignment depends on the group's key alone, so it is
the same on every machine and does not move when data grows; the catalog keeps it from the moment a group is first seen
(table `split_group`), so that it would not move if this file changed either.
"""

from __future__ import annotations

import hashlib
from typing import Literal

Split = Literal["train", "validation", "test"]

SALT = "drsr/splits/1"
"""Changing it would assign every group seen from then on differently."""

ERASED_GROUP = "erased:"
"""Begins the key of a group that holds erased runs alone; a hash follows in place of the task."""

_TRAIN, _VALIDATION = 0.8, 0.1


def group_key(source: str, external_id: str, task: str | None) -> str:
    """Return the key of what must stay together: all trajectories of a task, else the one trajectory."""
    return f"task:{task}" if task is not None else f"trajectory:{source}/{external_id}"


def assign_split(group: str) -> Split:
    """Return the split of a group that was not seen before."""
    digest = hashlib.sha256(f"{SALT}\0{group}".encode()).digest()
    fraction = int.from_bytes(digest[:8], "big") / 2**64
    if fraction < _TRAIN:
        return "train"
    return "validation" if fraction < _TRAIN + _VALIDATION else "test"
