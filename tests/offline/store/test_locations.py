"""Where runs lie: local folders with their traps, memory, and a real S3 server."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from moto.server import ThreadedMotoServer

from drsr.errors import DrsrError, InputError, MissingExtra, SourceUnreachable
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import SourceFile, open_location, redact
from drsr.offline.store.source_files import storage_errors
from tests.offline.ingest.formats.files import as_json
from tests.offline.ingest.formats.miniatures import CHAT, OPENHANDS_SDK

RUN = as_json({"messages": CHAT})


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(RUN)


def listed(uri: str | Path, **options: Any) -> list[SourceFile]:
    return list(open_location(str(uri), **options))


def relative(uri: str | Path) -> list[str]:
    return [file.relative for file in listed(uri)]


# --- local -------------------------------------------------------------------------------------------------------


def test_a_folder_is_walked_folder_by_folder(tmp_path: Path) -> None:
    write(tmp_path, "b.json", "a/z.json", "a/b/c.json", "a.json", "c/d.json")
    assert relative(tmp_path) == ["a.json", "b.json", "a/z.json", "a/b/c.json", "c/d.json"]


def test_sources_are_the_folders_below_the_root(tmp_path: Path) -> None:
    write(tmp_path, "corpus/top.json", "corpus/tau/x/y.json")
    files = {file.relative: file for file in listed(tmp_path / "corpus")}
    assert (files["top.json"].source, files["tau/x/y.json"].source) == ("corpus", "tau")
    assert files["tau/x/y.json"].path_in_source == "x/y.json"


def test_a_file_has_one_name_however_it_is_given(tmp_path: Path) -> None:
    write(tmp_path, "corpus/tau/run.json")
    ways = [
        tmp_path / "corpus",
        tmp_path / "corpus/tau",
        tmp_path / "corpus/tau/run.json",
        tmp_path / "corpus/tau/*.json",
    ]
    ways += [tmp_path / "corpus" / "*" / "*.json", tmp_path / "corpus" / "**"]
    found = [listed(way) for way in ways]
    assert [[(file.source, file.path_in_source) for file in files] for files in found] == [[("tau", "run.json")]] * 6


def test_hidden_names_are_left_out_below_the_root_only(tmp_path: Path) -> None:
    write(tmp_path, ".claude/projects/a.json", ".claude/.cache/b.json", ".claude/.hidden.json")
    assert relative(tmp_path) == []
    assert relative(tmp_path / ".claude") == ["projects/a.json"]


def test_file_uris_relative_paths_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "runs/a.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for uri in (f"file://{tmp_path}/runs", "runs", "./runs/", "~/runs"):
        assert [file.location for file in listed(uri)] == [str(tmp_path / "runs" / "a.json")]


def test_a_name_with_magic_characters_that_exists(tmp_path: Path) -> None:
    write(tmp_path, "run[1].json", "run1.json")
    assert relative(tmp_path / "run[1].json") == ["run[1].json"]


def test_a_glob_may_match_folders(tmp_path: Path) -> None:
    write(tmp_path, "2024-01/a.json", "2024-02/b.json", "2025-01/c.json")
    assert relative(tmp_path / "2024*") == ["2024-01/a.json", "2024-02/b.json"]


@pytest.mark.parametrize("name", ["missing", "missing/*.json", "**/*.nothing"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="hint"):
        listed(tmp_path / name)


def test_fingerprints(tmp_path: Path) -> None:
    write(tmp_path, "a.json")
    before = listed(tmp_path)[0].fingerprint
    assert listed(tmp_path)[0].fingerprint == before
    status = os.stat(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(RUN.replace(b"Oil", b"Wax"))
    os.utime(tmp_path / "a.json", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert listed(tmp_path)[0].fingerprint != before


def test_symlink_loops_end_and_nothing_is_read_twice(tmp_path: Path) -> None:
    write(tmp_path, "root/a/one.json", "root/b/two.json", "outside/three.json")
    root = tmp_path / "root"
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "self").symlink_to(root / "a" / "self")
    (root / "above").symlink_to(tmp_path)
    (root / "beside").symlink_to(root / "b")
    (root / "copy.json").symlink_to(root / "a" / "one.json")
    (root / "gone.json").symlink_to(root / "nowhere.json")
    files = listed(root)
    read_ones = [file.relative for file in files if not file.refused]
    assert read_ones == ["a/one.json", "b/two.json", "above/outside/three.json"]
    refused = {file.relative: file.refused.reason for file in files if file.refused}
    assert refused == {
        "copy.json": "symlink",
        "gone.json": "broken_link",
        "a/self": "broken_link",
        "a/up": "symlink",
        "beside": "symlink",
    }
    reasons = [item.reason for file in files for item in read(file) if not isinstance(item, Trajectory)]
    assert sorted(reasons) == ["broken_link", "broken_link", "symlink", "symlink", "symlink"]


def test_a_root_that_is_a_link(tmp_path: Path) -> None:
    write(tmp_path, "real/a.json")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert [(file.relative, file.source) for file in listed(tmp_path / "link")] == [("a.json", "link")]


def test_links_out_of_the_root_are_followed(tmp_path: Path) -> None:
    write(tmp_path, "root/a.json", "data/x/b.json", "data/c.json")
    (tmp_path / "root" / "data").symlink_to(tmp_path / "data")
    (tmp_path / "root" / "again").symlink_to(tmp_path / "data" / "x")
    (tmp_path / "root" / "file.json").symlink_to(tmp_path / "data" / "c.json")
    files = listed(tmp_path / "root")
    assert sorted(file.location for file in files if not file.refused) == sorted(
        str(tmp_path / "root" / name) for name in ("a.json", "file.json", "again/b.json", "data/c.json")
    )


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (file,) = listed(tmp_path)
    assert file.refused is not None
    assert file.refused.reason == "not_a_file"
    assert [item.reason for item in read(file) if not isinstance(item, Trajectory)] == ["not_a_file"]


def test_file_names_that_are_no_unicode(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.json")).write_bytes(RUN)
    (file,) = listed(tmp_path)
    assert file.relative == "caf\\xe9.json"
    assert isinstance(next(iter(read(file))), Trajectory)


@pytest.mark.parametrize(
    ("failure", "kind", "word"),
    [
        (PermissionError(13, "denied"), InputError, "permissions"),
        (FileNotFoundError("x"), InputError, "moved"),
        (OSError(5, "disk"), SourceUnreachable, "OSError"),
        (RuntimeError("boto"), SourceUnreachable, "RuntimeError"),
        (ValueError("region"), SourceUnreachable, "ValueError"),
        (IsADirectoryError("x"), SourceUnreachable, "IsADirectoryError"),
    ],
)
def test_failures_of_storage_say_what_to_do(failure: Exception, kind: type[DrsrError], word: str) -> None:
    """And which of them may pass by themselves: storage that does not answer, and nothing that is wrong with names."""
    with pytest.raises(kind, match=word) as raised, storage_errors("s3://key:hunter2@bucket/x"):
        raise failure
    assert str(raised.value).startswith("s3://bucket/x: ")
    assert raised.value.hint
    assert getattr(raised.value, "passing", False) is (word in ("OSError", "RuntimeError"))


def test_a_file_that_vanished(tmp_path: Path) -> None:
    write(tmp_path, "a.json")
    (file,) = listed(tmp_path)
    (tmp_path / "a.json").unlink()
    with pytest.raises(InputError, match="not there any more"):
        list(read(file))


# --- memory, and storage that is not there -----------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def test_memory(memory: Any) -> None:
    memory.pipe_file("/bucket/tau/a.json", RUN)
    memory.pipe_file("/bucket/tau/.hidden.json", RUN)
    memory.pipe_file("/bucket/top.json", RUN)
    files = listed("memory://bucket")
    assert [(file.relative, file.source, file.fingerprint) for file in files] == [
        ("top.json", "bucket", None),
        ("tau/a.json", "tau", None),
    ]
    assert all(isinstance(item, Trajectory) for file in files for item in read(file))
    assert [file.relative for file in listed("memory://bucket/tau/*.json")] == ["a.json"]
    assert [(file.relative, file.source) for file in listed("memory://bucket/tau/a.json")] == [("a.json", "tau")]
    with pytest.raises(InputError, match="nothing is there"):
        listed("memory://bucket/other")


def test_an_unknown_scheme() -> None:
    with pytest.raises(InputError, match="not a known kind of location"):
        listed("gopher://x/y")


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_scheme_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch, scheme: str, package: str) -> None:
    known: dict[str, Any] = vars(sys.modules["fsspec.registry"])["_registry"]
    for name in list(known):  # what another test has used already would be found without an import
        monkeypatch.delitem(known, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"drsr\[offline\]"):
        listed(f"{scheme}://bucket/x")


def test_a_scheme_of_another_package() -> None:
    with pytest.raises(InputError, match="adlfs"):
        listed("abfs://container/x")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://key:secret@bucket/a@b.json", "s3://bucket/a@b.json"),
        ("https://user:pass@host/x?sig=abc#y", "https://host/x"),
        ("https://user:pa/ss@host/x", "https://host/x"),
        ("https://user:pa?ss@host/x", "https://host/x"),
        ("https://token@host/x", "https://host/x"),
        ("simplecache::s3://key:secret@bucket/x", "simplecache::s3://bucket/x"),
        ("s3://bucket/run?.json", "s3://bucket/run?.json"),
        ("https://host.org:8080/a@b", "https://host.org:8080/a@b"),
        ("/data/a@b?c=d", "/data/a@b?c=d"),
    ],
)
def test_redaction(uri: str, shown: str) -> None:
    assert redact(uri) == shown


def test_credentials_do_not_show_in_errors() -> None:
    uri = "https://user:hunter2@127.0.0.1:1/runs.json?X-Amz-Signature=abcdef"
    with pytest.raises(DrsrError) as raised:
        listed(uri)
    assert "hunter2" not in str(raised.value)
    assert "abcdef" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None or raised.value.__suppress_context__


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_folder_that_may_not_be_listed(tmp_path: Path) -> None:
    write(tmp_path, "a/one.json", "b/two.json")
    (tmp_path / "a").chmod(0)
    try:
        found = {file.relative: file.refused for file in listed(tmp_path)}
    finally:
        (tmp_path / "a").chmod(0o700)
    assert found["b/two.json"] is None
    refused = found["a"]
    assert refused is not None
    assert refused.reason == "unreadable"


def test_one_folder_that_fails_does_not_end_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/one.json", "b/two.json", "c/three.json")
    scandir = os.scandir

    def failing(path: str) -> Any:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    found = [(file.relative, file.refused.reason if file.refused else None) for file in listed(tmp_path)]
    assert found == [("a/one.json", None), ("b", "unreadable"), ("c/three.json", None)]


def test_a_file_that_vanishes_during_the_walk(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "b.json", "c.json")
    walk = open_location(str(tmp_path))
    next(walk)
    (tmp_path / "b.json").unlink()
    found = [(file.relative, file.refused.reason if file.refused else None) for file in walk]
    assert found == [("b.json", "unreadable"), ("c.json", None)]


def test_links_to_nowhere_that_are_given_as_the_location(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match="a link that leads back to itself"):
        listed(tmp_path / "loop")
    with pytest.raises(InputError, match="a link to nothing"):
        listed(tmp_path / "broken")


# --- HTTP --------------------------------------------------------------------------------------------------------


class _Answers(BaseHTTPRequestHandler):
    """Answers `/503` with status 503, and so on; anything else with a run."""

    def do_GET(self) -> None:
        status = int(self.path[1:]) if self.path[1:].isdecimal() else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(RUN)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(RUN)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def http() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_http(http: str) -> None:
    (file,) = listed(f"{http}/runs.json")
    assert file.location == f"{http}/runs.json"
    with pytest.raises(InputError, match="nothing is there"):
        listed(f"{http}/404")
    with pytest.raises(InputError, match="answers with status 403"):
        listed(f"{http}/403")
    with pytest.raises(SourceUnreachable, match="answers with status 503") as raised:
        listed(f"{http}/503")
    assert raised.value.passing
    assert "spelling" not in str(raised.value)


def test_http_whose_server_does_not_answer() -> None:
    with pytest.raises(SourceUnreachable) as raised:
        listed("http://127.0.0.1:1/runs.json")
    assert raised.value.passing
    assert "cannot be read" in str(raised.value)
    assert "spelling" not in str(raised.value)


# --- S3 ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, Any]]:
    """A real S3 server on this machine, and how to reach it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options: dict[str, Any] = {"key": "k", "secret": "hunter2", "endpoint_url": f"http://{host}:{port}"}
    filesystem = fsspec.filesystem("s3", **options)
    filesystem.mkdir("bucket")
    yield options
    server.stop()


