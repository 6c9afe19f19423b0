"""Moatless search trees: every node repeats the whole history, and some trees branch.

The last node's own request (`completions.build_action.input`) is the history of its branch, because Moatless builds it
from the node's ancestors; its `response` is the last thing the agent said. Where the last node made no request, the
nearest ancestor that did is used. The system prompt stands in `agent.system_prompt`.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.anthropic_messages import request_of
from drsr.offline.ingest.formats.openai_chat import conversation, is_anthropic
from drsr.offline.ingest.formats.reader import Reader, Run, as_list, dig, each, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("agent"), dict):
        return False
    nodes = value.get("nodes")
    listed = isinstance(nodes, list) and bool(nodes) and "node_id" in (nodes[0] if isinstance(nodes[0], dict) else {})
    return listed or dig(value, "root", "node_id") is not None


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    messages, protocol = _history(value)
    system = dig(value, "agent", "system_prompt")
    request: Json
    if protocol == "anthropic":
        request = request_of(messages, system)
    else:
        said = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
        starts_with_system = bool(messages) and dig(messages[0], "role") == "system"
        request = {"messages": conversation(messages if starts_with_system else [*said, *messages])}
    instance = identity(dig(value, "metadata", "instance_id"))
    return Run(
        record.place,
        "anthropic" if protocol == "anthropic" else "openai",
        request,
        task=instance or _folder(record, file),
        domain="code",
        reward=score(dig(value, "metadata", "resolved")),
    )


def _history(value: Json) -> tuple[list[Any], str]:
    nodes = _nodes(value)
    by_id = {node.get("node_id"): node for node in nodes if isinstance(node.get("node_id"), int | str)}
    node: Json | None = nodes[-1] if nodes else None
    seen: set[int] = set()
    while node is not None and id(node) not in seen:
        seen.add(id(node))
        completion = dig(node, "completions", "build_action")
        sent = dig(completion, "input")
        if isinstance(sent, list) and sent:
            messages = [*sent, *_reply(dig(completion, "response"))]
            return messages, "anthropic" if is_anthropic(messages) else "openai"
        parent = node.get("parent_id")
        node = by_id.get(parent) if isinstance(parent, int | str) else None
    raise Unreadable("no_assistant_message", "no node of the tree records a request to the model")


def _nodes(value: Json) -> list[Json]:
    """All nodes, parents before children."""
    if isinstance(value.get("nodes"), list):
        return [node for node in value["nodes"] if isinstance(node, dict)]
    found: list[Json] = []
    pending: list[tuple[Any, Any]] = [(value.get("root"), None)]
    while pending:
        node, parent = pending.pop()
        if isinstance(node, dict):
            found.append({"parent_id": parent, **node})
            children = as_list(node.get("children") or [], "children")
            pending.extend((child, node.get("node_id")) for child in reversed(children))
    return found


def _reply(response: Any) -> list[Json]:
    """The recorded response as an assistant message, in either provider's form."""
    if isinstance(dig(response, "content"), list | str):
        return [{"role": "assistant", "content": response["content"]}]
    choices = dig(response, "choices")
    message = dig(choices[0], "message") if isinstance(choices, list) and choices else None
    return [message] if isinstance(message, dict) else []


def _folder(record: Record, file: SourceFile) -> str | None:
    """The instance's folder, which Moatless names after it, where the file holds this tree alone."""
    if record.place != file.location:
        return None
    folder = file.path_in_source.rpartition("/")[0]
    return folder.rpartition("/")[2] or None


READERS = (Reader("moatless", 1, "Moatless trees (`agent`, `nodes`)", _recognises, each(_read)),)
