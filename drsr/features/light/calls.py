"""The action and object of a call, and the error that its result reports: from their text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Flag, auto
from functools import lru_cache
from typing import Any

from drsr.features.content import paths_in
from drsr.request.parts import Call

_NAMED_IN = 2_000
"""Characters of a call's arguments in which its object is looked for: what follows is mostly a file's content."""
_WORD = re.compile(r"\w+")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""The words of `read_file`, `readFile` and `str-replace`."""


class Doing(Flag):
    """The actions of a call; a command line that runs `cat` both runs and reads."""

    NOTHING_KNOWN = 0
    READ = auto()
    SEARCH = auto()
    WRITE = auto()
    RUN = auto()


_VERBS: dict[Doing, frozenset[str]] = {
    Doing.READ: frozenset({
        "cat", "details", "download", "fetch", "get", "goto", "head", "inspect", "less", "load", "open", "print",
        "read", "retrieve", "scroll", "sed", "show", "tail", "view", "visit",
    }),
    Doing.SEARCH: frozenset({
        "browse", "dir", "filter", "find", "glob", "grep", "list", "locate", "lookup", "ls", "query", "rg", "search",
        "select", "tree", "where", "which",
    }),
    Doing.WRITE: frozenset({
        "add", "append", "apply", "book", "cancel", "change", "click", "commit", "cp", "create", "delete", "edit",
        "exchange", "insert", "invite", "mkdir", "modify", "move", "mv", "patch", "pay", "post", "put",
        "remove", "rename", "replace", "return", "rm", "save", "schedule", "send", "set", "submit", "tee", "touch",
        "transfer", "type", "update", "upload", "write",
    }),
    Doing.RUN: frozenset({
        "bash", "cmd", "command", "console", "exec", "execute", "ipython", "node", "python", "repl", "run", "script",
        "sh", "shell", "terminal", "test", "tests",
    }),
}  # fmt: skip


def doing_of(call: Call) -> Doing:
    """Return what a call does, judging by the words of the tool's name and, for a tool that runs something, by the
    first word of what it runs."""
    doing = _by_name(call.name)
    if Doing.RUN in doing:
        command = next(_values(call.arguments), "")
        first = _WORD.search(command[:_NAMED_IN])
        doing |= _by_name(first.group().lower()) if first else Doing.NOTHING_KNOWN
    return doing


@lru_cache(maxsize=4096)
def _by_name(name: str) -> Doing:
    words = frozenset(word.lower() for word in _NAME_WORD.findall(name))
    doing = Doing.NOTHING_KNOWN
    for kind, verbs in _VERBS.items():
        if words & verbs:
            doing |= kind
    return doing


def object_of(call: Call) -> str:
    """Return the subject of a call: the first path among the values of its arguments, else the first word with a digit
    or an underscore, else all that they say."""
    said = "\n".join(_values(call.arguments))[:_NAMED_IN]
    if "/" in said or "\\" in said:
        paths = paths_in(said)
        if paths:
            return paths[0]
    for found in _WORD.finditer(said):  # mostly one of the first
        if not found.group().isalpha():
            return found.group().lower()
    return said.strip().lower()


def _values(arguments: Any) -> Iterator[str]:
    """Return the values in the order of their keys, as they are rendered, without the keys, which are the same in every
    call of a tool."""
    waiting = [arguments]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item[key] for key in sorted(item, reverse=True))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            yield item if isinstance(item, str) else repr(item)
