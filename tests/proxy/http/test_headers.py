"""Headers, in either direction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.proxy.http.headers import asks_for_bypass, credentials, is_encoded, to_client, to_upstream

NAMES = st.sampled_from(
    [
        b"accept",
        b"authorization",
        b"connection",
        b"content-length",
        b"host",
        b"te",
        b"upgrade",
        b"x-a",
        b"x-drsr-bypass",
    ]
)
HEADERS = st.lists(st.tuples(NAMES, st.sampled_from([b"1", b"x-a, accept", b"Keep-Alive", b""])), max_size=8)


@given(HEADERS, st.booleans())
def test_nothing_is_added_and_order_is_kept(headers: list[tuple[bytes, bytes]], new_length: bool) -> None:
    """Against the obvious way to say it, one header at a time."""
    named = b",".join(value for name, value in headers if name == b"connection").lower().replace(b" ", b"").split(b",")
    never = {b"connection", b"te", b"upgrade", b"host", b"x-drsr-bypass", *named}
    if new_length:
        never.add(b"content-length")
    assert to_upstream(headers, new_length=new_length) == [header for header in headers if header[0] not in never]


def test_a_length_beside_chunks_is_dropped() -> None:
    headers = [(b"content-length", b"3"), (b"transfer-encoding", b"chunked"), (b"accept", b"1")]
    assert to_upstream(headers, new_length=False) == [(b"accept", b"1")]


def test_an_answers_headers() -> None:
    headers = [(b"Content-Type", b"a"), (b"Set-Cookie", b"1"), (b"set-cookie", b"2"), (b"Connection", b"X-One")]
    more = [(b"x-one", b"1"), (b"Transfer-Encoding", b"chunked"), (b"X-Drsr-Reason", b"x"), (b"content-length", b"3")]
    assert to_client([*headers, *more]) == [
        (b"content-type", b"a"),
        (b"set-cookie", b"1"),
        (b"set-cookie", b"2"),
        (b"content-length", b"3"),
    ]


@pytest.mark.parametrize(
    ("value", "asked"),
    [(b"1", True), (b"yes", True), (b" True ", True), (b"0", False), (b"false", False), (b"", False)],
)
def test_bypass(value: bytes, asked: bool) -> None:
    assert asks_for_bypass([(b"x-drsr-bypass", value)]) is asked
    assert not asks_for_bypass([(b"x-other", b"1")])


@pytest.mark.parametrize(
    ("value", "encoded"), [(b"gzip", True), (b"br, gzip", True), (b"identity", False), (b"", False)]
)
def test_encoded(value: bytes, encoded: bool) -> None:
    assert is_encoded([(b"content-encoding", value)]) is encoded
    assert not is_encoded([])


def test_credentials_are_all_that_tells_callers_apart() -> None:
    assert credentials([(b"accept", b"1"), (b"x-api-key", b"2"), (b"authorization", b"3")]) == [
        (b"x-api-key", b"2"),
        (b"authorization", b"3"),
    ]
