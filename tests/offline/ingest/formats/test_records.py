"""Layouts of files, broken files, and memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats import read
from drsr.offline.ingest.formats import records as module
from drsr.offline.ingest.records import MOST_QUARANTINED, ReadFile
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.locations import open_location
from drsr.offline.store.source_files import Limits
from tests.offline.ingest.formats.files import Items, as_json, as_lines, only_problem, read_bytes
from tests.offline.ingest.formats.miniatures import CHAT

RUN = {"messages": CHAT}


def runs(items: Items) -> int:
    return sum(isinstance(item, Trajectory) for item in items)


def problems(items: Items) -> list[tuple[str, str]]:
    return [(item.location.rpartition("/")[2], item.reason) for item in items if isinstance(item, Quarantined)]


@pytest.mark.parametrize(
    "data",
    [
        as_json(RUN),
        json.dumps(RUN, indent=2).encode(),
        b"\xef\xbb\xbf" + as_json(RUN),
        b"\n \n" + as_json(RUN) + b"\n\n",
        as_json(RUN).replace(b", ", b",\r\n"),
        as_json([RUN]),
        json.dumps([RUN], indent=2).encode(),
        b"[\n" + as_json(RUN) + b"\n]",
        b'{"messages":\n' + as_json(CHAT) + b"\n}",
        b" " * 20_000 + as_json(RUN),
    ],
)
def test_one_run_in_every_layout(data: bytes) -> None:
    items = read_bytes(data)
    assert (runs(items), problems(items)) == (1, [])


@pytest.mark.parametrize(
    "data",
    [
        as_lines([RUN] * 3),
        as_lines([RUN] * 3).rstrip(b"\n"),
        as_lines([RUN] * 3).replace(b"\n", b"\r\n\r\n"),
        as_json([RUN] * 3),
        json.dumps([RUN] * 3, indent=1).encode(),
        b"\n".join([json.dumps(RUN, indent=1).encode()] * 3),
        as_lines([CHAT] * 3),
    ],
)
def test_three_runs_in_every_layout(data: bytes) -> None:
    items = read_bytes(data)
    assert (runs(items), problems(items)) == (3, [])


@pytest.mark.parametrize("line", [0, 1, 3])
def test_a_bad_line_is_named_and_the_others_are_kept(line: int) -> None:
    lines = as_lines([RUN] * 4).splitlines(keepends=True)
    lines[line] = lines[line][:60] + b"\n"
    items = read_bytes(b"".join(lines), "runs.jsonl")
    assert (runs(items), problems(items)) == (3, [(f"runs.jsonl:{line + 1}", "truncated_json")])


def test_a_line_in_another_encoding() -> None:
    bad = as_json({"messages": [{"role": "user", "content": "caf"}]}).replace(b"caf", b"caf\xe9")
    items = read_bytes(as_lines([RUN, RUN]) + bad + b"\n", "runs.jsonl")
    assert (runs(items), problems(items)) == (2, [("runs.jsonl:3", "encoding")])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"licence: MIT\n", "not_data"),
        (b"a,b\n1,2\n", "not_data"),
        (b"\x89PNG\r\n\x1a\n", "binary"),
        (b"PAR1" + bytes(20), "corrupt_table"),
        (b"\x80\x04\x95abc", "binary"),
        (b'{"a": 1}\x00\x00\x01\x02' * 9, "binary"),
        (as_json(RUN).decode().encode("utf-16"), "encoding"),
        (as_json(RUN).decode().encode("utf-16-le"), "encoding"),
        (as_json(RUN).decode().encode("utf-32"), "encoding"),
        ('{"messages": [{"role": "user", "content": "café"}]}'.encode("latin-1"), "encoding"),
        (as_json(RUN)[:-9], "truncated_json"),
        (json.dumps(RUN, indent=1).encode()[:-9], "truncated_json"),
        (as_json(RUN).replace(b":", b";", 1), "bad_json"),
        (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', "lone_surrogate"),
        (b"[]", "empty"),
        (b'{"simulations": []}', "empty"),
        (b"[1, 2]", "unknown_format"),
        (b"{}", "unknown_format"),
        (b'[[[["deep"]]]]', "unknown_format"),
    ],
)
def test_files_that_are_no_runs(data: bytes, reason: str) -> None:
    items = read_bytes(data)
    assert runs(items) == 0
    assert {item.reason for item in items if isinstance(item, Quarantined)} == {reason}


def test_a_damaged_list_keeps_what_comes_before() -> None:
    data = as_json([RUN, RUN, RUN])
    items = read_bytes(data[:-30], "runs.json")
    assert (runs(items), problems(items)) == (2, [("runs.json[2]", "truncated_json")])


def test_a_document_beyond_the_limit() -> None:
    limits = Limits(document=1000)
    big = {"messages": [{"role": "user", "content": "x" * 2000}]}
    for data in (as_json(big), json.dumps(big, indent=1).encode()):
        assert only_problem(read_bytes(data, limits=limits)).reason == "too_large"
    items = read_bytes(as_lines([RUN, big, RUN]), "runs.jsonl", limits)
    assert (runs(items), problems(items)) == (2, [("runs.jsonl:2", "too_large")])
    items = read_bytes(as_lines([big, RUN, RUN]), "runs.jsonl", limits)
    assert (runs(items), problems(items)) == (2, [("runs.jsonl:1", "too_large")])


def test_a_session_beyond_the_limit() -> None:
    items = read_bytes(as_lines([{"role": "user", "content": "x" * 500}] * 5), limits=Limits(document=1000))
    assert only_problem(items).reason == "too_large"


def test_a_long_array_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_bytes(as_json([RUN] * 5))
    monkeypatch.setattr(module, "_WHOLE", 64)
    monkeypatch.setattr(module, "_FIRST_LINE", 32)
    assert read_bytes(as_json([RUN] * 5)) == whole
    assert read_bytes(json.dumps([RUN] * 5, indent=2).encode()) == whole
    items = read_bytes(as_json([RUN] * 5)[:-40], "runs.json")
    assert (runs(items), problems(items)) == (4, [("runs.json[4]", "truncated_json")])


PIECES = st.sampled_from(
    [
        *(as_json(RUN), b"{", b"}", b"[", b"]", b'"a": 1,', b'"a": 1', b'  {"a": 1},', b'{"a": 1},', b'{"b": 2}', b""),
        *(b"\xff", b'  "x": {', b"  }", b"  ]", b"no", b'{"t": NaN}', b"[1]", as_json(CHAT), b'{"a": "\\ud800"}'),
    ]
)


@given(st.lists(PIECES, max_size=8).map(b"\n".join), st.sampled_from([40, 200, 1 << 20]))
def test_trying_one_document_first_changes_nothing(rest: bytes, limit: int) -> None:
    """The twin never parses the whole: it looks at the lines and finds out what they are."""
    limits = Limits(document=limit)
    quick = read_bytes(b"{" + rest, limits=limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WHOLE", 0)
        assert read_bytes(b"{" + rest, limits=limits) == quick


def test_a_document_longer_than_what_is_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(RUN, indent=2).encode()
    whole = read_bytes(data)
    monkeypatch.setattr(module, "_WHOLE", 100)
    assert read_bytes(data) == whole


def test_text_about_tar_archives_is_no_tar_archive() -> None:
    start = b'{"note": "'
    data = start + b"x" * (257 - len(start)) + b'ustar", ' + as_json(RUN)[1:]
    assert runs(read_bytes(data)) == 1


def many_runs(target: Path, size: int) -> int:
    """Writes JSON lines of about `size` bytes with a bad line now and then; returns the number of good ones."""
    text = {"messages": [*CHAT, {"role": "assistant", "content": "x" * 20_000}]}
    line = as_json(text) + b"\n"
    count = size // len(line)
    with target.open("wb") as out:
        for number in range(count):
            out.write(line if number % 100 else line[:200] + b"\n")
    return count - (count + 99) // 100


@pytest.mark.parametrize("packed", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, packed: bool) -> None:
    target = tmp_path / "big.jsonl"
    good = many_runs(target, (16 if packed else 50) << 20)
    if packed:
        data = target.read_bytes()
        target.write_bytes(gzip.compress(data, compresslevel=1))
        del data
    (file,) = open_location(str(target))
    tracemalloc.start()
    found = bad = 0
    for item in read(file):
        if isinstance(item, Trajectory):
            found += 1
        else:
            bad += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == good
    assert bad > 0
    assert peak < 4 << 20


def test_a_streamed_array_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WHOLE", 1 << 20)
    element = as_json({"messages": [*CHAT, {"role": "assistant", "content": "x" * 20_000}]})
    target = tmp_path / "big.json"
    target.write_bytes(b"[" + b",".join([element] * 2000) + b"]")
    (file,) = open_location(str(target))
    tracemalloc.start()
    found = sum(isinstance(item, Trajectory) for item in read(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == 2000
    assert peak < 48 << 20


def test_countless_complaints_within_a_session_are_counted() -> None:
    session = b"\n".join([as_json(CHAT[0]), as_json(CHAT[1]), *[b'{"role": '] * 5000, as_json(CHAT[4])])
    items = read_bytes(session)
    assert runs(items) == 1
    assert len(problems(items)) == 1001
    assert sum(item.count for item in items if isinstance(item, Quarantined)) == 5000


def test_every_complaint_is_counted() -> None:
    items: list[Any] = read_bytes(as_lines([RUN]) + b'{"messages": \n' * 5000)
    file = ReadFile("source", "mem/source/runs.json", None)
    for item in items[1:]:
        file.quarantine(item)
    assert file.reasons == {"truncated_json": 5000}
    file.quarantine(Quarantined(items[1].location, "truncated_json", "and more", count=7))
    file.quarantine(Quarantined(items[1].location, "truncated_json", "said twice"))
    assert file.reasons == {"truncated_json": 5007}
    assert len(file.quarantined) == MOST_QUARANTINED


GOOD = as_json(RUN) + b"\n"
BAD = GOOD[:60] + b"\n"


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize(
    "pattern", ["bg", "bgb", "bbg", "bgbgbg", "bgbbgbg" + "g" * 40, "bbbbbb" + "g", "gb", "bgg", "bgbb"]
)
def test_good_lines_are_kept_wherever_bad_ones_stand(pattern: str, ending: bytes) -> None:
    data = b"".join(GOOD if kind == "g" else BAD for kind in pattern).rstrip(b"\n") + ending
    items = read_bytes(data, "runs.jsonl")
    bad = [f"runs.jsonl:{number}" for number, kind in enumerate(pattern, 1) if kind == "b"]
    assert runs(items) == pattern.count("g")
    assert problems(items) == [(place, "truncated_json") for place in bad]


@pytest.mark.parametrize("cut", [60, 30, 20])
def test_good_lines_that_are_lists_are_kept(cut: int) -> None:
    good = as_json(CHAT) + b"\n"
    bad = good[:cut] + b"\n"
    for pattern in ("bg", "bgb", "bbbg", "bgbgg"):
        items = read_bytes(b"".join(good if kind == "g" else bad for kind in pattern), "runs.jsonl")
        assert (runs(items), len(problems(items))) == (pattern.count("g"), pattern.count("b"))


@given(st.lists(st.sampled_from("gx,:}["), min_size=2, max_size=12))
def test_whatever_bad_lines_end_with(pattern: list[str]) -> None:
    """A line cut off behind a comma or colon looks like one that goes on."""
    lines = [GOOD if kind == "g" else b'{"messages": [{"role"' + kind.encode() + b"\n" for kind in pattern]
    items = read_bytes(b"".join(lines), "runs.jsonl")
    assert runs(items) == pattern.count("g")


def test_documents_over_lines_are_no_json_lines() -> None:
    laid_out = b'{"messages":\n' + as_json(CHAT) + b"\n}\n"
    assert runs(read_bytes(laid_out * 3)) == 3
    assert runs(read_bytes(json.dumps(RUN, indent=1).encode() + b"\n" + GOOD * 2)) == 3
    damaged = json.dumps({"messages": [*CHAT, {}], "x": [{}, {}]}, indent=1).encode()
    for end in range(len(damaged) - 40, len(damaged) - 1):
        assert len(read_bytes(damaged[:end])) == 1


def test_bad_lines_beyond_the_limit_of_a_document() -> None:
    limits = Limits(document=2000)
    items = read_bytes(BAD * 100 + GOOD + BAD + GOOD, "runs.jsonl", limits)
    assert runs(items) == 2
    assert sum(item.count for item in items if isinstance(item, Quarantined)) == 101


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_the_encoding_is_named_as_iconv_has_it(encoding: str) -> None:
    problem = only_problem(read_bytes(as_json(RUN).decode().encode(encoding)))
    name = encoding.replace("-le", "le").replace("-be", "be")
    assert (problem.reason, f"iconv -f {name} -t utf-8" in problem.detail) == ("encoding", True)


def test_a_file_of_zero_bytes_is_named() -> None:
    problem = only_problem(read_bytes(bytes(9_000)))
    assert (problem.reason, "never written" in problem.detail) == ("empty", True)
