"""A second opinion as a file: what it says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import InputError
from drsr.offline.evaluate.second_opinion import SecondOpinion, read_opinion

OPINION = SecondOpinion("small", "large", 60, 55, 800, 3_000, 0.81, 0.74)


def write(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(OPINION.to_json() | changes))
    return path


def test_it_says_how_often_both_agree(tmp_path: Path) -> None:
    found = read_opinion(write(tmp_path / "opinion.json"), "small")
    assert found == OPINION
    assert "large measured 60 of these states, of 55 tasks" in found.said
    assert "81% of 800 deletion sets" in found.said
    assert "74% of 3,000 pairs" in found.said


def test_the_one_of_the_repository_can_be_read() -> None:
    found = read_opinion(Path(__file__).parents[3] / "policies" / "about" / "second-opinion.json", "smollm2-135m")
    assert found.states == 35


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "other/1"}, "not a second opinion"),
        ({"more": 1}, "not a second opinion"),
        ({"states": 0}, "not positive"),
        ({"same_verdict": 1.5}, "not between 0 and 1"),
        ({"same_order": "most"}, "not between 0 and 1"),
        ({"first": "tiny"}, "is about labels of tiny; this policy's were measured with small"),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_opinion(write(tmp_path / "opinion.json", **changes), "small")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_opinion(tmp_path / "missing.json", "small")
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="is not JSON"):
        read_opinion(tmp_path / "text", "small")
