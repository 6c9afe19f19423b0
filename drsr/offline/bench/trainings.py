"""Check that DRSR and its ablations come from one training: only then is their difference the worth of a part."""

from __future__ import annotations

from collections.abc import Iterable

from drsr.offline.bench.replay.file import MethodNote


def different_trainings(notes: Iterable[MethodNote]) -> str:
    """Return, if results come from several trainings, sentences on which come from which and what to do."""
    titles: dict[str, list[str]] = {}
    for note in notes:
        if note.training:
            titles.setdefault(note.training, []).append(note.title)
    if len(titles) < 2:
        return ""
    said = "; ".join(f"of {training[:12]} {', '.join(mine)}" for training, mine in titles.items())
    return (
        "DRSR and its ablations are of different trainings, so what differs between them is not the worth of a part. "
        f"By the hash of the full scorer: {said}. drsr evaluate --replay --ablations --policy WHEEL, with the wheel of "
        "the latest training, makes them one."
    )
