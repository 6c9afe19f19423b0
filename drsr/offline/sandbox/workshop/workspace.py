"""The temporary folder in which one task happens, and what each tool really does there."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from drsr.offline.sandbox.workshop import website
from drsr.offline.sandbox.workshop.shell import run_command

SITE = "site"
"""The folder that the web tools serve."""
LOG = "log.txt"
"""File that the tool `log` writes to."""
DATABASE = "data.db"
"""The database of a task that has one."""


class Workspace:
    """Runs tool calls in one folder. What cannot be done is an `error: ...` text, as a model would see it."""

    def __init__(self, root: Path, closing_stack: ExitStack) -> None:
        self.root = root
        self._closing = closing_stack
        self._port: int | None = None

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Return the output of one tool call."""
        match tool:
            case "list":
                return self._list(arguments["path"])
            case "read":
                return self._read(arguments["path"])
            case "write":
                return self._write(arguments["path"], arguments["text"])
            case "log":
                return self._log(arguments["line"])
            case "replace":
                return self._replace(arguments["path"], arguments["old"], arguments["new"])
            case "run":
                return run_command(arguments["command"], self.root)
            case "sql":
                return self._sql(arguments["query"])
            case "open":
                return website.open_page(self._site_port(), arguments["path"])
            case "post":
                return website.post_form(self._site_port(), arguments["form"])
            case _:
                return f"error: there is no tool {tool}"

    def _inside(self, path: str) -> Path | None:
        """The file that a path names, or None if it leads out of the folder."""
        root = self.root.resolve()
        target = (root / path).resolve()
        return target if target.is_relative_to(root) else None

    def _list(self, path: str) -> str:
        folder = self._inside(path)
        if folder is None or not folder.is_dir():
            return f"error: no such folder: {path}"
        names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir()]
        return "\n".join(sorted(name for name in names if name != "__pycache__/")) or "(empty)"

    def _read(self, path: str) -> str:
        file = self._inside(path)
        if file is None or not file.is_file():
            return f"error: no such file: {path}"
        return file.read_text(encoding="utf-8").rstrip("\n") or "(empty)"

    def _write(self, path: str, text: str) -> str:
        file = self._inside(path)
        if file is None:
            return f"error: outside of the workspace: {path}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
        return f"{file.stat().st_size} bytes"

    def _log(self, line: str) -> str:
        with (self.root / LOG).open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")
        return "ok"

    def _replace(self, path: str, old: str, new: str) -> str:
        file = self._inside(path)
        if file is None or not file.is_file():
            return f"error: no such file: {path}"
        text = file.read_text(encoding="utf-8")
        count = text.count(old)
        if not count:
            return f"error: the text was not found in {path}"
        file.write_text(text.replace(old, new), encoding="utf-8")
        return f"replaced {count}"

    def _sql(self, query: str) -> str:
        file = self.root / DATABASE
        if not file.is_file():
            return "error: there is no database here"
        with closing(sqlite3.connect(file)) as connection:
            try:
                cursor = connection.execute(query)
                connection.commit()
            except sqlite3.Error as error:
                return f"SQL error: {error}"
            if cursor.description is None:
                return f"{cursor.rowcount} row{'s' if cursor.rowcount != 1 else ''} changed"
            lines = [" | ".join(column[0] for column in cursor.description)]
            lines += [" | ".join("NULL" if value is None else str(value) for value in row) for row in cursor]
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n(no rows)"

    def _site_port(self) -> int:
        """The port of the site, which is served from its first use to the end of the task."""
        if self._port is None:
            self._port = self._closing.enter_context(website.serve_site(self.root / SITE))
        return self._port


@contextmanager
def open_workspace() -> Iterator[Workspace]:
    """Open a fresh folder with its tools; folder and server are gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="drsr-sandbox-") as folder, ExitStack() as stack:
        yield Workspace(Path(folder), stack)


def write_database(root: Path, tables: Mapping[str, Sequence[tuple[object, ...]]]) -> None:
    """Write a task's database; a table is named with its columns, as in `orders (number INTEGER, item TEXT)`."""
    with closing(sqlite3.connect(root / DATABASE)) as database:
        for table, rows in tables.items():
            database.execute(f"CREATE TABLE {table}")
            places = ", ".join("?" * (table.count(",") + 1))
            database.executemany(f"INSERT INTO {table.split()[0]} VALUES ({places})", rows)
        database.commit()


def read_database(root: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows that a query finds in a task's database."""
    with closing(sqlite3.connect(root / DATABASE)) as database:
        return database.execute(query).fetchall()
