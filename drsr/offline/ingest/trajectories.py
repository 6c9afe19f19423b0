"""A recorded agent run as a plain value, the same whatever framework wrote it.

Identity and storage live elsewhere: `sources/` reads it, `catalog/` gives it a row, `artifacts.py` keeps its bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import orjson

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One recorded run, as one request in wire form whose assistant messages are the recorded outputs.

    The decision before assistant message i is `request` with its messages cut before i; message i is the next output.
    """

    external_id: str
    """What the source calls this run; unique within one source."""
    protocol: Literal["openai", "anthropic"]
    """Which wire form `request` has."""
    request: Json
    """`messages`, and where recorded `tools` and (Anthropic) `system`: a body that `drsr.request.request` reads."""
    reader: str
    """The reader that made it, with its version: `tau_bench/1`. Part of the content hash."""
    task: str | None = None
    """Identity of the task, where the format knows it: trials of one task stay in one split."""
    domain: str | None = None
    """What kind of work it is, where the format knows it: `airline`, `code`."""
    reward: float | None = None
    """What the run scored, where recorded. For evaluation only, never a feature."""
    only_session: bool = field(default=False, compare=False)
    """Whether `task` is merely what the runs of one session share, and names no task. Said when read, not stored."""

    def to_json(self) -> bytes:
        """The canonical bytes: sorted keys, UTF-8. What is stored, and what is hashed."""
        return orjson.dumps(
            {
                "domain": self.domain,
                "external_id": self.external_id,
                "protocol": self.protocol,
                "reader": self.reader,
                "request": self.request,
                "reward": self.reward,
                "task": self.task,
            },
            option=orjson.OPT_SORT_KEYS,
        )

    @classmethod
    def from_json(cls, data: bytes) -> Trajectory:
        return cls(**orjson.loads(data))

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_json()).hexdigest()


class Quarantined(NamedTuple):
    """Something that was looked at and could not be read, with the reason a person needs to mend it."""

    location: str
    """File, and inside it the member, line or run: `runs.zip!a/b.jsonl:17`. Never holds credentials."""
    reason: str
    """A short fixed word for counting: `truncated_json`, `unknown_format`, `binary`, `empty`, `encoding`, ..."""
    detail: str
    """One sentence: what was found, and what to do."""
    count: int = 1  # type: ignore[assignment]  # hides the method of tuples, which nobody needs here
    """How many such things this stands for, where they are not listed one by one."""
