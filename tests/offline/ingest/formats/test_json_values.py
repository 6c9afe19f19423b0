"""Parsing: what is bent, what is broken."""

from __future__ import annotations

import pytest

from drsr.offline.ingest.formats.json_values import dumps, loads
from drsr.offline.store.source_files import Unreadable


def test_what_python_writes_and_json_does_not_have() -> None:
    assert loads(b'{"a": NaN, "b": -Infinity}') == {"a": "NaN", "b": "-Infinity"}


def test_whole_numbers_beyond_64_bits_come_out_the_same_on_both_paths() -> None:
    assert loads(b"[100000000000000000000000]") == [1e23]
    assert loads(b"[NaN, 100000000000000000000000, 18446744073709551615, -9223372036854775808]") == [
        *("NaN", 1e23, 18446744073709551615, -9223372036854775808),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": [1, 2', "truncated_json"),
        (b'{"a": "no end', "truncated_json"),
        (b'{"a": 1,, "b": 2}', "bad_json"),
        (b'{"a": "x\x00y"}', "bad_json"),
        (b'{"a": "caf\xe9"}', "encoding"),
        (b'{"a": "\\ud800"}', "lone_surrogate"),
        (b"[" * 300 + b"NaN" + b"]" * 300, "too_deep"),
        (b"[NaN, " + b"[" * 200_000, "too_deep"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as raised:
        loads(data)
    assert raised.value.reason == reason


def test_writing_keeps_the_order_of_keys() -> None:
    assert dumps({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'
