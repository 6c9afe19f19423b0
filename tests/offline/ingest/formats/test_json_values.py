"""Parsing: what is bent, what is broken."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import array_stream, json_values
from drsr.offline.ingest.formats.array_stream import ArrayStream
from drsr.offline.ingest.formats.json_values import dumps, loads
from drsr.offline.store.source_files import Limits, Unreadable


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


@pytest.mark.parametrize("flat", [b"[],", b"0,", b"{},", b'"",'])
def test_more_values_than_a_run_can_have(flat: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes each in the file, a hundred each once they are read."""
    for module in (json_values, array_stream):
        monkeypatch.setattr(module, "MOST_VALUES", 1_000)
    data = b'{"a": [' + flat * 1_001 + b"0]}"
    with pytest.raises(Unreadable, match="more than 1,000 values") as caught:
        loads(data)
    assert caught.value.reason == "too_many_values"
    monkeypatch.setattr(array_stream, "_CHUNK", 500)
    with pytest.raises(Unreadable, match="more than 1,000 values"):  # looked at whenever it has doubled
        list(ArrayStream(b"", io.BytesIO(b"[[" + flat * 5_000 + b"0]]"), Limits()))
    assert len(loads(b"[" + flat * 999 + b"0]")) == 1_000


def test_commas_inside_strings_are_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MOST_VALUES", 10)
    assert loads(json.dumps({"table": '1,2,3\\",4\n' * 100}).encode())["table"].startswith("1,2")


@given(st.recursive(st.text(',"\\\\x', max_size=6) | st.integers(), lambda inner: st.lists(inner, max_size=4)))
def test_commas_are_counted_as_parsing_would(value: object) -> None:
    """In whichever pieces the text is looked at."""

    def between(found: object) -> int:
        return max(0, len(found) - 1) + sum(map(between, found)) if isinstance(found, list) else 0

    data = json.dumps(value).encode()
    for piece in (1, 2, 3, 7, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_values, "_PIECE", piece)
            assert json_values._commas(data) == between(value)
