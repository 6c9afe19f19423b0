"""Our own sample corpus (`drsr sandbox record`): one run per line, marked by `drsr_sandbox`, a request in wire form."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.openai_chat import conversation
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, each, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable

_FORMAT_VERSION = 1


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and "drsr_sandbox" in value and "request" in value


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    version = value["drsr_sandbox"]
    if version != _FORMAT_VERSION:
        detail = f"sandbox format {version!r}, this drsr reads {_FORMAT_VERSION}; upgrade drsr"
        raise Unreadable("unknown_version", detail)
    request = as_dict(value["request"], "request")
    messages = conversation(as_list(request.get("messages"), "request.messages"))
    for key in ("tools", "functions"):
        if request.get(key) is not None:
            as_list(request[key], f"request.{key}")
    return Run(
        record.place,
        "openai",
        {**request, "messages": messages},
        run_id=identity(value.get("id")),
        task=identity(value.get("task")),
        domain=identity(value.get("domain")),
        reward=score(value.get("reward")),
    )


READERS = (Reader("sandbox", 1, "drsr's own sandbox corpus (`drsr_sandbox`, `request`)", _recognises, each(_read)),)