@pytest.fixture
def s3(s3_options: dict[str, Any]) -> Iterator[Any]:
    filesystem = fsspec.filesystem("s3", **s3_options)
    yield filesystem
    filesystem.invalidate_cache()
    for path in filesystem.find("bucket"):
        filesystem.rm_file(path)


def test_s3_folder_file_and_glob(s3: Any, s3_options: dict[str, Any]) -> None:
    for name in ("tau/a.json", "tau/b/c.jsonl.gz", "top.json", ".hidden/x.json"):
        s3.pipe_file(f"bucket/runs/{name}", gzip.compress(RUN) if name.endswith(".gz") else RUN)
    files = listed("s3://bucket/runs/", storage_options=s3_options)
    assert [(file.relative, file.source) for file in files] == [
        ("top.json", "runs"),
        ("tau/a.json", "tau"),
        ("tau/b/c.jsonl.gz", "tau"),
    ]
    assert files[1].location == "s3://bucket/runs/tau/a.json"
    items = [item for file in files for item in read(file)]
    assert len(items) == 3
    assert all(isinstance(item, Trajectory) for item in items)
    (single,) = listed("s3://bucket/runs/tau/a.json", storage_options=s3_options)
    assert (single.relative, single.source) == ("a.json", "tau")
    assert [f.relative for f in listed("s3://bucket/runs/*/*.json", storage_options=s3_options)] == ["tau/a.json"]


