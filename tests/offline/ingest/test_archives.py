"""Compressed files and archives: read, or refused for a reason, never unpacked without bound."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from drsr.offline.ingest.archives import packing
from drsr.offline.ingest.formats import read
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.locations import open_location
from drsr.offline.store.source_files import Limits
from tests.offline.ingest.formats.files import Items, as_json, as_lines, memory_file, only_problem, opened, read_bytes
from tests.offline.ingest.formats.miniatures import CHAT

RUN = {"messages": CHAT}
LINES = as_lines([RUN] * 50)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
SMALL = Limits(ratio_floor=100_000, expanded=10 << 20)


def reasons(items: Items) -> list[tuple[str, str]]:
    return [(item.location, item.reason) for item in items if isinstance(item, Quarantined)]


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files_are_recognised_by_their_bytes(kind: str) -> None:
    data = PACKERS[kind](LINES)
    assert packing(opened(data)) == kind
    items = read_bytes(data, "no-ending")
    assert sum(isinstance(item, Trajectory) for item in items) == 50
    assert reasons(items) == []


@pytest.mark.parametrize("kind", PACKERS)
def test_several_members_one_after_another(kind: str) -> None:
    data = PACKERS[kind](LINES) + PACKERS[kind](LINES)
    assert sum(isinstance(item, Trajectory) for item in read_bytes(data)) == 100


@pytest.mark.parametrize("kind", PACKERS)
def test_what_was_unpacked_before_a_cut_is_kept(kind: str) -> None:
    big = b"".join(
        as_json({"messages": [*CHAT, {"role": "user", "content": str(n) * 50}]}) + b"\n" for n in range(3000)
    )
    data = PACKERS[kind](big)
    items = read_bytes(data[: len(data) * 9 // 10], "runs.jsonl.x")
    assert any(isinstance(item, Trajectory) for item in items) or kind in ("bzip2", "xz")
    assert reasons(items)[-1] == ("mem/source/runs.jsonl.x", "truncated_archive")


@pytest.mark.parametrize("kind", PACKERS)
def test_damaged_data(kind: str) -> None:
    data = bytearray(PACKERS[kind](LINES))
    data[len(data) // 2] ^= 0xFF
    assert reasons(read_bytes(bytes(data)))[-1][1] in (
        "corrupt_archive",
        "truncated_archive",
        "bad_json",
        "truncated_json",
    )
    head = bytes(data[:6]) + b"rubbish" * 9
    assert reasons(read_bytes(head))[-1][1] in ("corrupt_archive", "truncated_archive")


@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_is_stopped_in_small_memory(kind: str) -> None:
    bomb = PACKERS[kind](b'{"messages": "' + b"a" * (12 << 20))
    tracemalloc.start()
    problem = only_problem(read_bytes(bomb, limits=SMALL))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert problem.reason == "zip_bomb"
    assert peak < 48 << 20


def test_honest_data_of_a_high_ratio_is_read() -> None:
    data = gzip.compress(as_json({"messages": [*CHAT, {"role": "user", "content": "a" * 90_000}]}))
    assert isinstance(read_bytes(data, limits=SMALL)[0], Trajectory)


def test_a_zip_bomb_by_ratio_by_size_and_by_number() -> None:
    inside = {"ok.json": as_json(RUN), "bomb.json": b"a" * (5 << 20)}
    items = read_bytes(zipped(inside), "x.zip", SMALL)
    assert reasons(items) == [("mem/source/x.zip!bomb.json", "zip_bomb")]
    assert isinstance(items[-1], Trajectory)
    assert only_problem(read_bytes(zipped(inside), limits=Limits(expanded=1 << 20))).reason == "zip_bomb"
    assert only_problem(read_bytes(zipped(inside), limits=Limits(members=1))).reason == "zip_bomb"


def test_a_header_that_lies_about_the_size() -> None:
    data = bytearray(zipped({"a.json": as_json(RUN) + b" " * 1000}))
    info = zipfile.ZipFile(io.BytesIO(bytes(data))).infolist()[0]
    size = info.file_size.to_bytes(4, "little")
    lie = (10).to_bytes(4, "little")
    items = read_bytes(bytes(data.replace(size, lie)), "x.zip")
    assert not any(isinstance(item, Trajectory) for item in items)
    assert reasons(items)[0][1] in ("corrupt_archive", "truncated_json", "bad_json")


@pytest.mark.parametrize("name", ["../out.json", "/etc/out.json", "a/../../out.json", "..\\out.json", "C:\\out.json"])
def test_members_that_lead_out_of_the_archive(name: str) -> None:
    items = read_bytes(zipped({name: as_json(RUN), "in.json": as_json(RUN)}), "x.zip")
    assert [reason for _, reason in reasons(items)] == ["path_traversal"]
    assert [item.external_id for item in items if isinstance(item, Trajectory)] == ["x.zip!in.json#0"]


def test_archives_in_archives() -> None:
    inner = zipped({"a.json": as_json(RUN)})
    assert only_problem(read_bytes(zipped({"inner.zip": inner}))).reason == "nested_archive"
    assert only_problem(read_bytes(gzip.compress(inner))).reason == "nested_archive"
    assert only_problem(read_bytes(gzip.compress(gzip.compress(LINES)))).reason == "nested_archive"
    packed_member = read_bytes(zipped({"a.jsonl.gz": gzip.compress(LINES)}))
    assert sum(isinstance(item, Trajectory) for item in packed_member) == 50


def test_encrypted_repeated_and_hidden_members() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr("a.json", as_json(RUN))
        with pytest.warns(UserWarning, match="Duplicate"):
            target.writestr("a.json", as_json(RUN))
        target.writestr(".DS_Store", b"x")
        target.writestr("__MACOSX/._a.json", b"x")
    items = read_bytes(packed.getvalue(), "x.zip")
    assert reasons(items) == [("mem/source/x.zip!a.json", "duplicate_member")]
    locked = bytearray(zipped({"a.json": as_json(RUN)}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + offset] |= 1
    assert only_problem(read_bytes(bytes(locked))).reason == "encrypted"


def test_archives_that_are_no_good() -> None:
    data = zipped({"a.json": as_json(RUN)})
    assert only_problem(read_bytes(data[:-30])).reason == "corrupt_archive"
    assert only_problem(read_bytes(zipped({}))).reason == "empty"
    unknown = data.replace(b"\x08\x00", b"\x63\x00")
    assert only_problem(read_bytes(unknown)).reason == "corrupt_archive"


def test_a_link_in_an_archive_is_only_text() -> None:
    packed = io.BytesIO()
    entry = zipfile.ZipInfo("link.json")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr(entry, "/etc/passwd")
    assert only_problem(read_bytes(packed.getvalue())).reason == "not_data"


def test_an_archive_on_disk_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(zipped({"a/b.jsonl": LINES}))
    (file,) = open_location(str(tmp_path))
    assert file.fingerprint
    items = list(read(file))
    assert len(items) == 50
    assert all(isinstance(item, Trajectory) and item.external_id.startswith("runs.zip!a/b.jsonl#") for item in items)


def test_without_the_package_for_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from drsr.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra, match="offline"):
        list(read(memory_file(PACKERS["zstd"](LINES))))
