"""Tar archives: read once as a stream, member by member, and refused where they are no good, never without bound."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.errors import InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest import stage
from drsr.offline.ingest.archives import packing, tar_files
from drsr.offline.ingest.formats import passing_bundles, records
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store import remote_files
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.source_files import Limits
from tests.offline.chat_files import chat
from tests.offline.ingest.formats.files import Items, as_json, as_lines, only_problem, opened, read_bytes
from tests.offline.ingest.formats.miniatures import CHAT, OPENHANDS_SDK
from tests.offline.ingest.test_archives import LINES, PACKERS, reasons, zipped

RUN = as_json({"messages": CHAT})
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
END = bytes(1024)


class Odd(NamedTuple):
    """A member that is more than a name and bytes."""

    kind: bytes
    leads_to: str = ""
    says: dict[str, str] | None = None
    data: bytes = b""


Members = Mapping[str, bytes | Odd] | Mapping[str, bytes] | Iterable[tuple[str, bytes | Odd]]


def tarred(members: Members, form: str = "pax") -> bytes:
    packed = io.BytesIO()
    listed = members.items() if isinstance(members, Mapping) else members
    with tarfile.open(fileobj=packed, mode="w", format=FORMATS[form]) as target:
        for name, what in listed:
            odd = what if isinstance(what, Odd) else Odd(tarfile.REGTYPE, data=what)
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.pax_headers = odd.kind, odd.leads_to, odd.says or {}
            entry.size = len(odd.data)
            target.addfile(entry, io.BytesIO(odd.data))
    return packed.getvalue()


def ids(items: Items) -> list[str]:
    return [item.external_id for item in items if isinstance(item, Trajectory)]


def header(name: str, kind: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


# --- what is read ------------------------------------------------------------------------------------------------


LONG = f"{'a-folder-with-a-long-name/' * 8}größe.json"
TREE: dict[str, bytes] = {
    "top.json": RUN,
    "day/one.jsonl": LINES,
    "day/two.jsonl.gz": gzip.compress(LINES),
    "day/sub/three.json": as_json(chat(3)),
    LONG: as_json(chat(4)),
    ".hidden/x.json": RUN,
    "day/._one.jsonl": b"\0\5\x16\7",
    "__MACOSX/y.json": RUN,
}


@pytest.mark.parametrize("form", ["gnu", "pax"])
@pytest.mark.parametrize("dotted", ["", "./", ".//./"])
def test_the_runs_are_those_of_a_zip_archive(form: str, dotted: str) -> None:
    packed = tarred({dotted + name: data for name, data in TREE.items()}, form)
    items = read_bytes(packed, "x")
    as_zip = read_bytes(zipped(TREE), "x")
    assert reasons(items) == reasons(as_zip) == []
    assert len(items) == 103
    by_id = {item.external_id: item for item in items if isinstance(item, Trajectory)}
    assert by_id == {item.external_id: item for item in as_zip if isinstance(item, Trajectory)}


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_archives_are_streams(kind: str) -> None:
    items = read_bytes(PACKERS[kind](tarred(TREE)), "runs.tar.x")
    assert (len(ids(items)), reasons(items)) == (103, [])


def test_frames_of_a_few_bytes_each() -> None:
    packer, plain = PACKERS["zstd"], tarred({"a.json": RUN})
    data = b"".join(packer(plain[at : at + 100]) for at in range(0, len(plain), 100))
    assert ids(read_bytes(data, "x")) == ["x!a.json#0"]


def test_archives_of_before_1988_are_known_by_their_checksum() -> None:
    block = bytearray(header("[a].json", b"\0", len(RUN)))
    block[257:265] = bytes(8)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    data = bytes(block) + RUN.ljust(-(-len(RUN) // 512) * 512, b"\0") + END
    assert ids(read_bytes(b"x" + data[1:], "x")) == []
    assert packing(opened(data)) is None, "a text may begin with [, so the mark must be there"
    data = data.replace(b"[a]", b"(a)", 1)
    block = bytearray(data[:512])
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    assert ids(read_bytes(bytes(block) + data[512:], "x")) == ["x!(a).json#0"]


def test_a_name_that_begins_like_json_and_a_text_that_looks_like_a_header() -> None:
    assert ids(read_bytes(tarred({"[a].json": RUN}), "x")) == ["x![a].json#0"]
    text = as_json({"note": "x" * 247 + "ustar" + " " * 300, "messages": CHAT})
    assert text[257:262] == b"ustar"
    assert isinstance(read_bytes(text)[0], Trajectory)


def test_the_place_of_the_prefix_has_times_in_the_form_of_gnu() -> None:
    block = bytearray(header("a.json", b"0", len(RUN)))
    block[345:357] = b"14712345670\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    data = tarred({"a.json": RUN}, "gnu")
    assert ids(read_bytes(bytes(block) + data[512:], "x")) == ["x!a.json#0"]


def test_records_about_all_members_and_about_one() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "of all"}) as target:
        for name, says in (("a.json", {"path": "b/ä.json"}), ("c.json", {})):
            entry = tarfile.TarInfo(name)
            entry.size, entry.pax_headers = len(RUN), says
            target.addfile(entry, io.BytesIO(RUN))
    assert ids(read_bytes(packed.getvalue(), "x")) == ["x!b/ä.json#0", "x!c.json#0"]


def test_records_about_a_size_are_not_about_a_long_name() -> None:
    """Else what is read depends on the program, and a member can hide in another's bytes."""
    says = b"13 size=2048\n"
    data = header("p", b"x", len(says)) + says.ljust(512, b"\0")
    data += header("@LongLink", b"L", 7) + b"b.json\0".ljust(512, b"\0")
    data += header("a.json", b"0", len(RUN)) + RUN.ljust(2048, b" ") + END
    assert ids(read_bytes(data, "x")) == ["x!b.json#0"]


