"""What is shown of locations that hold secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.redaction import links, redact, take_apart, without_userinfo


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://user:aa::s3cr3t@127.0.0.1:9/x", "https://127.0.0.1:9/x"),
        ("https://user:12/s3cr3t@127.0.0.1:9/x", "https://127.0.0.1:9/x"),
        ("https://user:12?s3cr3t@host/x", "https://host/x"),
        ("s3://key:12/s3cr3t@bucket/x", "s3://bucket/x"),
        ("https://user:s3cr3t", "https://user"),
        ("https://user:aa::https://s3cr3t@host/x", "https://user::https://host/x"),
        ("https://host.org/x?password=a@s3cr3t", "https://host.org/x"),
        ("https://host:80/x?password=a@s3cr3t", "https://***"),
        ("https://host/x#access_token=s3cr3t", "https://host/x"),
        ("https://host/x?a=b#access_token=s3cr3t", "https://host/x"),
        ("gs://bucket/x#token=s3cr3t", "gs://bucket/x"),
        ("simplecache::https://user:aa::s3cr3t@host/x", "simplecache::https://host/x"),
        ("zip://a.json::https://user:s3cr3t@host/x.zip?sig=s3cr3t", "zip://a.json::https://host/x.zip"),
        ("https://host.org:8080/a@b", "https://host.org:8080/a@b"),
        ("http://localhost:8080/a@b", "http://localhost:8080/a@b"),
        ("http://host:8080/a", "http://host:8080/a"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a"),
        ("http://u:s3cr3t@[::1]:8080/a", "http://[::1]:8080/a"),
        ("s3://bucket/a#1.json", "s3://bucket/a#1.json"),
        ("sqlite:////data/a@b.sqlite", "sqlite:////data/a@b.sqlite"),
        ("data/a::b", "data/a::b"),
        ("file:///data/a@b?c=d", "file:///data/a@b?c=d"),
    ],
)
def test_what_is_shown(uri: str, shown: str) -> None:
    assert redact(uri) == shown
    assert redact(shown) == shown


@given(
    st.sampled_from(["https", "s3", "gs", "postgresql", "sftp"]),
    st.text(st.characters(codec="utf-8", exclude_characters="@"), max_size=30),
    st.sampled_from(["", "filecache::"]),
)
def test_no_password_is_shown(scheme: str, password: str, chain: str) -> None:
    shown = redact(f"{chain}{scheme}://user:{password}S3CR3T@host.org/x")
    assert "S3CR3T" not in shown


def test_taking_apart_loses_nothing() -> None:
    assert without_userinfo("s3://k:s@bucket/x?a=b#c") == ("s3://bucket/x?a=b#c", "k:s")
    assert without_userinfo("filecache::s3://k:s@bucket/x") == ("filecache::s3://k:s@bucket/x", "")
    assert links("zip://a::filecache::s3://b/c") == ["zip://a::filecache", "s3://b/c"]
    assert take_apart("/data/x") is None
