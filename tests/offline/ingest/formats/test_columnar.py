"""Tables as dataset hubs have them: rows with nested or spelled messages, damaged files, bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from drsr.errors import DrsrError
from drsr.offline.ingest.formats import read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.source_files import Limits, SourceFile
from tests.offline.ingest.formats.files import as_lines, only_problem, read_bytes, shape
from tests.offline.ingest.formats.team_miniatures import CHAT, SHAREGPT, TOOL

Json = dict[str, Any]
ROWS: list[Json] = [
    {"messages": CHAT, "task_id": "t1", "extra": None},
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], "task_id": "t2"},
]
SPELLED: list[Json] = [{**row, "messages": json.dumps(row["messages"]), "tools": json.dumps([TOOL])} for row in ROWS]


def parquet(rows: list[Json], **options: Any) -> bytes:
    packed = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), packed, **options)
    return packed.getvalue()


def arrow(rows: list[Json], form: str) -> bytes:
    table, packed = pyarrow.Table.from_pylist(rows), io.BytesIO()
    if form == "feather":
        pyarrow.feather.write_feather(table, packed, compression="lz4")
    else:
        opened = pyarrow.ipc.new_file if form == "file" else pyarrow.ipc.new_stream
        with opened(packed, table.schema) as writer:
            writer.write_table(table)
    return packed.getvalue()


FILES = {
    "parquet": parquet(ROWS),
    "parquet_spelled": parquet(SPELLED, compression="zstd"),
    "arrow_file": arrow(ROWS, "file"),
    "arrow_stream": arrow(SPELLED, "stream"),
    "feather": arrow(ROWS, "feather"),
    "json_lines": as_lines(SPELLED),
}


@pytest.mark.parametrize("name", FILES)
def test_rows_are_runs(name: str) -> None:
    first, second = read_bytes(FILES[name])
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert first.request["messages"] == CHAT
    assert shape(second) == ["user", "assistant"]
    assert (first.task, second.task) == ("t1", "t2")
    assert ("tools" in first.request) is (name in ("parquet_spelled", "arrow_stream", "json_lines"))


def test_every_other_format_is_found_in_rows_as_well() -> None:
    (item,) = read_bytes(parquet([SHAREGPT]))
    assert isinstance(item, Trajectory)
    assert item.reader.startswith("sharegpt/")


def test_tools_as_a_list_of_strings() -> None:
    (item,) = read_bytes(parquet([{"messages": json.dumps(CHAT), "tools": [json.dumps(TOOL)]}]))
    assert isinstance(item, Trajectory)
    assert item.request["tools"] == [TOOL]


def test_times_bytes_and_maps_do_no_harm() -> None:
    table = pyarrow.table(
        {
            "messages": [json.dumps(CHAT)],
            "at": pyarrow.array([0], pyarrow.timestamp("ms")),
            "image": pyarrow.array([b"\x89PNG"]),
            "cost": pyarrow.array([1], pyarrow.decimal128(5, 2)),
            "labels": pyarrow.array([[("a", "b")]], pyarrow.map_(pyarrow.string(), pyarrow.string())),
        }
    )
    packed = io.BytesIO()
    pyarrow.parquet.write_table(table, packed)
    (item,) = read_bytes(packed.getvalue())
    assert isinstance(item, Trajectory)


def test_in_archives() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr("data/train.parquet", FILES["parquet"])
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        entry = tarfile.TarInfo("data/train.parquet")
        entry.size = len(FILES["parquet"])
        archive.addfile(entry, io.BytesIO(FILES["parquet"]))
    for data in (
        packed.getvalue(),
        gzip.compress(tar.getvalue()),
        gzip.compress(FILES["parquet"]),
        gzip.compress(FILES["arrow_stream"]),
    ):
        assert [isinstance(item, Trajectory) for item in read_bytes(data)] == [True, True]
    (problem,) = read_bytes(gzip.compress(FILES["parquet"]), limits=Limits(document=100))
    assert (problem.reason, "unpack" in problem.detail) == ("too_large", True)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["parquet", "arrow_file", "arrow_stream", "feather"])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_cut_files_are_named_and_never_raise(name: str, share: float) -> None:
    data = FILES[name]
    items = read_bytes(data[: int(len(data) * share)])
    assert [item.reason for item in items if not isinstance(item, Trajectory)]


@pytest.mark.parametrize("name", ["parquet", "arrow_file", "arrow_stream"])
def test_flipped_bytes_never_raise(name: str) -> None:
    for place in range(0, len(FILES[name]), 23):
        data = bytearray(FILES[name])
        data[place] ^= 0xFF
        for item in read_bytes(bytes(data)):
            assert isinstance(item, Trajectory) or item.reason != "reader_failed"


def test_tables_without_runs_and_outdated_ones() -> None:
    problems = read_bytes(parquet([{"text": "a"}, {"text": "b"}]))
    assert [item.reason for item in problems if not isinstance(item, Trajectory)] == ["unknown_format"] * 2
    assert "version 2" in only_problem(read_bytes(b"FEA1" + bytes(100))).detail


def test_storage_that_fails_is_no_damaged_table() -> None:
    class Failing(io.RawIOBase):
        at = 0

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            self.at = len(FILES["parquet"]) + offset if whence == 2 else offset
            return self.at

        def tell(self) -> int:
            return self.at

        def readinto(self, buffer: Any) -> int:
            if self.at:
                raise OSError(5, "Input/output error")
            data = FILES["parquet"][: len(buffer)]
            buffer[: len(data)] = data
            self.at += len(data)
            return len(data)

    file = SourceFile("x", "x", "s", None, None, lambda: io.BufferedReader(Failing()))
    with pytest.raises(DrsrError, match="Input/output error"):
        list(read(file))


_READ = """
import resource, sys
from drsr.offline.store.locations import open_location
from drsr.offline.ingest.formats import read
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for file in open_location(sys.argv[1]) for item in read(file))
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="needs resource")
def test_memory_is_bounded_by_the_batch(tmp_path: Path) -> None:
    text = "".join(chr(97 + number % 26) for number in range(50_000))
    row = {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]}
    table = pyarrow.Table.from_pylist([{**row, "task_id": str(number)} for number in range(20)])
    path = tmp_path / "large.parquet"
    with pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=False, compression="none") as writer:
        for _ in range(200):
            writer.write_table(table)
    assert path.stat().st_size > 190 << 20
    done = subprocess.run([sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True)
    count, megabytes = map(int, done.stdout.split())
    assert count == 4_000
    assert megabytes < 120
