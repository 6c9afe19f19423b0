"""Reading behind a deadline: who waits, who does not, what the next request finds, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import transformers

from drsr.decide.background import FINISHED, WAITING, BackgroundReader, GiveUp, Interrupted, NotInTime
from drsr.decide.candidates import DecisionState
from drsr.decide.representation import FrozenRepresentation, ScriptedRepresentation
from drsr.features.session import SessionCache
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.offline import samples
from drsr.request.tokens_read import noting
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import small_backbone

TOKENIZER = ScriptedRepresentation().tokenizer


class Slow:
    """Reads when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_read = threading.Event()
        self.read: list[int] = []
        self.error: Exception | None = None

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        self.begun.set()
        while not self.may_read.wait(0.005):
            if give_up is not None and give_up():
                raise RuntimeError("given up")
        if self.error is not None:
            raise self.error
        self.read.append(len(state.rendering))
        return ScriptedRepresentation().features(state)


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may_read.set()


def states_of_run(name: str, steps: int = 9) -> list[DecisionState]:
    """The states of one run, each the beginning of the next."""
    messages = run_messages(steps)
    messages[1] = {**messages[1], "content": f"{name} " * 40 + str(messages[1]["content"])}
    return [state_of(messages[:end], TOKENIZER) for end in range(2 + 2 * 5, len(messages) + 1, 2)]


def soon(milliseconds: float = 30) -> float:
    return time.perf_counter() + milliseconds / 1000


def test_features_in_time_are_those_of_the_source_and_count_as_read(slow: Slow) -> None:
    slow.may_read.set()
    reader, state = BackgroundReader(lambda: slow), states_of_run("a")[0]
    with noting() as read:
        found = reader.by(soon(5_000)).features(state)
    assert found.prefix_hash == ScriptedRepresentation().features(state).prefix_hash
    assert np.array_equal(np.concatenate(read), state.view.token_ids(state.rendering.token_ids))


def test_nobody_waits_twice_and_the_latest_request_of_a_run_is_read_next(slow: Slow) -> None:
    reader = BackgroundReader(lambda: slow)
    first, second, third, *_ = states_of_run("a")
    start = time.perf_counter()
    with pytest.raises(NotInTime, match="reading goes on"):
        reader.features(first, soon(50))
    assert time.perf_counter() - start >= 0.05
    assert slow.begun.wait(60)
    for state in (first, second, third):  # no deadline could be too far
        start = time.perf_counter()
        with pytest.raises(NotInTime, match="still being read"):
            reader.features(state, soon(60_000))
        assert time.perf_counter() - start < 5
    assert reader.in_flight == 2
    slow.may_read.set()
    assert reader.wait(20)
    assert slow.read == [len(first.rendering), len(third.rendering)]
    assert reader.in_flight == 0
    again = reader.features(third, soon(0))  # tried again: it is there
    assert again.prefix_hash == ScriptedRepresentation().features(third).prefix_hash
    assert len(slow.read) == 2


def test_what_is_in_flight_is_bounded(slow: Slow) -> None:
    reader = BackgroundReader(lambda: slow)
    runs = [states_of_run(f"run{number} {number}")[0] for number in range(WAITING + 3)]
    said = []
    for state in runs:
        with pytest.raises(NotInTime) as caught:
            reader.features(state, soon(1))
        said.append("wait to be read" in str(caught.value))
        assert slow.begun.wait(60)  # the first no longer waits
    assert reader.in_flight == WAITING + 1
    assert said == [False] * (WAITING + 1) + [True] * 2
    slow.may_read.set()
    assert reader.wait(20)
    assert len(slow.read) == WAITING + 1
    assert len(reader._finished) == FINISHED


def test_what_reading_raises_is_raised_and_the_next_state_is_read(slow: Slow) -> None:
    slow.error = ValueError("broken")
    slow.may_read.set()
    reader = BackgroundReader(lambda: slow)
    first, second, *_ = states_of_run("a")
    with pytest.raises(ValueError, match="broken"):
        reader.features(first, soon(20_000))
    slow.error = None
    assert reader.features(second, soon(20_000)) is not None
    assert reader.features(first, soon(20_000)) is not None  # nothing wrong is remembered


