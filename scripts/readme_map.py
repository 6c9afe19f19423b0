"""Writes the README's map: one phrase per file, taken from the first line of its docstring. `--check` only compares."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FOLDERS = ("drsr", "flows", "expectations", "benchmarks", "migrations", "scripts")
BLOCK = re.compile(r"(<!-- map -->\n).*?(<!-- end of map -->)", re.DOTALL)


def phrase(path: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring: the README's map needs its first line")
    return docstring.splitlines()[0].rstrip(".:")


def lines() -> list[str]:
    """The map: folders in the order of reading, their files below them. Empty package files are left out."""
    found = []
    for folder in FOLDERS:
        directories = sorted({path.parent for path in (ROOT / folder).rglob("*.py")})
        for directory in directories:
            entries = [
                f"  {path.name:<28} {phrase(path)}"
                for path in sorted(directory.glob("*.py"))
                if path.name != "__init__.py" or len(path.read_text().splitlines()) > 1
            ]
            if entries:
                found += [f"{directory.relative_to(ROOT)}/", *entries]
    return found


def rewritten(readme: str) -> str:
    block = "```text\n" + "\n".join(lines()) + "\n```\n"
    if not BLOCK.search(readme):
        raise SystemExit("README.md has no <!-- map --> block")
    return BLOCK.sub(lambda match: match[1] + block + match[2], readme)


def main() -> int:
    before = README.read_text()
    after = rewritten(before)
    if "--check" in sys.argv:
        return 0 if before == after else 1
    README.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
