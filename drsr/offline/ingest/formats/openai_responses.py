"""OpenAI's stored responses: `{"object": "response", "output": [...]}`, with what was sent as `input` where recorded.

A response that names the one before it (`previous_response_id`) goes on from there: its own `input` is only what is
new. Responses of a file are put together to one run per chain; where two follow the same one, each is the end of a run
of its own. Instructions are not carried along by the API, so a chain that changes them is not one growing history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.formats.responses_items import Items
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and "messages" not in value and _is_response(_body(value))


def _is_response(value: Any) -> bool:
    return dig(value, "object") == "response" and isinstance(dig(value, "output"), list)


def _body(value: Json) -> Any:
    """The response itself; a log may keep it beside the `input` that it answers."""
    response = value.get("response")
    if isinstance(response, dict) and _is_response(response) and not isinstance(value.get("request"), dict):
        return {"input": value.get("input"), **response}
    return value


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    responses: dict[str, tuple[Json, str]] = {}
    for record in records:
        if not _recognises(record.value):
            yield Quarantined(record.place, "unknown_format", "no stored response among those of this file")
            continue
        body = _body(record.value)
        responses[identity(body.get("id")) or record.place] = body, record.place
    followed = {identity(body.get("previous_response_id")) for body, _ in responses.values()}
    for name, (_, place) in responses.items():
        if name in followed:
            continue
        try:
            yield _run(name, place, responses)
        except Unreadable as problem:
            yield Quarantined(place, problem.reason, problem.detail)


def _run(last: str, place: str, responses: dict[str, tuple[Json, str]]) -> Run:
    chain, first = _chain(last, responses)
    instructions = chain[-1].get("instructions")
    if any(body.get("instructions") != instructions for body in chain):
        detail = "the instructions change along the chain of responses, so that no request holds all of it"
        raise Unreadable("malformed", f"{detail}; split the file where they change")
    chat = Chat()
    _instruct(chat, instructions)
    feed = Items(chat)
    for body in chain:
        for item in _sent(body):
            feed.add(item)
        for item in as_list(body["output"], "output"):
            feed.add(as_dict(item, "an item"))
    feed.flush()
    request: Json = {"messages": chat.messages()}
    if isinstance(chain[-1].get("tools"), list) and chain[-1]["tools"]:
        request["tools"] = [_declared(tool) for tool in chain[-1]["tools"] if isinstance(tool, dict)]
    talk = chain[-1].get("conversation")
    task = identity(dig(talk, "id")) or identity(talk)
    name = first if identity(chain[0].get("id")) else None
    return Run(place, "openai", request, run_id=name, task=task, only_session=True)


def _chain(last: str, responses: dict[str, tuple[Json, str]]) -> tuple[list[Json], str]:
    """A response with all that came before it, oldest first, and the name of the oldest."""
    chain: list[Json] = []
    seen: set[str] = set()
    name: str | None = last
    while name is not None and name not in seen:
        if name not in responses:
            detail = f"it goes on from {name!r:.80}, which this file does not hold; export the whole chain"
            raise Unreadable("incomplete", detail)
        seen.add(name)
        chain.append(responses[name][0])
        first, name = name, identity(chain[-1].get("previous_response_id"))
    return chain[::-1], first


def _sent(body: Json) -> list[Json]:
    sent = body.get("input")
    if sent is None:
        detail = "a stored response without its input; retrieve its input_items and put them beside it as `input`"
        raise Unreadable("incomplete", detail)
    if isinstance(sent, str):
        return [{"type": "message", "role": "user", "content": sent}]
    return [as_dict(item, "an item") for item in as_list(sent, "input")]


def _instruct(chat: Chat, instructions: Any) -> None:
    if isinstance(instructions, list):
        for item in instructions:
            chat.say(str(dig(item, "role")), dig(item, "content"))
    else:
        chat.say("system", instructions)


def _declared(tool: Json) -> Json:
    """Return a definition in the chat form, which has the function's fields in a nested object."""
    if tool.get("type") != "function" or isinstance(tool.get("function"), dict):
        return tool
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


READERS = (
    Reader(
        "openai_responses",
        1,
        "OpenAI stored responses (`object`: response, with `input` and `output`)",
        _recognises,
        _read,
        grouping="session",
    ),
)
