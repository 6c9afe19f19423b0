"""The `drsr` command as the other commands' tests call it."""

from __future__ import annotations

from tests.offline.commands.conftest import drsr

__all__ = ["drsr"]
