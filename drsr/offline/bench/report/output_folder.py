"""A folder to write to, or a complaint before anything was measured for it."""

from __future__ import annotations

import os
from pathlib import Path

from drsr.errors import SettingsError


def make_folder(folder: Path) -> None:
    """Create the folder if it is missing; raise SettingsError if nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = None if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        why = error.strerror
    if why is not None:
        raise SettingsError(f"cannot be written to: {why}", where=str(folder), hint="name another place with --output")