def test_a_large_member_is_read_where_it_lies_and_may_be_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_files, "HELD", 100)
    monkeypatch.setattr(passing_bundles, "HELD", 100)
    monkeypatch.setattr(records, "_WHOLE", 64)
    broken = as_json(chat(1))[:-9]
    twice = json.dumps(chat(1), indent=2).encode() * 2
    members = {"a.jsonl": LINES, "b.json": twice, "c.json": broken, "d.json": RUN, "e.jsonl.gz": gzip.compress(LINES)}
    for name, data in members.items():
        assert len(data) > 100, name
    items = read_bytes(gzip.compress(tarred(members)), "x")
    monkeypatch.setattr(tar_files, "HELD", 1 << 20)
    monkeypatch.setattr(passing_bundles, "HELD", 1 << 20)
    assert items == read_bytes(tarred(members), "x")
    assert reasons(items) == [("mem/source/x!c.json", "truncated_json")]
    assert len(ids(items)) == 103


def test_a_large_member_is_not_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_files, "HELD", 100)
    monkeypatch.setattr(passing_bundles, "HELD", 100)
    monkeypatch.setattr(tar_files, "_READ_AHEAD", 0)
    monkeypatch.setattr(tar_files, "_PIECE", 512)
    monkeypatch.setattr(records, "_WHOLE", 64)
    item = only_problem(read_bytes(tarred({"a.json": as_json(chat(1)) * 3}), "x", Limits(document=600)))
    assert (item.reason, "unpack" in item.detail) == ("too_large", True)


def test_a_temporary_folder_that_is_full_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tar_files, "HELD", 100)
    monkeypatch.setattr(passing_bundles, "HELD", 100)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullFile())
    with pytest.raises(InputError, match="No space left"):
        read_bytes(tarred({"a.json": RUN}))


# --- folders of events -------------------------------------------------------------------------------------------