def test_s3_fingerprints_follow_the_content(s3: Any, s3_options: dict[str, Any]) -> None:
    s3.pipe_file("bucket/f/a.json", RUN)
    before = listed("s3://bucket/f", storage_options=s3_options)[0].fingerprint
    assert before
    assert listed("s3://bucket/f", storage_options=s3_options)[0].fingerprint == before
    s3.pipe_file("bucket/f/a.json", RUN.replace(b"Oil", b"Wax"))
    assert listed("s3://bucket/f", storage_options=s3_options)[0].fingerprint != before


def test_s3_archives_and_event_folders(s3: Any, s3_options: dict[str, Any]) -> None:
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr("a.json", RUN)
    s3.pipe_file("bucket/z/runs.zip", packed.getvalue())
    for number, event in enumerate(OPENHANDS_SDK):
        s3.pipe_file(f"bucket/z/conv/events/event-{number:05d}.json", json.dumps(event).encode())
    files = list(gather(open_location("s3://bucket/z", storage_options=s3_options)))
    found = [item.external_id for file in files for item in read(file) if isinstance(item, Trajectory)]
    assert found == ["runs.zip!a.json#0", "events"]
    assert files[1].location == "s3://bucket/z/conv/events/"


def test_s3_large_files_are_streamed(s3: Any, s3_options: dict[str, Any]) -> None:
    line = as_json({"messages": [*CHAT, {"role": "user", "content": "x" * 50_000}]}) + b"\n"
    s3.pipe_file("bucket/big.jsonl", line * 300)
    (file,) = listed("s3://bucket/big.jsonl", storage_options=s3_options)
    assert file.size == len(line) * 300
    assert sum(isinstance(item, Trajectory) for item in read(file)) == 300


