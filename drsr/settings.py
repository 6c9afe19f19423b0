"""Settings: the places of catalog and artifacts, and the language model to use.

Each setting comes from, in this order: the environment (`DRSR_CATALOG_URL`, ...), `drsr.toml` in the working directory,
the default. An empty environment variable counts as not set, because compose files write it so.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from drsr.errors import SettingsError
from drsr.redaction import redact

SETTINGS_FILE = "drsr.toml"
MIXED = "float16-mixed"
DTYPES = ("float32", "bfloat16", "float16", MIXED)
_MAY_BE_SECRET = frozenset({"on_failure", "lineage"})
"""A webhook's path is often a key, and a command may hold one."""
_WHOLE = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The settings that every offline command needs before it starts. Printing them never shows a password."""

    catalog_url: str
    """SQLAlchemy URL of the database: `sqlite:///path` or `postgresql://user:password@host/name`."""
    artifact_root: str
    """fsspec URL or path of the folder that holds trajectories and arrays."""
    backbone: str = "smollm2-135m"
    """Name of the language model that measures harm and gives features."""
    device: str = "cpu"
    """Device that it runs on: `cpu`, `mps`, `cuda`, `cuda:1`."""
    dtype: str = "float32"
    """Number format it computes in: `float32`, `float16-mixed` (16-bit matrices between 32-bit activations, for GPUs),
    `bfloat16` or `float16`."""
    label_memory_mb: str = "8192"
    """Memory of the device that measuring and featurizing may take above the loaded model, in each process."""
    on_failure: str = ""
    """Whom to tell when a run fails: a webhook's URL, or a command, which is run without a shell."""
    lineage: str = ""
    """URL or file to which every stage sends OpenLineage events."""
    prices: str = ""
    """The prices of tokens: the path of a table by model, or four numbers for every model, per million tokens of input,
    cached input, cache write and output. Empty: the list prices that come with drsr."""

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise SettingsError(f"device {self.device!r} is unknown", hint="use cpu, mps, cuda or cuda:<number>")
        if self.dtype not in DTYPES:
            raise SettingsError(f"dtype {self.dtype!r} is unknown", hint=f"use one of {', '.join(DTYPES)}")
        if not _WHOLE.fullmatch(self.label_memory_mb):
            raise SettingsError(f"label_memory_mb {self.label_memory_mb!r} is not a number of megabytes above 0")
        for name in sorted(_MAY_BE_SECRET):
            scheme = _SCHEME.match(getattr(self, name))
            if scheme and scheme[1].lower() not in ("http", "https"):
                other = "the path of a file" if name == "lineage" else "a command"
                raise SettingsError(f"{name} begins with {scheme[0]}", hint=f"an http or https URL, or {other}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={self._shown(field.name)!r}" for field in fields(self))
        return f"Settings({shown})"

    def _shown(self, name: str) -> str:
        value: str = getattr(self, name)
        return "***" if value and name in _MAY_BE_SECRET else redacted(value)


def load_settings(directory: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings for a working directory and an environment, by default those of this process."""
    directory = (directory or Path.cwd()).absolute()
    environment = os.environ if environment is None else environment
    names = [field.name for field in fields(Settings)]
    values = {
        "catalog_url": f"sqlite:///{directory / 'var' / 'catalog.sqlite'}",
        "artifact_root": str(directory / "var" / "artifacts"),
        **_from_file(directory / SETTINGS_FILE, names),
        **{name: environment[_variable(name)] for name in names if environment.get(_variable(name))},
    }
    return Settings(**values)


def redacted(url: str) -> str:
    """Return the same URL as it may be shown: without user, password, query and fragment."""
    return redact(url)


def _variable(name: str) -> str:
    return f"DRSR_{name.upper()}"


def _from_file(path: Path, names: list[str]) -> dict[str, str]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot be read: {error}", where=str(path)) from None
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise SettingsError(f"unknown key {unknown[0]!r}", where=str(path), hint=f"the keys are {', '.join(names)}")
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise SettingsError(f"{name} must be a text that is not empty", where=str(path))
    return values


def cache_folder() -> Path:
    """For what can be fetched or computed again: `DRSR_CACHE`, else `XDG_CACHE_HOME/drsr`, else `~/.cache/drsr`.

    It need not exist yet.
    """
    chosen = os.environ.get("DRSR_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "drsr"
