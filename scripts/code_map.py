"""Write the maps: a phrase per room in the README, a phrase per file in docs/map.md. `--check` only compares.

Every phrase is the first line of a docstring, so a map says what the code says about itself.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FILE_MAP = ROOT / "docs" / "map.md"
FOLDERS = ("drsr", "flows", "expectations", "benchmarks", "migrations", "scripts")
BLOCK = re.compile(r"(<!-- map -->\n).*?(<!-- end of map -->)", re.DOTALL)


def phrase(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring: the map needs its first line")
    return docstring.splitlines()[0].rstrip(".:")


def directories() -> list[Path]:
    """Return the folders with code, in the order of reading."""
    return [found for folder in FOLDERS for found in sorted({path.parent for path in (ROOT / folder).rglob("*.py")})]


def room_lines() -> list[str]:
    """Return a line per room that says what it is for. Deeper folders appear only in docs/map.md."""
    rooms = [path for path in directories() if (path / "__init__.py").exists() and _is_room(path)]
    return [f"{f'{path.relative_to(ROOT)}/':<24} {phrase(path / '__init__.py')}" for path in rooms]


def _is_room(folder: Path) -> bool:
    """Return whether a folder is a top folder, a room of `drsr`, or a room of `drsr.offline`."""
    above = folder.relative_to(ROOT).parts[:-1]
    return above in ((), ("drsr",), ("drsr", "offline"))


def file_lines() -> list[str]:
    """Return every folder with its files below it. Package files that hold nothing but a docstring are left out."""
    found = []
    for directory in directories():
        entries = [
            f"  {path.name:<28} {phrase(path)}"
            for path in sorted(directory.glob("*.py"))
            if path.name != "__init__.py" or len(path.read_text().splitlines()) > 1
        ]
        if entries:
            found += [f"{directory.relative_to(ROOT)}/", *entries]
    return found


MAPS: dict[Path, Callable[[], list[str]]] = {README: room_lines, FILE_MAP: file_lines}


def rewritten(page: Path) -> str:
    """Return the page as it should be."""
    text = page.read_text()
    if not BLOCK.search(text):
        raise SystemExit(f"{page.relative_to(ROOT)} has no <!-- map --> block")
    block = "```text\n" + "\n".join(MAPS[page]()) + "\n```\n"
    return BLOCK.sub(lambda match: match[1] + block + match[2], text)


def main() -> int:
    old = {page: page.read_text() for page in MAPS}
    new = {page: rewritten(page) for page in MAPS}
    if "--check" in sys.argv:
        return 0 if old == new else 1
    for page, text in new.items():
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
