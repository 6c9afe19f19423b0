"""How a stage is cut into shards, and what is done about each from what is known of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.flows.faults import DELAYS, JITTER
from drsr.flows.sharding.shards import STARTING_SECONDS, SUBMITTED_SECONDS, Move, Sight, next_move, shards_for


@given(st.integers(1, 10_000), st.integers(1, 500), st.integers(1, 64))
def test_shards_are_as_many_as_needed(states: int, each: int, most: int) -> None:
    shards = shards_for(states, each, most)
    assert 1 <= len(shards) <= most
    assert len(shards) == most or len(shards) * each >= states
    assert len(shards) == 1 or (len(shards) - 1) * each < states
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert {shard.of for shard in shards} == {len(shards)}


@pytest.mark.parametrize(
    ("sight", "step"),
    [
        (Sight("SCHEDULED", 1e6, None), Move.WAIT),
        (Sight("PENDING", 1.0, None), Move.WAIT),
        (Sight("PENDING", SUBMITTED_SECONDS + 1, None), Move.RESTART),
        (Sight("RUNNING", 1.0, None), Move.WAIT),
        (Sight("RUNNING", 1e6, True), Move.WAIT),
        (Sight("RUNNING", 1.0, False), Move.RESTART),
        (Sight("RUNNING", STARTING_SECONDS + 1, None), Move.RESTART),
        (Sight("RUNNING", 1e6, None, answering=STARTING_SECONDS - 1), Move.WAIT),
        (Sight("RUNNING", 1e6, None, answering=STARTING_SECONDS + 1), Move.RESTART),
        (Sight("PENDING", SUBMITTED_SECONDS + 1, None, answering=0.0), Move.RESTART),
        (Sight("PAUSED", 1e6, None), Move.WAIT),
        (Sight("COMPLETED", 0.0, None), Move.DONE),
        (Sight("COMPLETED", 0.0, False), Move.DONE),
        (Sight("CRASHED", 0.0, None), Move.RESTART),
        (Sight("FAILED", 0.0, None), Move.FAILED),
        (Sight("CANCELLED", 0.0, None), Move.FAILED),
    ],
)
def test_what_is_done_about_a_shard(sight: Sight, step: Move) -> None:
    assert next_move(sight) is step


def test_one_that_waits_for_the_catalog_before_its_start_is_waited_for() -> None:
    assert max(DELAYS) * (1 + JITTER) < STARTING_SECONDS
