"""`lineage.json` as it comes with a wheel from anybody: read, or refused with a word about what is wrong with it."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import PolicyCorrupt
from drsr.offline.publish.lineage import Link, lineage_bytes, read_lineage

HASH, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
LINKS = (
    Link("trajectories", 3, HASH, (), {"sources": {"runs": 3}}),
    Link("policy", 1, OTHER, ("trajectories",), {"version": "1.0"}),
)
GOOD: dict[str, Any] = orjson.loads(lineage_bytes(LINKS, HASH))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_what_is_written_is_read() -> None:
    assert read_lineage(lineage_bytes(LINKS, OTHER)) == (LINKS, OTHER)


def changed(path: tuple[Any, ...], value: Any) -> bytes:
    document = copy.deepcopy(GOOD)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return orjson.dumps(document)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[]", "it is not an object"),
        (b"{}", "it is not of the format 'drsr-lineage/1'"),
        (changed(("links",), []), "it has no links"),
        (changed(("links",), {}), "it has no links"),
        (changed(("links", 1), None), "link 2 does not have the fields link, items, sha256, made_from, facts"),
        (changed(("links", 0, "more"), 1), "link 1 does not have the fields"),
        (changed(("links", 0, "facts"), None), "link 1 has no facts"),
        (changed(("links", 0, "link"), 7), "link 1 has no name"),
        (changed(("links", 0, "items"), "3"), "link 1 does not count its items"),
        (changed(("links", 0, "items"), True), "link 1 does not count its items"),
        (changed(("links", 1, "sha256"), HASH.upper()), "link 2 has no SHA-256"),
        (changed(("links", 1, "made_from"), [["x"]]), "link 2 does not list what it was made from"),
        (changed(("states",), "../../etc/passwd"), "it does not name the list of its states"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, says: str) -> None:
    with pytest.raises(PolicyCorrupt) as caught:
        read_lineage(data, "some.whl")
    assert caught.value.what.startswith(f"its lineage cannot be read: {says}")
    assert caught.value.where == "some.whl"


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, found in inner for place in _places(found, (*path, key)))]


@given(place=st.sampled_from(_places(GOOD)[1:]), value=JSON)
def test_whatever_stands_in_any_place_it_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    try:
        links, states = read_lineage(changed(place, value))
    except PolicyCorrupt:
        return
    assert all(isinstance(link.facts, dict) and len(link.sha256) == 64 for link in links)
    assert len(links) == 2
    assert len(states) == 64


@given(data=st.binary(max_size=80))
def test_bytes_that_are_no_lineage_are_refused(data: bytes) -> None:
    with pytest.raises(PolicyCorrupt):
        read_lineage(data)
