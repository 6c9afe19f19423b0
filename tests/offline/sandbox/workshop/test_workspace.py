from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drsr.offline.sandbox.words import write_files
from drsr.offline.sandbox.workshop.pages import accepts, bullets, form, link, page, submissions, write_site
from drsr.offline.sandbox.workshop.workspace import DATABASE, LOG, Workspace, open_workspace


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with open_workspace() as opened:
        yield opened


def test_files(workspace: Workspace) -> None:
    write_files(workspace.root, {"b.txt": "two\nlines", "sub/a.txt": "x", "empty.txt": ""})
    assert workspace.call("list", {"path": "."}) == "b.txt\nempty.txt\nsub/"
    assert workspace.call("read", {"path": "b.txt"}) == "two\nlines"
    assert workspace.call("read", {"path": "empty.txt"}) == "(empty)"
    assert workspace.call("write", {"path": "new/c.txt", "text": "caf\u00e9"}) == "6 bytes"
    assert workspace.call("replace", {"path": "b.txt", "old": "o", "new": "0"}) == "replaced 1"
    assert (workspace.root / "b.txt").read_text() == "tw0\nlines\n"


def test_the_log_grows_line_by_line(workspace: Workspace) -> None:
    assert [workspace.call("log", {"line": line}) for line in ("one", "two")] == ["ok", "ok"]
    assert workspace.call("read", {"path": LOG}) == "one\ntwo"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list", {"path": "absent"}),
        ("list", {"path": "../.."}),
        ("read", {"path": "absent.txt"}),
        ("read", {"path": "../outside.txt"}),
        ("write", {"path": "../outside.txt", "text": "x"}),
        ("replace", {"path": "absent.txt", "old": "a", "new": "b"}),
        ("sql", {"query": "SELECT 1"}),
        ("teleport", {}),
    ],
)
def test_what_cannot_be_done_is_said(workspace: Workspace, tool: str, arguments: dict[str, str]) -> None:
    outside = workspace.root.parent / "outside.txt"
    assert workspace.call(tool, arguments).startswith("error: ")
    assert not outside.exists()


def test_sql(workspace: Workspace) -> None:
    with closing(sqlite3.connect(workspace.root / DATABASE)) as database:
        database.execute("CREATE TABLE t (n INTEGER, s TEXT)")
        database.commit()

    def run(query: str) -> str:
        return workspace.call("sql", {"query": query})

    assert run("SELECT n FROM t") == "n\n(no rows)"
    assert run("INSERT INTO t VALUES (1, 'a'), (2, NULL)") == "2 rows changed"
    assert run("SELECT * FROM t ORDER BY n") == "n | s\n1 | a\n2 | NULL"
    assert run("SELECT m FROM t") == "SQL error: no such column: m"


@pytest.fixture
def shop(workspace: Workspace) -> Workspace:
    from random import Random

    pages = {
        "index": page("Shop", bullets([link("/buy", "Buy")])),
        "buy": page("Form", form("/buy", "code", "token")),
        "deep/er": page("Deep page", "<p>kettle &amp; lamp</p>"),
    }
    forms = {"/buy": accepts("Number", "N", code=["A1"], token=["t1"])}
    write_site(Random(1), workspace.root, pages, {"/old": "/deep/er"}, forms)
    return workspace


def test_pages_are_shown_as_text(shop: Workspace) -> None:
    assert shop.call("open", {"path": "/"}) == "Shop\n- [Buy](/buy)"
    assert shop.call("open", {"path": "/buy"}) == "Form\nform /buy: {code} {token}"
    assert shop.call("open", {"path": "/old"}).splitlines()[:2] == ["301 Moved Permanently: /deep/er", "Deep page"]
    assert shop.call("open", {"path": "/deep/er"}).endswith("kettle & lamp")
    assert shop.call("open", {"path": "/nowhere"}) == "404 Not Found\nThere is no page /nowhere on this site."
    assert "There is no page" in shop.call("open", {"path": "/../a"})


def test_the_site_can_be_searched(shop: Workspace) -> None:
    assert shop.call("open", {"path": "/search?q=kettle"}).endswith("- [Deep page](/deep/er)")
    assert shop.call("open", {"path": "/search?q=zeppelin"}).endswith("No page contains this.")


def test_forms_are_checked_and_kept(shop: Workspace) -> None:
    def send(form: str) -> str:
        return shop.call("post", {"form": form})

    assert send("/buy").startswith("422")
    assert "the field code is required" in send("/buy?token=t1")
    assert "B2 is not a valid code" in send("/buy?code=B2&token=t1")
    assert submissions(shop.root) == []
    accepted = send("/buy?code=A1&token=t1")
    (kept,) = submissions(shop.root)
    assert kept["fields"] == {"code": "A1", "token": "t1"}
    assert accepted == f"Number: {kept['number']}"
    assert send("/absent?code=A1").startswith("404")


def test_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with open_workspace() as workspace:
        root: Path = workspace.root
        write_files(root, {"site/index.html": "<p>hello</p>"})
        workspace.call("open", {"path": "/"})
        assert threading.active_count() > threads
    assert not root.exists()
    assert threading.active_count() == threads
