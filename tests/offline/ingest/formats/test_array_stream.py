"""Long arrays, element by element."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import array_stream
from drsr.offline.ingest.formats.array_stream import ArrayStream
from drsr.offline.store.source_files import Limits, Unreadable
from tests.offline.ingest.formats.files import opened

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_stream, "_CHUNK", 7)


def elements(data: bytes, limits: Limits | None = None) -> list[Any]:
    return [value for value, _ in ArrayStream(b"", opened(data), limits or Limits())]


def until_it_breaks(data: bytes) -> tuple[list[Any], str]:
    """The elements before the break, and its reason."""
    found = []
    try:
        for value, _ in ArrayStream(b"", opened(data), Limits()):
            found.append(value)
    except Unreadable as problem:
        return found, problem.reason
    raise AssertionError("it did not break")


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1]), st.booleans())
def test_the_same_as_parsing_at_once(values: list[Any], indent: int | None, ascii_only: bool) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    assert elements(data) == values


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(min_value=1))
def test_a_cut_array_gives_its_sound_elements_and_says_that_it_was_cut(values: list[Any], cut: int) -> None:
    data = json.dumps(values).encode()
    found, reason = until_it_breaks(data[: cut % len(data)])
    assert reason == "truncated_json"
    # A number at the end of a cut file may have lost digits: it is complete JSON all the same.
    assert found == values[: len(found)] or isinstance(found[-1], int | float)


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (b"[1, 2} ", 2, "bad_json"),
        (b"[1 2]", 1, "bad_json"),
        (b"[1] [2]", 1, "bad_json"),
        (b'["a", "\xff"]', 1, "encoding"),
        (b'[1, {"a": tru}, 3, 4, 5, 6, 7, 8, 9, 10]', 1, "bad_json"),
        (b'[1, "\\ud800"]', 1, "lone_surrogate"),
        (b"[1, " + b"[" * 200_000, 1, "too_deep"),
        (b"[", 0, "truncated_json"),
    ],
)
def test_where_it_breaks(data: bytes, count: int, reason: str) -> None:
    found, why = until_it_breaks(data)
    assert (len(found), why) == (count, reason)


def test_an_element_beyond_the_limit() -> None:
    with pytest.raises(Unreadable, match="more than 100"):
        elements(json.dumps(["x" * 1000]).encode(), Limits(document=100))


def test_an_empty_array() -> None:
    assert elements(b" [ ] \n") == []
