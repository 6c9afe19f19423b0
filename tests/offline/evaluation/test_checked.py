"""The check behind every comparator: failures, and what is told apart as lost."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.errors import SummariserFailed
from drsr.offline.evaluation.checked import added_violations, checked_rewrite, lost_by
from drsr.offline.evaluation.comparators.contract import Keep
from drsr.offline.evaluation.comparators.edits import with_section, with_texts
from drsr.offline.evaluation.comparators.periodic_summary import PeriodicSummary
from drsr.offline.evaluation.summariser import Ask
from drsr.parts import PartRef
from drsr.protocol import ViolationKind
from drsr.request import Protocol, Request, read_request
from tests.messages import SAYS, USER, answers, asks, returns, uses
from tests.offline.evaluation.long_run import long_run
from tests.offline.evaluation.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS


def read(*messages: dict[str, Any]) -> Request:
    return read_request(list(messages))


def lost(before: Request, after: Request) -> set[Keep]:
    return set(lost_by(before, after, added_violations(before, after)))


def test_a_summariser_that_fails_leaves_the_request_and_what_was_paid() -> None:
    """The second of two questions fails: the first is counted, and the request goes out as it came."""

    def answer(ask: Ask) -> str:
        if len(summariser.asked) == 2:
            raise SummariserFailed("status 500")
        return "in short"

    summariser, method, request = RecordingSummariser(answer), PeriodicSummary(3), long_run("openai", 9)
    found = checked_rewrite(method, request, method.begin(), summariser)
    assert found.fell_back
    assert found.request is request
    assert found.failure == "SummariserFailed: status 500"
    assert (found.rewrite.auxiliary_input_tokens, found.rewrite.auxiliary_output_tokens) == (100, 10)


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
    class Eraser(PeriodicSummary):
        def rewrite(self, request: Request, state: Any, summariser: Any) -> Any:
            return super().rewrite(request, state, summariser)._replace(request=request.with_messages([]))

    method = Eraser(3)
    request = read(USER, asks("a"), answers("a"))
    found = checked_rewrite(method, request, method.begin(), RecordingSummariser())
    assert found.failure == "nothing of the conversation is left"
    assert found.request is request
