"""Which tests a run with several processes begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.longest_first import SECONDS, longest_first

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_every_test_once_and_each_part_begins_with_a_long_file(processes: int) -> None:
    files = [f"tests/test_{number:04}.py" for number in range(500)]
    for place, file in enumerate(SECONDS):
        files[30 * place : 30 * place + 4] = [file] * 4
    order = longest_first(files, processes)
    assert sorted(order) == list(range(500))
    starts, left = [0], 500
    for others in range(processes, 1, -1):
        starts.append(starts[-1] + left // others)
        left -= left // others
    assert [files[order[start]] for start in starts] == list(SECONDS)[:processes]
    short = [number for number in order if files[number] not in SECONDS]
    assert short == sorted(short), "all others stay in the order they were found"


def test_few_tests() -> None:
    assert longest_first(["tests/test_a.py"], 3) == [0]
    assert sorted(longest_first(["tests/test_a.py", *["tests/flows/test_team.py"] * 5], 3)) == list(range(6))


@pytest.mark.parametrize("file", SECONDS)
def test_the_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()
