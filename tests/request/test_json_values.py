"""The door for untrusted JSON: what is copied, what is refused, and the one text of a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from drsr.errors import RequestError, RequestTooLarge
from drsr.request import json_values
from drsr.request.json_values import (
    MAX_DEPTH,
    MAX_REQUEST_CHARACTERS,
    VALUE_CHARACTERS,
    CheckedCopy,
    canonical_json,
    parse_json,
)
from tests.strategies import any_json, objects


@given(any_json)
def test_a_copy_equals_its_original_and_shares_no_container(value: Any) -> None:
    copied = _copy_or_error(value)
    if isinstance(copied, RequestError):
        assert str(copied).startswith("here: ")
    else:
        assert json.dumps(copied) == json.dumps(value)
        assert not set(map(id, _containers(copied))) & set(map(id, _containers(value)))


def _copy_or_error(value: Any) -> Any:
    try:
        return CheckedCopy()(value, "here")
    except RequestError as error:
        return error


def _containers(value: Any) -> list[Any]:
    if not isinstance(value, (dict, list)):
        return []
    items = value.values() if isinstance(value, dict) else value
    return [value, *(found for item in items for found in _containers(item))]


def test_a_tuple_becomes_the_list_that_json_would_make_of_it() -> None:
    assert CheckedCopy()({"a": (1, (2,))}, "") == {"a": [1, [2]]}


def test_characters_are_counted_over_all_that_is_copied() -> None:
    checked = CheckedCopy()
    checked({"key": ["ab", {"c": "é"}]}, "")
    assert checked.characters == 5 * VALUE_CHARACTERS + len("key" + "ab" + "c" + "é")
    checked("x" * (MAX_REQUEST_CHARACTERS - checked.characters - VALUE_CHARACTERS), "")
    with pytest.raises(RequestTooLarge, match="^there: more than 8,388,608 characters"):
        checked("", "there")


def test_millions_of_empty_values_are_too_large_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_REQUEST_CHARACTERS", 1000 * VALUE_CHARACTERS)
    assert len(CheckedCopy()([None] * 999, "here")) == 999
    with pytest.raises(RequestTooLarge, match="^here: more than 8,000 characters"):
        CheckedCopy()([None] * 1000, "here")


def test_a_value_that_unfolds_without_end_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_REQUEST_CHARACTERS", 10_000)
    value: list[Any] = []
    for _ in range(100):
        value = [value, value]  # 2 to the 100th values when written out
    with pytest.raises(RequestTooLarge):
        CheckedCopy()(value, "here")


def test_nesting_is_allowed_to_the_limit_and_no_further() -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    assert CheckedCopy()(value, "") == value
    with pytest.raises(RequestError, match="nested deeper than 200"):
        CheckedCopy()([value], "")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),  # a byte-order mark
        ('{"a": "é"}'.encode("utf-16"), {"a": "é"}),
        (b'"\\u0000"', "\x00"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b" [1, 2] \n", [1, 2]),
    ],
)
def test_json_is_parsed(data: bytes, value: Any) -> None:
    assert parse_json(data, "f.json") == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{} {}",
        b"{'a': 1}",
        b"\xff\xfe\xfa",
        b"\x80abc",
        b'{"a": "\xe9"}',
        b"NaN",
        b'{"a": Infinity}',
        b"[-Infinity]",
        b'"a\x00b"',
        b"9" * 5000,
        b"[" * 200_000,
        b'{"a":' * 200_000,
    ],
    ids=range(14),
)
def test_what_is_not_json_is_refused_with_its_file(data: bytes) -> None:
    with pytest.raises(RequestError, match=r"^f\.json: not (JSON|readable): ") as raised:
        parse_json(data, "f.json")
    assert len(str(raised.value)) < 400


def test_a_lone_surrogate_passes_the_parser_and_stops_at_the_copy() -> None:
    with pytest.raises(RequestError, match="lone surrogate"):
        CheckedCopy()(parse_json(b'["\\ud800"]', "f.json"), "f.json")


@given(objects)
def test_the_canonical_text_spells_the_value_whatever_the_order_of_its_keys(value: dict[str, Any]) -> None:
    assert json.loads(canonical_json(value)) == value
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_the_canonical_text_is_written_with_sorted_keys_and_without_escapes() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": {"é": True}}) == '{"a": {"é": true}, "b": [1, 2.5, null]}'
