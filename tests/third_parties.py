"""The third-party packages that an extra of drsr brings, and no other: links to those of the running environment.

Installing torch and transformers again for a test would take minutes and a gigabyte. A folder of links, named by a
`.pth` file of an otherwise empty virtual environment, shows Python and pip exactly the packages that `pip install
'drsr[backbone]'` would bring, down to the last dependency; everything else is really absent there.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement


def link_third_parties(folder: Path, extra: str) -> set[str]:
    """Fill a new folder with links; returns the names of the distributions."""
    folder.mkdir()
    needed = _required(requires("drsr") or [], extra)
    closure: dict[str, Distribution] = {}
    while needed:
        name = needed.pop()
        if name not in closure:
            closure[name] = distribution(name)
            needed |= _required(closure[name].requires or [])
    for found in closure.values():
        for top in {Path(file).parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            link, target = folder / top, Path(str(found.locate_file(top)))
            if not link.exists():
                link.symlink_to(target)
    return set(closure)


def _required(written: list[str], extra: str = "") -> set[str]:
    found = set()
    for line in written:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            found.add(requirement.name.lower().replace("_", "-"))
    return found
