"""Settings from environment, file and defaults, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import SettingsError
from drsr.settings import Settings, cache_folder, load_settings, redacted


def test_defaults_lie_below_the_working_directory(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings(
        catalog_url=f"sqlite:///{tmp_path}/var/catalog.sqlite",
        artifact_root=f"{tmp_path}/var/artifacts",
        backbone="smollm2-135m",
        device="cpu",
        dtype="float32",
        label_memory_mb="8192",
        prices="",
    )


def test_the_working_directory_is_this_process_s_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_DEVICE", "cuda:1")
    assert load_settings() == load_settings(tmp_path, {"DRSR_DEVICE": "cuda:1"})


def test_environment_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "drsr.toml").write_text('device = "mps"\ndtype = "bfloat16"\nartifact_root = "s3://bucket/here"\n')
    settings = load_settings(tmp_path, {"DRSR_DEVICE": "cuda", "DRSR_DTYPE": "", "PATH": "/bin"})
    assert (settings.device, settings.dtype, settings.artifact_root) == ("cuda", "bfloat16", "s3://bucket/here")
    assert settings.backbone == "smollm2-135m"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('catalog = "x"', "unknown key 'catalog'"),
        ("device = 3", "device must be a text"),
        ('backbone = ""', "backbone must be a text"),
        ("device = ", "cannot be read"),
        ('device = "tpu"', "device 'tpu' is unknown"),
        ('dtype = "float64"', "dtype 'float64' is unknown"),
        ('label_memory_mb = "0"', "label_memory_mb '0' is not a number"),
        ('lineage = "kafka://broker/topic"', "lineage begins with kafka://"),
        (
            'on_failure = "htps://hooks.example/key"',
            "on_failure begins with htps://\n  hint: an http or https URL, or a",
        ),
        ('label_memory_mb = "2 GB"', "label_memory_mb '2 GB' is not a number"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "drsr.toml").write_text(text)
    with pytest.raises(SettingsError, match=complaint):
        load_settings(tmp_path, {})


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drsr.toml").write_bytes('backbone = "größe"'.encode("utf-16"))
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/catalog.sqlite", "sqlite:////var/catalog.sqlite"),
        ("postgresql://me@host/name", "postgresql://me@host/name"),
        ("postgresql://me:hunter2@host/name", "postgresql://me:***@host/name"),
        ("postgresql://me:hun@ter/2?@host/name", "postgresql://me:***@host/name"),
        ("postgresql://host/name?user=me&password=hunter2&sslmode=off", "postgresql://host/name"),
        ("postgresql://host/name?password=hun@ter2", "postgresql://***"),
        ("postgresql+psycopg://me:hunter2@host:5432/name", "postgresql+psycopg://me:***@host:5432/name"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("s3://AKIAKEY@bucket/x", "s3://bucket/x"),
        ("https://token@host/x", "https://host/x"),
        ("https://host/a?X-Amz-Signature=hunter2", "https://host/a"),
        ("https://host/a?sig=hunter2", "https://host/a"),
        ("https://host/a?passwd=hunter2", "https://host/a"),
        ("https://host/a#access_token=hunter2", "https://host/a"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_redacted(url: str, shown: str) -> None:
    assert redacted(url) == shown


@given(password=st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=6))
def test_no_password_is_printed(password: str) -> None:
    secret = f"q{password}q"
    settings = Settings(catalog_url=f"postgresql://me:{secret}@host/name", artifact_root=f"s3://me:{secret}@bucket")
    assert secret not in repr(settings) + str(settings)
    assert "***@host/name" in repr(settings)


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
