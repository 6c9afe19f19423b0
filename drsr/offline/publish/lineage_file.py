"""`lineage.json`: the hash chain as it travels inside a policy. Whoever reads one does not know who wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

import orjson

from drsr.errors import PolicyCorrupt
from drsr.offline.publish.lineage import Link

FORMAT = "drsr-lineage/1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FIELDS = set(Link._fields)


def lineage_bytes(links: Sequence[Link], states_key: str) -> bytes:
    """The content of `lineage.json`. `states_key` names the list of states in the artifact store."""
    document = {"format": FORMAT, "links": [link._asdict() for link in links], "states": states_key}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


def read_lineage(data: bytes, where: str | None = None) -> tuple[tuple[Link, ...], str]:
    """The links and the key of the list of states. PolicyCorrupt says what in it is not what it should be."""

    def refuse(what: str) -> NoReturn:
        hint = "get the wheel again from whoever published it"
        raise PolicyCorrupt(f"its lineage cannot be read: {what}", where=where, hint=hint)

    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        refuse("it is no JSON")
    if not isinstance(document, dict):
        refuse("it is no object")
    if document.get("format") != FORMAT:
        refuse(f"it is not of the format {FORMAT!r}, which this version reads")
    links, states = document.get("links"), document.get("states")
    if not isinstance(links, list) or not links:
        refuse("it has no links")
    for number, link in enumerate(links):
        wrong = _wrong_with(link)
        if wrong:
            refuse(f"link {number + 1} {wrong}")
    if not _is_hash(states):
        refuse("it does not name the list of its states")
    return tuple(Link(**{**link, "made_from": tuple(link["made_from"])}) for link in links), str(states)


def _wrong_with(link: Any) -> str:
    """Return what is wrong with a link, or nothing."""
    if not isinstance(link, dict) or set(link) != _FIELDS:
        return f"does not have the fields {', '.join(Link._fields)}"
    if not isinstance(link["link"], str):
        return "has no name"
    if type(link["items"]) is not int or link["items"] < 0:
        return "does not count its items"
    if not _is_hash(link["sha256"]):
        return "has no SHA-256"
    made_from = link["made_from"]
    if not isinstance(made_from, list) or not all(isinstance(name, str) for name in made_from):
        return "does not list what it was made from"
    return "" if isinstance(link["facts"], dict) else "has no facts"


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None
