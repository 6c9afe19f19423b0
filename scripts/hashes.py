"""`make hashes EXTRAS=light`: a release's requirements with the hash of every file, for `pip install --require-hashes`.

Written to `var/requirements-light.txt`. `constraints.txt` pins versions; a server could still deliver other files. What
pip would install here is resolved with these versions and written with the SHA-256 that the package index states for
each file. The files are those of this platform and this Python: write the list where it will be used. drsr itself is
left out: its wheel is installed with --no-deps by its own hash.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def resolved(extras: str) -> dict[str, Any]:
    """Ask pip what it would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", "--constraint", "constraints.txt", f".[{extras}]"]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report


def requirements(report: dict[str, Any]) -> list[str]:
    """Return a line per package of a report, sorted. ValueError for a file without a hash."""
    lines = []
    for found in report["install"]:
        name, version = found["metadata"]["name"].lower(), found["metadata"]["version"]
        if name == "drsr":
            continue
        sha256 = found["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256 is None:
            raise ValueError(f"the package index states no SHA-256 of {name} {version}")
        lines.append(f"{name}=={version} --hash=sha256:{sha256}")
    return sorted(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.hashes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("extras", nargs="?", default="light", help="extras of drsr, by commas (default: light)")
    parser.add_argument("--to", type=Path, default=Path("var"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    lines = requirements(resolved(options.extras))
    path: Path = options.to / f"requirements-{options.extras.replace(',', '-')}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    print(f"{path}: {len(lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
