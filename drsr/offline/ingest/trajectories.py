"""A recorded agent run as a plain value, the same for every framework.

Identity and storage live elsewhere: `sources/` reads it, `catalog/` gives it a row, `artifacts.py` keeps its bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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
    """The source's name for this run; unique within one source."""
    protocol: Literal["openai", "anthropic"]
    """The wire form of `request`."""
    request: Json
    """`messages`, and where recorded `tools` and (Anthropic) `system`: a body that `drsr.request.request` reads."""
    reader: str
    """The reader that made it, with its version: `tau_bench/1`. Part of the content hash."""
    task: str | None = None
    """Identity of the task, where the format knows it: trials of one task stay in one split."""
    domain: str | None = None
    """Kind of work, if the format knows it: `airline`, `code`."""
    reward: float | None = None
    """The score of the run, if recorded. For evaluation only, never a feature."""
    only_session: bool = field(default=False, compare=False)
    """Whether `task` is merely what the runs of one session share, and names no task. Said when read, not stored."""

    def to_json(self) -> bytes:
        """Return the canonical bytes: sorted keys, UTF-8. What is stored, and what is hashed."""
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

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the same bytes, a message at a time. TypeError where there are none, as from `to_json`."""
        yield b'{"domain":' + _json(self.domain) + b',"external_id":' + _json(self.external_id)
        yield b',"protocol":' + _json(self.protocol) + b',"reader":' + _json(self.reader) + b',"request":{'
        for number, name in enumerate(sorted(self.request)):
            yield (b"," if number else b"") + _json(name) + b":"
            value = self.request[name]
            if name != "messages":
                yield _json([[value]])[2:-2]  # as deep as it lies: what is nested too deep is refused all the same
                continue
            yield b"["
            for place, message in enumerate(value):
                yield (b"," if place else b"") + _json([[[_fresh(message)]]])[3:-3]
            yield b"]"
        yield b'},"reward":' + _json(self.reward) + b',"task":' + _json(self.task) + b"}"

    @property
    def characters(self) -> int:
        """Count the characters of its texts, near enough to tell whether it is a large one."""
        contents = [message.get("content") for message in self.request["messages"]]
        texts = [content for content in contents if isinstance(content, str)]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        blocks = [text for part in parts if isinstance(part, dict) for text in (part.get("text"), part.get("content"))]
        return sum(map(len, texts)) + sum(len(text) for text in blocks if isinstance(text, str))

    @classmethod
    def from_json(cls, data: bytes) -> Trajectory:
        return cls(**orjson.loads(data))

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_json()).hexdigest()


def _fresh(value: Any) -> Any:
    """A copy whose texts are new. orjson leaves the UTF-8 of whatever it writes in the text itself, so that a run that
    is not ASCII would be held twice from then on."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    if isinstance(value, list):
        return [_fresh(item) for item in value]
    if isinstance(value, dict):
        return {name: _fresh(item) for name, item in value.items()}
    return value


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


class Quarantined(NamedTuple):
    """Something that was looked at and could not be read, with the reason a person needs to mend it."""

    location: str
    """File, and inside it the member, line or run: `runs.zip!a/b.jsonl:17`. Never holds credentials."""
    reason: str
    """A short fixed word for counting: `truncated_json`, `unknown_format`, `binary`, `empty`, `encoding`, ..."""
    detail: str
    """One sentence: what was found, and what to do."""
    count: int = 1  # type: ignore[assignment]  # hides the method of tuples, which nobody needs here
    """The number of such things that this entry represents, if they are not listed one by one."""
