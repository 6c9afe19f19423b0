"""Runs whose source file is gone, on disk and in a real bucket."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from drsr.errors import DrsrError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.feeds.gone import gone_runs
from drsr.offline.store.presence import absent
from tests.offline.catalog.read_runs import part, record_parts, run


def test_a_run_is_gone_when_its_last_file_is(catalog: Catalog, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one.json"), str(tmp_path / "two.json")
    record_parts(catalog, part(one, run("a", "x"), run("b", "y", split="test")), part(two, run("a", "x")))
    assert [row.run for row in gone_runs(catalog)] == ["s/a", "s/b"]
    Path(one).touch()
    assert gone_runs(catalog) == []
    Path(one).unlink()
    Path(two).touch()
    assert gone_runs(catalog) == [("s/b", "test", one)]


def test_a_superseded_run_is_not_asked_for(catalog: Catalog, tmp_path: Path) -> None:
    file = str(tmp_path / "grows.json")
    record_parts(catalog, part(file, run("a", "x")))
    record_parts(catalog, part(file, run("a", "other")))
    assert [row.run for row in gone_runs(catalog)] == ["s/a"]
    Path(file).touch()
    assert gone_runs(catalog) == []


def test_a_bucket_is_asked_too(bucket: str) -> None:
    filesystem = fsspec.filesystem("s3")
    filesystem.pipe_file(f"{bucket}/deep/a.json", b"{}")
    asked = [f"{bucket}/deep/a.json", f"{bucket}/deep/b.json", f"{bucket}/nowhere/c.json"]
    assert absent(asked) == {asked[1], asked[2]}


def test_the_web_is_asked_address_by_address(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{server.server_port}"
        assert absent([f"{here}/a.json", f"{here}/b.json"]) == {f"{here}/b.json"}
        server.shutdown()
        thread.join()


def test_storage_that_does_not_answer_is_no_absence() -> None:
    with pytest.raises(DrsrError):
        absent(["http://127.0.0.1:1/a.json"])
