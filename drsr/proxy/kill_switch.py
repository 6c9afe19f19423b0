"""The kill switch: while a certain file exists, every request goes through unchanged.

    touch var/pruning-off        # at once, for every proxy that was given this file
    rm var/pruning-off

A file and not a command over HTTP: it needs no secret that could leak, the permissions of the file's folder decide who
may use it, it survives restarts, and one file on a shared volume stops many proxies.
"""

from __future__ import annotations

from pathlib import Path


class KillSwitch:
    """Look for the file each time it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def engaged(self) -> bool:
        """Return whether the switch is on; it counts as on if the file cannot be looked up."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True
