"""What is JSON, what is not, and what is JSON but not for us."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.proxy.http.json_body import NotJson, Unreadable, parse_body

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_every_json_value_comes_back(value: Any) -> None:
    assert parse_body(json.dumps(value).encode()) == value
    assert parse_body(json.dumps(value, ensure_ascii=False, indent=2).encode()) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_one_of_two_errors(data: bytes) -> None:
    try:
        found = parse_body(data)
    except (NotJson, Unreadable):
        return
    assert json.loads(data) == found


@pytest.mark.parametrize("data", [b"", b"x", b"{", b"\xff", b"NaN", b"-Infinity", b"[1]\0", "{}".encode("utf-16-le")])
def test_not_json(data: bytes) -> None:
    with pytest.raises(NotJson):
        parse_body(data)


@pytest.mark.parametrize("data", [b"[" * 100_000 + b"]" * 100_000, b"9" * 5_000])
def test_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_body(data)


def test_a_complaint_quotes_nothing() -> None:
    with pytest.raises(NotJson) as caught:
        parse_body(b'{"a": SECRET}')
    assert str(caught.value) == "Expecting value at line 1, column 7"
