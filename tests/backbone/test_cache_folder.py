"""Where the cache folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.backbone.cache_folder import cache_folder


@pytest.mark.parametrize(
    ("chosen", "xdg", "expected"),
    [
        ("/data/drsr", "/xdg", "/data/drsr"),
        ("~/models", None, "/home/someone/models"),
        ("", "/xdg", "/xdg/drsr"),
        (None, "/xdg", "/xdg/drsr"),
        (None, "relative", "/home/someone/.cache/drsr"),
        (None, "", "/home/someone/.cache/drsr"),
        (None, None, "/home/someone/.cache/drsr"),
    ],
)
def test_cache_folder(monkeypatch: pytest.MonkeyPatch, chosen: str | None, xdg: str | None, expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    for name, value in (("DRSR_CACHE", chosen), ("XDG_CACHE_HOME", xdg)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_a_relative_choice_is_of_the_working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_CACHE", "here")
    assert cache_folder() == tmp_path / "here"
