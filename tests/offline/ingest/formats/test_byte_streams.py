"""Taking bytes from streams and putting them back."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import byte_streams
from drsr.offline.ingest.formats.byte_streams import put_back, skip_line, taken

TEXT = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n"])).map(b"".join)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_streams, "_PIECE", 3)
        yield


@given(TEXT, st.integers(0, 30))
def test_what_was_taken_and_put_back_is_there_again(data: bytes, limit: int) -> None:
    stream = io.BufferedReader(io.BytesIO(data))
    ahead = taken(stream, limit)
    assert ahead == data[:limit]
    assert put_back(ahead, stream).read() == data


@given(TEXT, st.integers(0, 30))
def test_lines_are_the_same_behind_bytes_put_back(data: bytes, limit: int) -> None:
    stream = io.BufferedReader(io.BytesIO(data))
    assert put_back(taken(stream, limit), stream).readlines() == io.BytesIO(data).readlines()


@given(TEXT)
def test_a_line_is_skipped_to_its_end(data: bytes) -> None:
    stream = io.BytesIO(data)
    skip_line(stream)
    assert stream.read() == data.partition(b"\n")[2]


def test_what_is_taken_follows_its_start() -> None:
    assert taken(io.BytesIO(b"cdef"), 2, b"ab") == b"abcd"
    assert taken(io.BytesIO(b"cdef"), -1, b"ab") == b"ab"
