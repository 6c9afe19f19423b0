"""The verdict of the benchmark of a night: each limit is missed by itself."""

from __future__ import annotations

import pytest

from benchmarks.nightly import Found, Night, are_met, deployed_wait


def found(
    trajectories: int, *, label: float = 0.005, featurize: float = 0.004, extra: float = 0.0, deployed: float = 0.05
) -> Found:
    """With so many seconds per state, a refresh that takes `extra` seconds more per trajectory, and a deployed night
    that takes that share of the full run."""

    def night(states: int, more: float = 0.0) -> Night:
        stages = {"label": 0.2 + label * states, "featurize": 0.2 + featurize * states + more, "train": 1.0}
        return Night("", 5.0 + sum(stages.values()), stages, states)

    new = trajectories // 100
    full = night(trajectories)
    return Found(
        trajectories, full, Night("", deployed * full.seconds, {}, new), night(new, extra * trajectories), night(0)
    )


def test_constants_do_not_count() -> None:
    assert are_met([found(1_000), found(10_000)], 2.0)


@pytest.mark.parametrize("slow", [{"label": 0.007}, {"featurize": 0.006}])
def test_stages_that_are_together_too_slow_at_one_size(slow: dict[str, float]) -> None:
    assert not are_met([found(1_000), found(10_000, **slow)], 2.0)
    assert not are_met([found(1_000, **slow)], 2.0)


def test_a_refresh_that_grows_with_all_that_is_there() -> None:
    assert not are_met([found(1_000, extra=0.0005), found(10_000, extra=0.0005)], 2.0)


def test_a_deployed_night_that_takes_more_than_a_tenth_of_a_large_run() -> None:
    assert are_met([found(1_000, deployed=0.12), found(10_000)], 2.0)
    assert not are_met([found(1_000), found(10_000, deployed=0.11)], 2.0)


def test_the_deployed_wait_is_that_of_the_deployment() -> None:
    assert deployed_wait() == "2%"
