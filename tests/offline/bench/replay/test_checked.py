"""The check behind every comparator: failures, and what is told apart as lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drsr.errors import AlignmentError, SummariserFailed, SummariserRefused
from drsr.offline.bench.comparators.contract import Keep
from drsr.offline.bench.comparators.edits import with_section, with_texts
from drsr.offline.bench.comparators.periodic_summary import PeriodicSummary
from drsr.offline.bench.replay import checked
from drsr.offline.bench.replay.checked import added_violations, checked_rewrite, lost_by
from drsr.offline.bench.summarisers.summariser import Ask
from drsr.request.parts import PartRef
from drsr.request.protocol import Violation, ViolationKind
from drsr.request.request import Protocol, Request, read_request
from tests.messages import SAYS, USER, answers, asks, returns, uses
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS


def read(*messages: dict[str, Any]) -> Request:
    return read_request(list(messages))


def lost(before: Request, after: Request) -> set[Keep]:
    return set(lost_by(before, after, added_violations(before, after)))


def failing_at_the_second(error: Exception) -> RecordingSummariser:
    """The double answers once."""

    def answer(ask: Ask) -> str:
        if len(summariser.asked) == 2:
            raise error
        return "in short"

    summariser = RecordingSummariser(answer)
    return summariser


def test_a_question_that_is_refused_leaves_the_request_and_what_was_paid() -> None:
    """The second of two questions: the first is counted, and the request goes out as it came."""
    method, request = PeriodicSummary(3), long_run("openai", 9)
    summariser = failing_at_the_second(SummariserRefused("the summariser refused the question: status 400"))
    found = checked_rewrite(method, request, method.begin(), summariser)
    assert found.fell_back
    assert found.request is request
    assert found.failure == found.reason == "the summariser refused the question: status 400"
    assert (found.rewrite.auxiliary_input_tokens, found.rewrite.auxiliary_output_tokens) == (100, 10)


def test_a_summariser_out_of_reach_is_no_fault_of_the_method() -> None:
    """Whoever runs the evaluation stops, so that no row says that the method fell back."""
    method = PeriodicSummary(3)
    summariser = failing_at_the_second(SummariserFailed("status 401"))
    with pytest.raises(SummariserFailed):
        checked_rewrite(method, long_run("openai", 9), method.begin(), summariser)


def test_a_reason_quotes_nothing_of_the_request() -> None:
    """Errors of ours may name a text that they stumbled over: of these only the kind is kept."""
    method, request = PeriodicSummary(3), long_run("openai", 9)
    summariser = failing_at_the_second(AlignmentError("cannot be tokenized: my password is 1234"))
    assert checked_rewrite(method, request, method.begin(), summariser).reason == "AlignmentError"


def test_a_fault_of_ours_is_not_hidden() -> None:
    """Only errors that are raised on purpose become a fall-back."""

    def answer(ask: Ask) -> str:
        raise ZeroDivisionError

    method = PeriodicSummary(3)
    with pytest.raises(ZeroDivisionError):
        checked_rewrite(method, long_run("openai", 9), method.begin(), RecordingSummariser(answer))


def test_violations_that_the_request_had_are_not_counted_again() -> None:
    """Messages move, so a violation is known by its kind and id; one more of the same is new."""
    before = read(USER, asks("a"), SAYS, SAYS)
    assert added_violations(before, read(USER, asks("a"), SAYS)) == ()
    assert added_violations(before, read(USER, SAYS)) == ()
    twice = added_violations(before, read(USER, asks("a"), asks("a"), SAYS))
    assert [violation.kind for violation in twice] == [ViolationKind.CALL_WITHOUT_RESULT]
    other = added_violations(before, read(USER, asks("b"), SAYS))
    assert [violation.detail for violation in other] == ["b"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_lost(protocol: Protocol) -> None:
    request = long_run(protocol, 5)
    prefix = 2 if protocol == "openai" else 1
    messages = request.messages
    assert lost(request, request.with_messages(list(messages))) == set()
    assert lost(request, with_section(request, prefix, "Notes", "more")) == {Keep.PREFIX}
    assert lost(request, request.with_messages(messages[prefix:])) >= {Keep.PREFIX, Keep.TASK}
    assert lost(request, request.with_messages(messages[:-2])) == {Keep.RECENT2}
    assert lost(request, request.with_messages([*messages[:prefix], *messages[prefix + 2 :]])) == set()
    assert lost(request, request.with_messages([*messages[:prefix], *messages[prefix + 1 :]])) == {Keep.PAIRS}


def test_what_the_user_said_later() -> None:
    later = {"role": "user", "content": "in euros"}
    request = read(USER, SAYS, later, SAYS, SAYS)
    assert lost(request, read(USER, SAYS, SAYS, SAYS)) == {Keep.USER}
    assert lost(request, read(USER, later, SAYS, SAYS)) == set()


def test_results_are_not_words_of_the_user() -> None:
    """Anthropic's user carries them: shortening a result loses nothing that the user said."""
    request = read(
        USER, uses("a"), returns("a", content="long", behind="go on"), uses("b"), returns("b"), uses("c"), returns("c")
    )
    shorter = with_texts(request, {PartRef(2, 0): "s"})
    assert lost(request, shorter) == set()
    assert shorter.messages[2].wire == returns("a", content="s", behind="go on")


def test_nothing_left_is_a_failure_and_not_valid() -> None:
    class ErasingComparator(PeriodicSummary):
        """A double that leaves nothing."""

        def rewrite(self, request: Request, state: Any, summariser: Any) -> Any:
            return super().rewrite(request, state, summariser)._replace(request=request.with_messages([]))

    method = ErasingComparator(3)
    request = read(USER, asks("a"), answers("a"))
    found = checked_rewrite(method, request, method.begin(), RecordingSummariser())
    assert found.failure == "nothing of the conversation is left"
    assert found.request is request


def test_the_time_is_the_methods_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its model calls, also of one that fails; not of this check. By a clock that goes on only where it is told."""
    now = 0.0

    def answer(ask: Ask) -> str:
        nonlocal now
        now += 2
        if len(summariser.asked) == 3:
            raise SummariserRefused("no")
        return "in short"

    def slow_check(before: Request, after: Request) -> tuple[Violation, ...]:
        nonlocal now
        now += 100
        return ()

    monkeypatch.setattr(checked, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(checked, "added_violations", slow_check)
    summariser, method = RecordingSummariser(answer), PeriodicSummary(3)
    made = checked_rewrite(method, long_run("openai", 9), method.begin(), summariser)
    failed = checked_rewrite(method, long_run("openai", 9), method.begin(), summariser)
    assert (made.fell_back, made.seconds) == (False, 4)
    assert (failed.fell_back, failed.seconds) == (True, 2)
    assert now == 106
