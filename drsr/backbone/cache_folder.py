"""The cache folder for what can be fetched or computed again: converted weights, remembered hashes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`DRSR_CACHE`, else `XDG_CACHE_HOME/drsr`, else `~/.cache/drsr`. It need not exist yet."""
    chosen = os.environ.get("DRSR_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "drsr"
