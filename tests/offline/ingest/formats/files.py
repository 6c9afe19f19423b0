"""Files in memory, and short cuts to what is read from them."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import Any, BinaryIO

from drsr.offline.ingest.formats import read
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.source_files import Limits, SourceFile
from drsr.request.history import History, read_history
from drsr.request.protocol import ViolationKind, violations
from drsr.request.request import read_request

Items = list[Trajectory | Quarantined]


def opened(data: bytes) -> BinaryIO:
    return io.BufferedReader(io.BytesIO(data))


def memory_file(data: bytes, name: str = "runs.json", source: str = "source") -> SourceFile:
    """A file that exists nowhere."""
    return SourceFile(f"mem/{source}/{name}", f"{source}/{name}", source, "1", len(data), partial(opened, data))


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def as_lines(values: list[Any]) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


def read_bytes(data: bytes, name: str = "runs.json", limits: Limits | None = None) -> Items:
    return list(read(memory_file(data, name), limits=limits))


def read_value(value: Any) -> Items:
    return read_bytes(as_json(value))


def one(items: Items) -> Trajectory:
    """The only item, which must be a trajectory that the core can read and that breaks no rule of its protocol."""
    assert len(items) == 1, items
    assert isinstance(items[0], Trajectory), items
    history(items[0])
    return items[0]


def only_problem(items: Items) -> Quarantined:
    assert len(items) == 1, items
    assert isinstance(items[0], Quarantined), items
    return items[0]


def history(trajectory: Trajectory) -> History:
    """The core's view of a trajectory. Results stand where they must; a call without a result is no mistake of ours."""
    request = read_request(trajectory.request, protocol=trajectory.protocol)
    broken = {violation.kind for violation in violations(request)}
    assert broken <= {ViolationKind.CALL_WITHOUT_RESULT, ViolationKind.FIRST_MESSAGE_NOT_USER}, violations(request)
    return read_history(request)


def shape(trajectory: Trajectory) -> list[str]:
    """The roles of its messages, assistants with the number of their calls: `user`, `assistant+2`, `tool`, `tool`."""
    return [_role(message) for message in trajectory.request["messages"]]


def _role(message: dict[str, Any]) -> str:
    calls = len(message.get("tool_calls") or [])
    blocks = message["content"] if isinstance(message.get("content"), list) else []
    calls += sum(block["type"] == "tool_use" for block in blocks)
    results = sum(block["type"] == "tool_result" for block in blocks)
    return f"{message['role']}{f'+{calls}' if calls else ''}{f'={results}' if results else ''}"


def decisions(trajectory: Trajectory) -> list[int]:
    """The indexes of the assistant's messages that a model decided behind the request before them."""
    messages = enumerate(trajectory.request["messages"])
    return [
        at for at, message in messages if message["role"] == "assistant" and message.get("is_decision") is not False
    ]


def text_call(name: str, arguments: Any, call_id: str) -> dict[str, Any]:
    """A call in OpenAI's wire form."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