def test_s3_that_is_not_there(s3: Any, s3_options: dict[str, Any]) -> None:
    for uri in ("s3://bucket/nothing", "s3://other-bucket/x", "s3://bucket/nothing/*.json"):
        with pytest.raises(InputError):
            listed(uri, storage_options=s3_options)
    s3.pipe_file("bucket/gone.json", RUN)
    (file,) = listed("s3://bucket/gone.json", storage_options=s3_options)
    s3.rm_file("bucket/gone.json")
    with pytest.raises(DrsrError):
        list(read(file))


def test_s3_credentials_in_the_uri_are_used_and_not_shown(s3: Any, s3_options: dict[str, Any]) -> None:
    s3.pipe_file("bucket/c/a.json", RUN)
    options = {"endpoint_url": s3_options["endpoint_url"]}
    (file,) = listed("s3://key:hunter2%2F@bucket/c", storage_options=options)
    assert file.location == "s3://bucket/c/a.json"
    assert file.opener.args[0].secret == "hunter2/"  # type: ignore[attr-defined]
    assert "hunter2" not in repr(file)
    assert isinstance(next(iter(read(file))), Trajectory)


def test_s3_whose_server_does_not_answer(s3_options: dict[str, Any]) -> None:
    options = {**s3_options, "endpoint_url": "http://127.0.0.1:1"}
    options["config_kwargs"] = {"retries": {"max_attempts": 1}, "connect_timeout": 1}
    with pytest.raises(DrsrError) as raised:
        listed("s3://key:hunter2@bucket/x", storage_options=options)
    assert "hunter2" not in str(raised.value)
