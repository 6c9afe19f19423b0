from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.bench.replay.journal import Journal, Json, Kind, read_journal


class Point(NamedTuple):
    x: int
    name: str

    @classmethod
    def of(cls, value: Json) -> Point:
        return cls(**value)


POINTS: Kind[Point] = Kind("points/1", "points", "drawing", Point.of)
ABOUT = {"pen": "red", "paper": 4}
WANTED = [Point(1, "ä"), Point(2, "two\nlines"), Point(3, "")]


def draw(path: Path) -> list[Point]:
    """What a run does that goes on where another one stopped."""
    with Journal(path, POINTS, ABOUT) as journal:
        for point in WANTED[len(journal.rows) :]:
            journal.append([point._asdict()])
    return read_journal(path, POINTS).rows


@given(st.floats(0, 1))
def test_killed_anywhere_and_run_again_it_is_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, part: float
) -> None:
    """Lines are only ever appended, so what a kill leaves is some beginning of the file."""
    path = tmp_path_factory.mktemp("drawing") / "deep" / "points.jsonl"
    assert draw(path) == WANTED
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    assert draw(path) == WANTED
    assert path.read_bytes() == whole
    assert draw(path) == WANTED
    assert path.read_bytes() == whole


def test_a_line_without_an_end_is_not_read_and_goes_with_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    draw(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"x": 1, "na')
    found = read_journal(path, POINTS)
    assert found == ({"format": "points/1", **ABOUT}, WANTED)
    assert path.read_bytes() != whole
    Journal(path, POINTS, ABOUT).__exit__(None, None, None)
    assert path.read_bytes() == whole


def test_a_new_file_is_made_with_its_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    with Journal(path, POINTS, ABOUT) as journal:
        assert not path.exists()
        journal.append([])
    assert path.read_bytes() == json.dumps({"format": "points/1", **ABOUT}).encode() + b"\n"


@pytest.mark.parametrize(
    ("about", "what"),
    [
        ({"pen": "blue", "paper": 4}, "was made with pen 'red', this run has 'blue'"),
        ({"paper": 4}, "was made with pen 'red', this run has None"),
        ({**ABOUT, "light": 1}, "was made with light None, this run has 1"),
    ],
)
def test_what_depends_on_something_else_is_refused(tmp_path: Path, about: Json, what: str) -> None:
    path = tmp_path / "points.jsonl"
    draw(path)
    whole = path.read_bytes()
    with pytest.raises(InputError, match=what):
        Journal(path, POINTS, about)
    assert path.read_bytes() == whole
    assert draw(path) == WANTED


@pytest.mark.parametrize(
    "text", ["[]\n", "{}\n", "\n", "notes of mine", '{"format": "points/2"}\n', '{"format": "points/1"}\n{"x": 1}\n']
)
def test_what_is_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(text)
    for open_it in (lambda: Journal(path, POINTS, {}), lambda: read_journal(path, POINTS)):
        with pytest.raises(ArtifactCorrupt, match="holds no points"):
            open_it()
    assert path.read_text() == text


@pytest.mark.parametrize("text", [None, "", '{"form', '{"format": "points/1", "pe'])
def test_where_nothing_is_yet(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "points.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match="there are no points here") as error:
        read_journal(path, POINTS)
    assert error.value.hint == "drawing makes them"


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    with Journal(path, POINTS, ABOUT) as first, Journal(path, POINTS, ABOUT) as beside:
        first.append([WANTED[0]._asdict()])
        with pytest.raises(InputError, match="another run is writing to this file"):
            beside.append([WANTED[0]._asdict()])
        with pytest.raises(InputError, match="another run is writing to this file"):
            Journal(path, POINTS, ABOUT)
        first.append([WANTED[1]._asdict()])
    assert read_journal(path, POINTS).rows == WANTED[:2]
    assert draw(path) == WANTED


def test_a_place_that_cannot_be_written_gets_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        Journal(tmp_path, POINTS, ABOUT)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_journal(tmp_path, POINTS)
