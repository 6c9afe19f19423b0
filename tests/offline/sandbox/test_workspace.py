from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drsr.offline.sandbox.pages import accepts, bullets, form, link, page, submissions, write_site
from drsr.offline.sandbox.words import write_files
from drsr.offline.sandbox.workspace import Workspace, open_workspace


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with open_workspace() as opened:
        yield opened


def test_files(workspace: Workspace) -> None:
    write_files(workspace.root, {"b.txt": "two\nlines", "sub/a.txt": "x", "empty.txt": ""})
    assert workspace.call("list_dir", {"path": "."}) == "b.txt\nempty.txt\nsub/"
    assert workspace.call("read_file", {"path": "b.txt"}) == "two\nlines"
    assert workspace.call("read_file", {"path": "empty.txt"}) == "(empty)"
    assert workspace.call("write_file", {"path": "new/c.txt", "content": "caf\u00e9"}) == "wrote new/c.txt, 6 bytes"
    assert workspace.call("append_line", {"path": "new/c.txt", "line": "more"}) == "appended to new/c.txt, now 2 lines"
    assert workspace.call("replace_text", {"path": "b.txt", "old": "o", "new": "0"}) == "replaced 1 occurrence in b.txt"
    assert (workspace.root / "b.txt").read_text() == "tw0\nlines\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_dir", {"path": "absent"}),
        ("list_dir", {"path": "../.."}),
        ("read_file", {"path": "absent.txt"}),
        ("read_file", {"path": "../outside.txt"}),
        ("write_file", {"path": "../outside.txt", "content": "x"}),
        ("append_line", {"path": "absent.txt", "line": "x"}),
        ("replace_text", {"path": "absent.txt", "old": "a", "new": "b"}),
        ("sql", {"database": "absent.db", "query": "SELECT 1"}),
        ("teleport", {}),
    ],
)
def test_what_cannot_be_done_is_said(workspace: Workspace, tool: str, arguments: dict[str, str]) -> None:
    outside = workspace.root.parent / "outside.txt"
    assert workspace.call(tool, arguments).startswith("error: ")
    assert not outside.exists()


def test_sql(workspace: Workspace) -> None:
    with closing(sqlite3.connect(workspace.root / "a.db")) as database:
        database.execute("CREATE TABLE t (n INTEGER, s TEXT)")
        database.commit()

    def run(query: str) -> str:
        return workspace.call("sql", {"database": "a.db", "query": query})

    assert run("SELECT n FROM t") == "n\n(no rows)"
    assert run("INSERT INTO t VALUES (1, 'a'), (2, NULL)") == "ok, 2 rows changed"
    assert run("SELECT * FROM t ORDER BY n") == "n | s\n1 | a\n2 | NULL"
    assert run("SELECT m FROM t") == "SQL error: no such column: m"


@pytest.fixture
def shop(workspace: Workspace) -> Workspace:
    from random import Random

    pages = {
        "index": page("Shop", bullets([link("/buy", "Buy")])),
        "buy": page("Form", form("/buy", "code", token="t1")),
        "deep/er": page("Deep page", "<p>kettle &amp; lamp</p>"),
    }
    forms = {"/buy": accepts("Thanks", "Number", "N", code=["A1"], token=["t1"])}
    write_site(Random(1), workspace.root, pages, {"/old": "/deep/er"}, forms)
    return workspace


def test_pages_are_shown_as_text(shop: Workspace) -> None:
    assert shop.call("open_page", {"path": "/"}) == "200 OK\nShop\n- [Buy](/buy)"
    assert shop.call("open_page", {"path": "/buy"}) == "200 OK\nForm\nform /buy: {code} {token: t1}"
    assert shop.call("open_page", {"path": "/old"}).splitlines()[:2] == ["301 Moved Permanently: /deep/er", "200 OK"]
    assert shop.call("open_page", {"path": "/deep/er"}).endswith("kettle & lamp")
    assert shop.call("open_page", {"path": "/nowhere"}) == "404 Not Found\nThere is no page /nowhere on this site."
    assert "There is no page" in shop.call("open_page", {"path": "/../a"})


def test_the_site_can_be_searched(shop: Workspace) -> None:
    assert shop.call("open_page", {"path": "/search?q=kettle"}).endswith("- [Deep page](/deep/er)")
    assert shop.call("open_page", {"path": "/search?q=zeppelin"}).endswith("No page contains this.")


def test_forms_are_checked_and_kept(shop: Workspace) -> None:
    def send(**fields: str) -> str:
        return shop.call("submit_form", {"path": "/buy", "fields": fields})

    assert "the field code is required" in send(token="t1")
    assert "B2 is not a valid code" in send(code="B2", token="t1")
    assert submissions(shop.root) == []
    accepted = send(code="A1", token="t1")
    (kept,) = submissions(shop.root)
    assert kept["fields"] == {"code": "A1", "token": "t1"}
    assert accepted == f"201 Created\nThanks\nNumber: {kept['number']}"
    assert shop.call("submit_form", {"path": "/absent", "fields": {}}).startswith("404")


def test_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with open_workspace() as workspace:
        root: Path = workspace.root
        write_files(root, {"site/index.html": "<p>hello</p>"})
        workspace.call("open_page", {"path": "/"})
        assert threading.active_count() > threads
    assert not root.exists()
    assert threading.active_count() == threads