def test_a_session_that_cannot_be_opened_is_said_every_time() -> None:
    def opens() -> Slow:
        raise OSError("no weights")

    reader = BackgroundReader(opens)
    for state in states_of_run("a")[:2]:
        with pytest.raises(OSError, match="no weights"):
            reader.features(state, soon(20_000))


def test_reading_ahead_waits_for_nobody_and_serves_the_next(slow: Slow) -> None:
    reader, state = BackgroundReader(lambda: slow), states_of_run("a")[0]
    assert reader.read_ahead(state)
    assert reader.read_ahead(state)
    slow.may_read.set()
    assert reader.wait(20)
    assert reader.features(state, soon(0)) is not None
    assert len(slow.read) == 1


def test_a_decision_waits_for_what_is_read_ahead_of_it(slow: Slow) -> None:
    """Nobody has waited for that yet."""
    reader = BackgroundReader(lambda: slow)
    first, second, third, *_ = states_of_run("a")
    reader.read_ahead(first)
    reader.read_ahead(second)
    threading.Timer(0.05, slow.may_read.set).start()
    assert reader.features(third, soon(60_000)) is not None
    assert slow.read[-1] == len(third.rendering)
    assert len(slow.read) <= 2  # whatever waited gave up its place to the latest


def test_what_is_abandoned_is_given_up_and_later_states_are_read(slow: Slow) -> None:
    reader = BackgroundReader(lambda: slow)
    first, second, *_ = states_of_run("a")
    reader.read_ahead(first)
    reader.abandon(20)
    assert reader.in_flight == 0
    slow.may_read.set()
    assert reader.features(second, soon(60_000)) is not None
    assert slow.read == [len(second.rendering)]


def test_stopping_gives_up_and_reads_nothing_more(slow: Slow) -> None:
    reader = BackgroundReader(lambda: slow)
    first, second, *_ = states_of_run("a")
    reader.read_ahead(first)
    reader.read_ahead(second)
    reader.stop(20)
    assert reader.in_flight == 0
    assert not reader.read_ahead(first)
    assert slow.read == []


def test_a_late_reading_serves_the_next_request_of_its_run() -> None:
    """With a real language model: the next request reads only what is new, and gives what a full pass gives."""
    backbone = small_backbone(transformers.LlamaConfig)
    messages = run_messages(9)
    first, second = (state_of(messages[:end], backbone.tokenizer) for end in (16, 18))
    reader = BackgroundReader(FrozenRepresentation(backbone).session)
    with pytest.raises(NotInTime):
        reader.features(first, soon(0))
    assert reader.wait(60)
    with noting() as read:
        found = reader.features(second, soon(60_000))
    new = sum(map(len, read))
    assert 0 < new < len(second.rendering)
    assert np.abs(found.matrix - candidate_features(backbone, second).matrix).max() < 1e-4


def test_a_long_reading_is_given_up_between_two_pieces() -> None:
    backbone = small_backbone(transformers.LlamaConfig)
    state = state_of(run_messages(9), backbone.tokenizer)
    asked = []

    def give_up() -> bool:
        asked.append(True)
        return len(asked) > 1

    sessions = SessionCache(backbone, 1 << 30)
    with pytest.raises(Interrupted):
        sessions.features(state, give_up)
    full = candidate_features(backbone, state)
    assert np.abs(sessions.features(state).matrix - full.matrix).max() < 1e-4


ENDS = """
import json, sys, time
from drsr.policy.scripted import scripted_policy
policy = scripted_policy()
def features(state, give_up=None):
    while not give_up():
        time.sleep(0.01)
    raise InterruptedError
policy.frozen.representation.features = features
print(policy.prune(request=json.load(open(sys.argv[1])), deadline_ms=10).reason)
"""


def test_the_interpreter_ends_while_something_is_read() -> None:
    """Without a message and without waiting for the reading, which would never end."""
    command = [sys.executable, "-c", ENDS, str(samples.REQUEST)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "deadline_exceeded", "")
