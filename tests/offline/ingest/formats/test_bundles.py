"""Folders of event files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drsr.offline.ingest.formats import gather
from drsr.offline.store.locations import open_location
from drsr.offline.store.source_files import SourceFile
from tests.offline.ingest.formats.miniatures import CHAT, OPENHANDS_SDK, OPENHANDS_V0_EVENTS


def write(folder: Path, values: Sequence[object], suffix: str = ".json") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values):
        (folder / f"{number:03d}{suffix}").write_text(json.dumps(value))


def gathered(folder: Path) -> list[SourceFile]:
    return list(gather(open_location(str(folder))))


@pytest.mark.parametrize("events", [OPENHANDS_SDK, OPENHANDS_V0_EVENTS])
def test_event_files_count_as_one_whatever_they_are_called(tmp_path: Path, events: Sequence[object]) -> None:
    write(tmp_path / "run", events, suffix="")
    (file,) = gathered(tmp_path)
    assert len(file.members) == len(events)
    assert (file.relative, file.path_in_source) == ("run", "run")


def test_ordinary_files_stay_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "runs", [{"messages": CHAT}] * 3)
    (tmp_path / "runs" / "README.txt").write_text("hello")
    assert [file.relative for file in gathered(tmp_path)] == [file.relative for file in open_location(str(tmp_path))]


def test_the_fingerprint_changes_with_any_member(tmp_path: Path) -> None:
    write(tmp_path / "run", OPENHANDS_SDK)
    before = gathered(tmp_path)[0].fingerprint
    assert before == gathered(tmp_path)[0].fingerprint
    (tmp_path / "run" / "003.json").write_text(json.dumps(OPENHANDS_SDK[3]) + " ")
    changed = gathered(tmp_path)[0].fingerprint
    (tmp_path / "run" / "099.json").write_text(json.dumps(OPENHANDS_SDK[7]))
    assert len({before, changed, gathered(tmp_path)[0].fingerprint}) == 3


def test_only_the_first_file_of_a_folder_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "runs", [{"messages": CHAT}] * 20)
    opened: list[str] = []

    def watched(file: SourceFile) -> SourceFile:
        def opener() -> object:
            opened.append(file.relative)
            return file.opener()

        values = {name: getattr(file, name) for name in ("location", "relative", "source", "fingerprint", "size")}
        return SourceFile(**values, opener=opener)  # type: ignore[arg-type]

    assert len(list(gather(map(watched, open_location(str(tmp_path)))))) == 20
    assert opened == ["runs/000.json"]


def test_a_folder_of_events_with_something_else_in_it_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "run", OPENHANDS_SDK)
    (tmp_path / "run" / "zzz.txt").write_text("hello")
    assert len(gathered(tmp_path)) == len(OPENHANDS_SDK) + 1


def test_ordinary_folders_are_streamed(tmp_path: Path) -> None:
    write(tmp_path / "runs", [{"messages": CHAT}] * 2)
    first, second = open_location(str(tmp_path))
    taken = 0

    def endless() -> Iterator[SourceFile]:
        nonlocal taken
        yield first
        while True:
            taken += 1
            yield second

    found = gather(endless())
    assert [next(found).relative for _ in range(10)] == ["runs/000.json", *["runs/001.json"] * 9]
    assert taken < 12
