"""Long arrays element by element, and long documents piece by piece."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import array_stream
from drsr.offline.ingest.formats.array_stream import ArrayStream, DocumentStream
from drsr.offline.ingest.formats.json_values import loads
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


def document(data: bytes, limits: Limits | None = None) -> Any:
    return DocumentStream(b"", opened(data), limits or Limits()).read()[0]


NUMBERS = st.floats(allow_nan=False) | st.integers(-(2**70), 2**70)
DOCUMENTS = st.dictionaries(st.text(max_size=4), VALUES | NUMBERS | st.lists(VALUES | NUMBERS, max_size=6), max_size=5)


@given(DOCUMENTS, st.sampled_from([None, 1]), st.booleans(), st.sampled_from(["", " \n"]))
def test_a_document_is_the_same_as_parsed_at_once(
    values: dict[str, Any], indent: int | None, ascii_only: bool, behind: str
) -> None:
    data = (json.dumps(values, indent=indent, ensure_ascii=ascii_only) + behind).encode(errors="surrogatepass")
    found, expected = document(data), loads(data)
    assert found == expected
    assert json.dumps(found) == json.dumps(expected)  # kinds of numbers and the order of keys as well


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": [1, 2, 3, -0, -0.0, 1e400, 1E+2, 123456789012345678901234567890], "b": {"c": "\\ud83d\\ude00"}}',
        b'{"twice": [1, 2, 3, 4, 5], "other": 1, "twice": [6, 7, 8, 9, 10]}',
        b'{"a": NaN, "b": [Infinity, -Infinity, 1, 2, 3, 4]}',
        b'{"": {}, "deep": [[[[[[[["x"]]]]]]]], "empty": []}',
    ],
)
def test_oddities_are_read_as_they_are_at_once(data: bytes) -> None:
    assert json.dumps(document(data)) == json.dumps(loads(data))


@given(DOCUMENTS.filter(bool), st.integers(min_value=1))
def test_a_cut_document_is_none(values: dict[str, Any], cut: int) -> None:
    data = json.dumps(values).encode()
    with pytest.raises(Unreadable):
        document(data[: cut % len(data)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1} {"b": 2}', "bad_json"),
        (b'{"a": 1, "b" 2, "c": 3, "d": 4}', "bad_json"),
        (b'{"a": [1, 2, 3, 4], 5: 6, "c": 7}', "bad_json"),
        (b'{"a": [1, 2, 3, 4}, "b": 5}', "bad_json"),
        (b'{"a": ["b", "c", "\xff"]}', "encoding"),
        (b'{"a": ["b", "c", "d", "\\ud800"]}', "lone_surrogate"),
        (b'{"a":' * 200_000, "too_deep"),
    ],
)
def test_what_is_wrong_in_a_document(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as problem:
        document(data)
    assert problem.value.reason == reason


def test_a_document_beyond_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreadable, match="more than 100"):
        document(json.dumps({"a": ["x" * 10] * 100}).encode(), Limits(document=100))
    monkeypatch.setattr(array_stream, "MOST_VALUES", 50)
    assert document(json.dumps({"a": [1] * 40, "b": ", " * 100}).encode())["a"] == [1] * 40
    for many in ({"a": [1] * 60}, {"a": [[], {"b": []}] * 40}, {str(number): 1 for number in range(60)}):
        with pytest.raises(Unreadable, match="more than 4,000,000 values"):
            document(json.dumps(many).encode())
