"""Sliding Window: which messages stay."""

from __future__ import annotations

import pytest

from drsr.offline.bench.comparators.sliding_window import SlidingWindow
from drsr.request.request import Protocol, read_request
from tests.messages import SAYS, USER, answers, asks
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("turns", "kept"), [(4, 4), (5, 5), (6, 5), (12, 5)])
def test_prefix_and_the_last_steps_stay(protocol: Protocol, turns: int, kept: int) -> None:
    request = long_run(protocol, turns)
    found = SlidingWindow(5).rewrite(request, None, RecordingSummariser()).request
    prefix = 2 if protocol == "openai" else 1
    assert found.messages == request.messages[:prefix] + request.messages[-2 * kept :]
    assert (found is request) == (turns <= 5)


def test_an_unfinished_step_is_not_counted_and_stays() -> None:
    steps = [message for number in "abc" for message in (asks(number), answers(number))]
    request = read_request([USER, *steps, asks("d")])
    found = SlidingWindow(2).rewrite(request, None, RecordingSummariser()).request
    assert found.to_wire() == [USER, *steps[2:], asks("d")]


def test_what_the_user_said_before_the_window_goes() -> None:
    correction = {"role": "user", "content": "in euros"}
    request = read_request([USER, SAYS, correction, SAYS, SAYS])
    assert SlidingWindow(2).rewrite(request, None, RecordingSummariser()).request.to_wire() == [USER, SAYS, SAYS]


def test_a_window_that_would_not_keep_recent2_is_refused() -> None:
    with pytest.raises(ValueError, match="two latest"):
        SlidingWindow(1)
