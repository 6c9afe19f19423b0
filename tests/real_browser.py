"""A real browser, for the pages that people look at.

It is `chromium` (Debian's package). Where CI is set its absence is a failure; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--window-size=1100,900",
]
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND"
"""No name resolves: whatever a page asked for would be an error."""
SCHEMES = {"light": 1, "dark": 0}


class Browser(NamedTuple):
    program: str
    folder: Path
    """Where its profile and pictures lie."""

    def open(self, url: str, *flags: str) -> str:
        """What it prints; the page's own complaints are a failure."""
        command = [self.program, *FLAGS, f"--user-data-dir={self.folder / 'profile'}", *flags, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
        return done.stdout

    def grounds(self, url: str, *flags: str) -> dict[str, float]:
        """How bright the page's ground is in light and in dark; a page with nothing on it is a failure."""
        import matplotlib.image

        found = {}
        for name, setting in SCHEMES.items():
            picture = self.folder / f"{name}.png"
            scheme = f"--blink-settings=preferredColorScheme={setting}"
            self.open(url, scheme, f"--screenshot={picture}", "--hide-scrollbars", *flags)
            pixels = matplotlib.image.imread(picture)
            assert pixels.shape[:2] == (900, 1100)
            found[name] = float(pixels[:5, :, :3].mean())  # of the page's upper edge, where only its ground is
            assert float(pixels[:, :, :3].std()) > 0.02
        return found


def find_browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    message = "no Chromium on this machine; on Debian: apt-get install chromium"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
