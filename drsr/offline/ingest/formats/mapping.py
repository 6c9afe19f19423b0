"""A format described in a TOML file, for JSON that holds one run per object under other keys.

    messages = "trace.turns"      # keys, joined by dots; ["a.b", "turns"] where a key has a dot in it
    task = "ticket.number"        # and id, reward, domain, system, tools: each may be left out
    [message]
    role = "speaker"              # and content, tool_calls, tool_call_id, name, reasoning: keys of a message
    [roles]
    bot = "assistant"             # their word, and OpenAI's for it

Whatever is not named has OpenAI's name. The file's content is part of the reader's version: what another mapping would
read differently is read again.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drsr.errors import SettingsError
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.ingest.formats.openai_chat import ROLES, conversation
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable

_VERSION = 1
"""Raised whenever the same mapping and bytes give another trajectory."""
_FACTS = ("task", "id", "reward", "domain", "system", "tools")
_OF_MESSAGE = {
    "role": "role",
    "content": "content",
    "tool_calls": "tool_calls",
    "tool_call_id": "tool_call_id",
    "name": "name",
    "reasoning": "reasoning_content",
}
"""Keys of the table `message`, and what OpenAI calls the same."""
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """The places of things in a record."""

    messages: Keys
    facts: dict[str, Keys]
    """By name; those that the file leaves out are not there."""
    keys: dict[str, Keys]
    """Keys of a message, by OpenAI's name."""
    roles: dict[str, str]

    def read(self, value: Any, record: Record, file: SourceFile) -> Run:
        """Read one record. Raises Unreadable where the mapping does not fit it."""
        fields = as_dict(value, "a record")
        found = dig(fields, *self.messages)
        if found is None:
            keys = ", ".join(str(key)[:40] for key in list(fields)[:20])
            what = f"the mapping looks for messages at {shown(self.messages)}, where this record has none; its keys are"
            raise Unreadable("malformed", f"{what} {keys or 'none'}")
        messages = [self._message(message) for message in as_list(found, shown(self.messages))]
        system = self._fact(fields, "system")
        if isinstance(system, str) and system:
            messages.insert(0, {"role": "system", "content": system})
        request: Json = {"messages": conversation(messages)}
        tools = self._fact(fields, "tools")
        if tools is not None and as_list(tools, shown(self.facts["tools"])):
            request["tools"] = tools
        return Run(
            record.place,
            "openai",
            request,
            local_id=identity(self._fact(fields, "id")),
            task=identity(self._fact(fields, "task")),
            domain=identity(self._fact(fields, "domain")),
            reward=score(self._fact(fields, "reward")),
        )

    def _fact(self, fields: Json, name: str) -> Any:
        return dig(fields, *self.facts[name]) if name in self.facts else None

    def _message(self, value: Any) -> Json:
        fields = as_dict(value, "a message")
        made = {name: found for name, path in self.keys.items() if (found := dig(fields, *path)) is not None}
        role = made.get("role")
        if not isinstance(role, str) or self.roles.get(role, role) not in ROLES:
            hint = f"the mapping's [roles] must turn it into one of {', '.join(sorted(ROLES))}"
            raise Unreadable("malformed", f"a message's role at {shown(self.keys['role'])} is {role!r:.60}; {hint}")
        return {"content": None} | made | {"role": self.roles.get(role, role)}


def load_mapping(path: str | Path) -> Reader:
    """Return the reader that a file describes. SettingsError names what is wrong with it, before anything is read."""
    where = str(path)
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the mapping cannot be read: {error}", where=where) from None
    tables = {name: _table(document.pop(name, {}), name, where) for name in ("message", "roles")}
    paths = {name: _path(value, name, where) for name, value in document.items()}
    _refuse_unknown(paths, ("messages", *_FACTS), "", where)
    _refuse_unknown(tables["message"], tuple(_OF_MESSAGE), "message.", where)
    if "messages" not in paths:
        hint = 'messages = "trace.turns": the keys that lead to the list of messages'
        raise SettingsError("the mapping does not say where the messages are", where=where, hint=hint)
    for word, role in tables["roles"].items():
        if not isinstance(role, str) or role not in ROLES:
            hint = f"one of {', '.join(sorted(ROLES))}"
            raise SettingsError(f"roles.{word} = {role!r} is not a role", where=where, hint=hint)
    own = {name: _path(value, f"message.{name}", where) for name, value in tables["message"].items()}
    mapping = FieldMapping(
        paths.pop("messages"),
        paths,
        {there: own.get(name, (there,)) for name, there in _OF_MESSAGE.items()},
        tables["roles"],
    )
    named = content_key([mapping.messages, mapping.facts, mapping.keys, mapping.roles])[:8]
    title = "JSON objects whose fields a mapping names"
    return Reader("mapping", f"{_VERSION}-{named}", title, lambda value: isinstance(value, dict), each(mapping.read))


def shown(path: Keys) -> str:
    """Return a path as people write it."""
    return ".".join(path)


def _table(value: Any, name: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{name} must be a table", where=where, hint=f"[{name}], then lines such as name = 'key'")
    return value


def _path(value: Any, name: str, where: str) -> Keys:
    keys = value.split(".") if isinstance(value, str) else value
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        hint = 'keys joined by dots, such as "trace.turns", or a list of keys'
        raise SettingsError(f"{name} = {value!r} says no place", where=where, hint=hint)
    return tuple(keys)


def _refuse_unknown(found: dict[str, Any], known: tuple[str, ...], table: str, where: str) -> None:
    for name in found:
        if name not in known:
            raise SettingsError(
                f"{table}{name} is not a field of a mapping", where=where, hint=f"one of {', '.join(known)}"
            )