EVENTS: dict[str, bytes] = {
    f"c1/events/event-{number:05d}.json": as_json(event) for number, event in enumerate(OPENHANDS_SDK)
}


def test_events_in_any_order_are_one_run() -> None:
    tree = {"c1/a.json": RUN, **EVENTS, "z/b.json": RUN}
    expected = read_bytes(zipped(tree), "x")
    assert len(expected) == 3
    shuffled = [*EVENTS.items()]
    random.Random(7).shuffle(shuffled)
    shuffled.insert(2, ("c1/events/cache/0.json", RUN))  # as tar goes into a folder where it meets it
    items = read_bytes(tarred([("c1/a.json", RUN), *shuffled, ("z/b.json", RUN)]), "x")
    inner = [
        item for item in items if isinstance(item, Trajectory) and item.external_id == "x!c1/events/cache/0.json#0"
    ]
    assert len(inner) == 1
    rest = [item for item in items if item not in inner]
    assert sorted(rest, key=str) == sorted(expected, key=str)


def test_events_that_lie_apart_are_named() -> None:
    first, *others = EVENTS.items()
    items = read_bytes(tarred([first, *others[:3], ("z/b.json", RUN), *others[3:]]), "x")
    assert ("mem/source/x!c1/events/", "incomplete") in reasons(items)
    assert "x!z/b.json#0" in ids(items)


