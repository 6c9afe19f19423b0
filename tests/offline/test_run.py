"""The loop over stages: the order, where it ends, and what is known of it then."""

from __future__ import annotations

import pytest

from drsr.offline.run import Done, in_order

STAGES = ("first", "second", "third")


def test_every_stage_runs_once_and_is_checked() -> None:
    checked: list[tuple[str, str]] = []

    def check(stage: str, result: str) -> bool:
        checked.append((stage, result))
        return True

    done = in_order(STAGES, str.upper, check)
    assert checked == list(done.results.items()) == [(stage, stage.upper()) for stage in STAGES]
    assert tuple(done.seconds) == STAGES
    assert min(done.seconds.values()) >= 0


@pytest.mark.parametrize("failing", STAGES)
def test_nothing_runs_after_a_stage_that_raises(failing: str) -> None:
    done: Done[str] = Done()

    def run(stage: str) -> str:
        if stage == failing:
            raise KeyboardInterrupt
        return stage

    with pytest.raises(KeyboardInterrupt):
        in_order(STAGES, run, lambda stage, result: True, done)
    place = STAGES.index(failing)
    assert tuple(done.results) == STAGES[:place]
    assert tuple(done.seconds) == STAGES[: place + 1], "the time that the failed one took is known too"


def test_nothing_runs_after_a_check_that_raises() -> None:
    done: Done[str] = Done()

    def check(stage: str, result: str) -> bool:
        if stage == "second":
            raise ValueError(stage)
        return True

    with pytest.raises(ValueError, match="second"):
        in_order(STAGES, str, check, done)
    assert tuple(done.results) == STAGES[:2]


def test_it_ends_where_the_check_says_that_it_is_enough() -> None:
    assert tuple(in_order(STAGES, str, lambda stage, result: False).results) == ("first",)
