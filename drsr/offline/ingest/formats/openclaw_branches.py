"""Find the entry that an OpenClaw session's entry follows, which is not always the one written before it.

OpenClaw keeps pi's sessions. A turn that something other than the user set off (a sub-agent that reports) is a side
branch: its entries are appended to the one line of the file, and afterwards the conversation goes on from where it was.

    {"type": "leaf", "targetId": where it goes on, "appendParentId": behind what it is written}

Versions before that entry show it only by the mirror that ends a side branch (what was delivered to a channel, as a
message of its own that no model said) and by the next request, which is shorter than the one in the branch.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import text_of
from drsr.offline.ingest.formats.reader import dig
from drsr.offline.ingest.trajectories import Json


def is_mirror(entry: Json) -> bool:
    """Return whether an entry is an assistant's message that no model wrote: a delivery, or the gateway's own."""
    message = entry.get("message")
    if dig(message, "role") != "assistant":
        return False
    is_delivery = dig(message, "api") == "cli" and "responseId" not in entry["message"]
    return is_delivery or dig(message, "provider") == "openclaw"


def parents(entries: list[Json]) -> dict[str, str | None]:
    """By the id of each entry, that of the one it follows; None for the first."""
    return _Branches().read(entries)


class _Branches:
    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._moved: dict[str, str | None] = {}  # what is written behind the key goes on from the value
        self._said: dict[str, Json] = {}  # by text, the entry in which a model said it
        self._mirrored: dict[str, Json] = {}  # by the id of a mirror, what it mirrors
        self._undecided: tuple[str, Json] | None = None  # an entry behind a mirror, and what that mirrors

    def read(self, entries: list[Json]) -> dict[str, str | None]:
        for entry in entries:
            name, parent = entry.get("id"), entry.get("parentId")
            if not isinstance(name, str):
                continue
            parent = parent if isinstance(parent, str) else None
            if entry.get("type") == "leaf":
                self._leaf(entry, name, parent)
                continue
            self._parents[name] = self._moved.get(parent, parent) if parent else None
            if parent in self._mirrored and parent not in self._moved:
                self._undecided = name, self._mirrored[parent]
            if dig(entry, "message", "role") == "assistant":
                self._answer(entry, name)
        return self._parents

    def _leaf(self, entry: Json, name: str, parent: str | None) -> None:
        target = entry.get("targetId")
        self._parents[name] = target if isinstance(target, str) else None
        behind = entry.get("appendParentId")
        for written in (name, behind if isinstance(behind, str) else parent):
            if written is not None:
                self._moved[written] = self._parents[name]

    def _answer(self, entry: Json, name: str) -> None:
        text = text_of(dig(entry, "message", "content"))
        if is_mirror(entry):
            if text in self._said:
                self._mirrored[name] = self._said[text]
            return
        if self._undecided is not None:
            first, said = self._undecided
            if 0 < _prompt(entry) < _prompt(said):
                self._parents[first] = self._parents.get(str(said.get("id")))
            self._undecided = None
        self._said[text] = entry


def _prompt(entry: Json) -> int:
    """Tokens of the request that an answer was given to; 0 where unknown."""
    usage: Any = dig(entry, "message", "usage")
    counts = [dig(usage, key) for key in ("input", "cacheRead", "cacheWrite")]
    return sum(count for count in counts if isinstance(count, int) and not isinstance(count, bool))