def test_an_archive_that_breaks_off_among_events_gives_no_half_run() -> None:
    data = tarred([("a.json", RUN), *EVENTS.items()])
    items = read_bytes(data[: len(data) * 2 // 3 // 512 * 512], "x")
    assert ids(items) == ["x!a.json#0"]
    assert [reason for _, reason in reasons(items)] == ["truncated_archive"] * 2


def test_what_is_held_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: dict[str, bytes] = {f"runs/{number}.json": RUN for number in range(9)}
    archive = tarred({**plain, **EVENTS})
    expected = read_bytes(archive, "x")
    monkeypatch.setattr(passing_bundles, "_HELD_TOGETHER", sum(map(len, EVENTS.values())) // 2)
    assert read_bytes(archive, "x") == expected
    assert len(ids(expected)) == 10
    items = read_bytes(archive, "x", Limits(document=sum(map(len, EVENTS.values())) - 100))
    assert reasons(items) == [("mem/source/x!c1/events/", "too_large")]
    monkeypatch.setattr(passing_bundles, "HELD", 300)
    monkeypatch.setattr(tar_files, "HELD", 300)
    assert max(len(data) for data in EVENTS.values()) > 300
    items = read_bytes(tarred({**EVENTS, "runs/1.json": RUN}), "x")
    assert ("mem/source/x!c1/events/", "too_large") in reasons(items)
    assert "x!runs/1.json#0" in ids(items)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "reason"),
    [
        ("../out.json", RUN, "path_traversal"),
        ("/etc/out.json", RUN, "path_traversal"),
        ("a/../../out.json", RUN, "path_traversal"),
        ("..\\out.json", RUN, "path_traversal"),
        ("C:\\out.json", RUN, "path_traversal"),
        ("link.json", Odd(tarfile.SYMTYPE, "/etc/passwd"), "symlink"),
        ("hard.json", Odd(tarfile.LNKTYPE, "in.json"), "not_a_file"),
        ("dev", Odd(tarfile.CHRTYPE), "not_a_file"),
        ("disk", Odd(tarfile.BLKTYPE), "not_a_file"),
        ("pipe", Odd(tarfile.FIFOTYPE), "not_a_file"),
        ("label", Odd(b"V"), "not_a_file"),
        ("volume.json", Odd(b"M", data=RUN), "not_a_file"),
        ("odd.json", Odd(b"Q", data=RUN), "not_a_file"),
        (
            "holes.json",
            Odd(tarfile.REGTYPE, says={"GNU.sparse.major": "1", "GNU.sparse.name": "holes.json"}),
            "not_a_file",
        ),
        ("n" * 5000, RUN, "corrupt_archive"),
        ("inner.zip", zipped({"a.json": RUN}), "nested_archive"),
        ("inner.tar", tarred({"a.json": RUN}), "nested_archive"),
        ("inner.tgz", gzip.compress(tarred({"a.json": RUN})), "nested_archive"),
        ("twice.gz", gzip.compress(gzip.compress(RUN)), "nested_archive"),
        ("in.json", as_json(chat(9)), "duplicate_member"),
        ("./in.json", as_json(chat(9)), "duplicate_member"),
    ],
)
def test_a_member_that_is_not_read_is_named_and_the_rest_goes_on(name: str, what: bytes | Odd, reason: str) -> None:
    items = read_bytes(tarred([("in.json", RUN), (name, what), ("z.json", RUN)]), "x")
    assert [found for _, found in reasons(items)] == [reason]
    assert sorted(ids(items)) == ["x!in.json#0", "x!z.json#0"]


def test_an_archive_in_a_zip_archive() -> None:
    assert only_problem(read_bytes(zipped({"a.tar": tarred({"a.json": RUN})}))).reason == "nested_archive"
    assert (
        only_problem(read_bytes(zipped({"a.tgz": gzip.compress(tarred({"a.json": RUN}))}))).reason == "nested_archive"
    )


def test_maps_of_holes_are_passed_over() -> None:
    block = bytearray(header("holes.json", b"S", 512))
    block[386:410], block[482], block[483:495] = b"00000000000\0" * 2, 1, b"00000001000\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    more = [bytes(504) + bytes([last]) + bytes(7) for last in (1, 0)]
    items = read_bytes(bytes(block) + b"".join(more) + bytes(512) + tarred({"a.json": RUN}), "x")
    assert reasons(items) == [("mem/source/x!holes.json", "not_a_file")]
    assert ids(items) == ["x!a.json#0"]


def test_without_files() -> None:
    assert only_problem(read_bytes(tarred([("a/", Odd(tarfile.DIRTYPE)), (".DS_Store", b"x")]))).reason == "empty"
    assert only_problem(read_bytes(tarred({}))).reason == "empty"
    assert only_problem(read_bytes(gzip.compress(tarred({})))).reason == "empty"


def test_archives_one_after_another() -> None:
    one, other = tarred({"a.json": RUN}), tarred({"b.json": RUN})
    assert ids(read_bytes(one + other, "x")) == ["x!a.json#0", "x!b.json#0"]
    items = read_bytes(gzip.compress(one) + gzip.compress(one), "x")
    assert (ids(items), reasons(items)) == (["x!a.json#0"], [("mem/source/x!a.json", "duplicate_member")])


def test_rubbish_behind_the_end_is_named() -> None:
    items = read_bytes(tarred({"a.json": RUN}) + b"rubbish" * 100, "x")
    assert (ids(items), reasons(items)) == (["x!a.json#0"], [("mem/source/x", "corrupt_archive")])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_cut_is_never_silent(pack: Callable[[bytes], bytes]) -> None:
    plain = tarred({f"{number}.json": as_json(chat(number)) for number in range(4)}, "gnu")
    plain = plain.rstrip(b"\0")
    data = pack(plain + bytes(-len(plain) % 512 + 1024))
    for cut in range(1, len(data) - 1030 if pack is bytes else len(data) - 1, 97):
        items = read_bytes(data[:cut], "x")
        assert reasons(items), cut
        assert len(ids(items)) < 5


def test_what_came_before_a_cut_is_kept() -> None:
    data = tarred({"a.json": RUN, "b.jsonl": LINES, "c.json": RUN}, "gnu")
    items = read_bytes(data[: data.index(b"c.json") - len(LINES) // 2], "x")
    assert 20 < len(ids(items)) < 40
    assert reasons(items)[-2:] == [("mem/source/x!b.jsonl", "truncated_archive"), ("mem/source/x", "truncated_archive")]


def test_a_damaged_header_ends_the_archive_and_says_behind_what() -> None:
    data = bytearray(tarred({"a.json": RUN, "b.json": RUN, "c.json": RUN}, "gnu"))
    data[data.index(b"b.json")] ^= 1
    items = read_bytes(bytes(data), "x")
    assert (ids(items), reasons(items)) == (["x!a.json#0"], [("mem/source/x", "corrupt_archive")])
    assert "behind a.json" in str([item.detail for item in items if isinstance(item, Quarantined)])
    data[0] ^= 1
    assert only_problem(read_bytes(bytes(data), "x")).reason == "corrupt_archive"


@pytest.mark.parametrize("size", [b"-0000000010\0", b"\xff" + b"\xff" * 11, b"12_34567\0".ljust(12, b"\0")])
def test_sizes_that_are_none(size: bytes) -> None:
    block = bytearray(header("a.json", b"0", 10))
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    items = read_bytes(bytes(block) + bytes(512) + tarred({"b.json": RUN}), "x")
    assert [reason for _, reason in reasons(items)][-1] in ("corrupt_archive", "truncated_archive")


def test_damaged_records_are_named() -> None:
    for says in (b"99 path=a\n", b"x path=a\n", b"9 path=a\nz", b"0 path=a\n", b"10 path a\n", b"11 size=-5\n", b"5\n"):
        data = header("p", b"x", len(says)) + says.ljust(512, b"\0") + tarred({"a.json": RUN}, "gnu")
        assert only_problem(read_bytes(data, "x")).reason == "corrupt_archive", says


# --- what is bounded ---------------------------------------------------------------------------------------------


def peak_of(data: bytes, limits: Limits | None = None) -> tuple[Items, int]:
    tracemalloc.start()
    items = read_bytes(data, "x", limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return items, peak


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_records_of_any_size_are_not_held(kind: bytes) -> None:
    claimed = header("p", kind, 1 << 33) + tarred({"a.json": RUN}, "gnu")
    items, peak = peak_of(claimed)
    assert [reason for _, reason in reasons(items)] == ["truncated_archive"]
    assert peak < 8 << 20
    real = header("p", kind, 12 << 20) + b"9" * (12 << 20) + tarred({"a.json": RUN, "b.json": RUN}, "gnu")
    items, peak = peak_of(real)
    assert peak < 8 << 20
    assert reasons(items)[0] == ("mem/source/x!a.json", "zip_bomb")
    assert ids(items) == ([] if kind == b"g" else ["x!b.json#0"])


def test_many_records_before_one_member_are_no_recursion() -> None:
    data = (header("p", b"L", 3) + b"ab\0".ljust(512, b"\0")) * 5_000 + tarred({"a.json": RUN}, "gnu")
    assert ids(read_bytes(data, "x")) == ["x!ab#0"]


def zeros(size: int, before: bytes = b"") -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    pieces = [packer.compress(before), *(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)), packer.flush()]
    return b"".join(pieces)


def test_bombs_of_zeros() -> None:
    limits = Limits(ratio_floor=4 << 20)
    bomb = header("big.json", b"0", 1 << 40)
    items, peak = peak_of(zeros(64 << 20, tarred({"a.json": RUN}, "gnu")[:1536] + bomb), limits)
    assert ids(items) == ["x!a.json#0"]
    assert reasons(items) == [("mem/source/x!big.json", "empty"), ("mem/source/x", "zip_bomb")]
    assert peak < 48 << 20
    items, peak = peak_of(zeros(64 << 20, tarred({"a.json": RUN})), limits)
    assert (ids(items), reasons(items)) == (["x!a.json#0"], [("mem/source/x", "zip_bomb")])
    assert peak < 48 << 20
    inside = tarred({"a.json": RUN, "bomb.json.gz": gzip.compress(b'{"a": "' + b"a" * (16 << 20)), "c.json": RUN})
    items, peak = peak_of(inside, limits)
    assert ids(items) == ["x!a.json#0", "x!c.json#0"]
    assert reasons(items) == [("mem/source/x!bomb.json.gz", "zip_bomb")]
    assert peak < 48 << 20


def test_more_members_than_are_read() -> None:
    members: dict[str, bytes] = {f"{number:03d}.json": as_json(chat(number)) for number in range(30)}
    items = read_bytes(tarred(members), "x", Limits(members=20))
    assert (len(ids(items)), reasons(items)) == (20, [("mem/source/x", "zip_bomb")])


def test_headers_without_members_are_bounded() -> None:
    folders = [(f"{number}/", Odd(tarfile.DIRTYPE)) for number in range(300)]
    items = read_bytes(tarred([("a.json", RUN), *folders, ("b.json", RUN)]), "x", Limits(members=20))
    assert (ids(items), reasons(items)) == (["x!a.json#0"], [("mem/source/x", "zip_bomb")])
    assert (
        len(ids(read_bytes(tarred([("a.json", RUN), *folders[:100], ("b.json", RUN)]), "x", Limits(members=20)))) == 2
    )


BASE = tarred({"a.json": RUN, "d/b.jsonl": as_lines([{"messages": CHAT}] * 3), LONG: RUN, **EVENTS})


@settings(max_examples=150)
@given(st.data())
def test_mutated_archives_never_raise_and_stay_small(data: st.DataObject) -> None:
    changed = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.sampled_from(["byte", "cut", "repeat", "size", "zeros"])):
            case "byte":
                changed[at] = data.draw(st.integers(0, 255))
            case "cut":
                del changed[at : at + data.draw(st.integers(1, 2000))]
            case "repeat":
                changed[at:at] = changed[at : at + data.draw(st.integers(1, 2000))]
            case "size":  # with the checksum mended, else nothing behind it is reached
                start = at // 512 * 512
                block = changed[start : start + 512]
                if len(block) == 512:
                    block[124:136] = data.draw(st.binary(min_size=12, max_size=12))
                    block[156] = data.draw(st.sampled_from(b"0LKxgS5127"))
                    block[148:156] = b" " * 8
                    block[148:156] = b"%06o\0 " % sum(block)
                    changed[start : start + 512] = block
            case _:
                changed[at : at + 512] = bytes(512)
        if not changed:
            break
    is_packed = data.draw(st.booleans())
    items, peak = peak_of(gzip.compress(changed) if is_packed else bytes(changed))
    assert items
    assert peak < 16 << 20


# --- ingested ----------------------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_catalog(f"sqlite:///{tmp_path}/catalog.sqlite", create=True) as opened_catalog:
        yield opened_catalog


def test_an_unchanged_archive_is_skipped(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    path = tmp_path / "in" / "runs.tar.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(tarred([("a.json", RUN), ("link.json", Odd(tarfile.SYMTYPE, "a.json"))])))
    first = ingest(catalog, artifacts, str(path.parent))
    assert (first.added, first.quarantined) == (1, {"symlink": 1})
    monkeypatch.setattr(stage, "_read", lambda *_: pytest.fail("it was read again"))
    assert ingest(catalog, artifacts, str(path.parent)).unchanged_files == 1


def test_an_archive_in_a_bucket_is_a_stream(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "_LARGEST", 1_000)
    archive = tarred({f"{number}.json": as_json(chat(number)) for number in range(20)})
    fsspec.filesystem("s3").pipe_file(f"{bucket}/runs/all.tar", archive)
    fsspec.filesystem("s3").pipe_file(f"{bucket}/runs/all.tar.zst", PACKERS["zstd"](archive))
    assert ingest(catalog, artifacts, f"{bucket}/runs").added == 40
    assert ingest(catalog, artifacts, f"{bucket}/runs").unchanged_files == 2
