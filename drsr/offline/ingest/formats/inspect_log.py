"""Inspect evaluation logs: the `.json` form, and the `.eval` archive (a header and one file per sample).

A call's `function` is its name and its `arguments` an object. Long texts may stand aside as attachments; they are put
back. A tool message with an `error` was sent as that error, so that is its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.openai_chat import is_inspect_sample
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_VERDICTS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ATTACHMENT = "attachment://"


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("eval"), dict) and "messages" not in value:
        return {"task", "model"} <= value["eval"].keys() and not value.keys().isdisjoint(("plan", "samples", "status"))
    return is_inspect_sample(value) and isinstance(value.get("messages"), list)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    spec: Any = None
    found = False
    for record in records:
        samples: list[Any] = []
        if isinstance(dig(record.value, "eval"), dict):
            spec = record.value["eval"]
            samples = as_list(record.value.get("samples") or [], "samples")
        elif _recognises(record.value):
            samples = [record.value]
        for sample in samples:
            found = True
            place = f"{record.place} sample {dig(sample, 'id')!s:.80}"
            try:
                yield _run(as_dict(sample, "a sample"), spec, place)
            except Unreadable as problem:
                yield Quarantined(place, problem.reason, problem.detail)
    if not found:
        yield Quarantined(file.location, "no_assistant_message", "the log records no sample; was it a header only?")


def _run(sample: Json, spec: Any, place: str) -> Run:
    attachments = sample.get("attachments")
    chat = Chat()
    for message in as_list(sample.get("messages"), "messages"):
        _add(chat, as_dict(message, "a message"), attachments if isinstance(attachments, dict) else {})
    sample_id, epoch = identity(sample.get("id")), identity(sample.get("epoch"))
    task = identity(dig(spec, "task"))
    run = identity(dig(spec, "eval_id")) or identity(dig(spec, "run_id"))
    return Run(
        place,
        "openai",
        {"messages": chat.messages()},
        run_id=identity(sample.get("uuid")) or (f"{run}/{sample_id}/{epoch}" if run and sample_id else None),
        local_id=f"{sample_id}/{epoch}" if sample_id else None,
        task=f"{task}/{sample_id}" if task and sample_id else sample_id,
        reward=_reward(sample.get("scores")),
    )


def _add(chat: Chat, message: Json, attachments: Json) -> None:
    role = message.get("role")
    content, reasoning = _content(message.get("content"), attachments)
    if role == "assistant":
        calls = as_list(message.get("tool_calls") or [], "tool_calls")
        chat.answer(content, [_call(call, attachments) for call in calls], reasoning=reasoning)
    elif role == "tool":
        error = dig(message, "error", "message")
        said = f"Error: {error}" if isinstance(error, str) else content
        chat.result(message.get("tool_call_id"), said, name=identity(message.get("function")))
    else:
        chat.say(str(role), content)


def _content(content: Any, attachments: Json) -> tuple[Any, str | None]:
    """Content in wire form, and the reasoning that stood among it."""
    if not isinstance(content, list):
        return _resolved(content, attachments), None
    said: list[Any] = []
    thoughts: list[str] = []
    for part in content:
        kind = dig(part, "type")
        if kind == "text":
            said.append({"type": "text", "text": _resolved(part.get("text"), attachments)})
        elif kind == "reasoning":
            thought = _resolved(part.get("reasoning"), attachments)
            thoughts += [thought] if isinstance(thought, str) and not part.get("redacted") else []
        elif kind == "image":
            said.append({"type": "image_url", "image_url": {"url": _resolved(part.get("image"), attachments)}})
        else:
            said.append(part)
    return said, "\n\n".join(filter(None, thoughts)) or None


def _call(call: Any, attachments: Json) -> Any:
    arguments = dig(call, "arguments")
    if not attachments or not isinstance(arguments, dict):
        return call
    return {**call, "arguments": {key: _resolved(value, attachments) for key, value in arguments.items()}}


def _resolved(value: Any, attachments: Json) -> Any:
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    return value


def _reward(scores: Any) -> float | None:
    """The first scorer's value, verdicts as numbers the way Inspect counts them."""
    first = next(iter(scores.values()), None) if isinstance(scores, dict) else None
    value = dig(first, "value") if isinstance(first, dict) else first
    return _VERDICTS.get(value) if isinstance(value, str) else score(value)


READERS = (
    Reader("inspect_log", 1, "Inspect logs (`eval`, `samples`; .json or .eval)", _recognises, _read, grouping="stream"),
)
