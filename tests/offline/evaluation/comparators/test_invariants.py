"""What must hold of every comparator, whatever the request: it keeps what it claims, changes nothing it was handed,
and does the same twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline import samples
from drsr.offline.evaluation.checked import Checked, checked_rewrite
from drsr.offline.evaluation.comparators.contract import Comparator, Keep
from drsr.offline.evaluation.comparators.registry import comparators, not_available
from drsr.offline.evaluation.scripted_summariser import ScriptedSummariser
from drsr.request import Request, read_request
from tests.strategies import aborted, eligible
from tests.trajectory_files import recorded_runs

TOKENIZER = ScriptedTokenizer()
SMALL_WINDOW = 2_000
"""Small enough for every budget to be exceeded by the requests of these tests."""
ALL = comparators(TOKENIZER, window=SMALL_WINDOW)
BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def decisions(request: Request) -> list[Request]:
    """The requests before each assistant message behind the prefix, and the whole."""
    ends = [index for index, message in enumerate(request.messages) if message.role == "assistant"]
    return [request.with_messages(request.messages[:end]) for end in [*ends, len(request.messages)]]


def run(comparator: Comparator, requests: list[Request]) -> list[Checked]:
    """One trajectory, decision by decision."""
    state = comparator.begin()
    summariser = ScriptedSummariser(TOKENIZER)
    return [checked_rewrite(comparator, request, state, summariser) for request in requests]


def check(comparator: Comparator, requests: list[Request]) -> list[Checked]:
    """Run it twice over one trajectory; everything that must hold is asserted."""
    before = [json.dumps(request.to_wire()) for request in requests]
    first, second = run(comparator, requests), run(comparator, requests)
    assert [json.dumps(request.to_wire()) for request in requests] == before, f"{comparator.name} changed its input"
    for request, one, other in zip(requests, first, second, strict=True):
        assert one == other, f"{comparator.name} is not deterministic"
        assert one.failure is None, f"{comparator.name}: {one.failure}"
        assert not one.broken_claims(comparator), f"{comparator.name} lost {one.broken_claims(comparator)}"
        assert read_request(one.request.to_wire(), protocol=request.protocol) == one.request
        asked = one.rewrite.auxiliary_input_tokens
        assert (asked > 0) >= (one.rewrite.auxiliary_output_tokens > 0)
        if one.fell_back:
            assert one.request is request
    return first


def test_names_are_unique_and_rows_speak_for_themselves() -> None:
    assert not set(ALL) & set(not_available())
    for name, comparator in ALL.items():
        assert comparator.name == name
        assert comparator.title
        assert name == "baseline" or comparator.assumptions
        assert all(sentence.endswith(".") for sentence in comparator.assumptions)
    assert all(row.reason for row in not_available().values())


@pytest.mark.parametrize("comparator", ALL.values(), ids=ALL)
def test_bundled_request(comparator: Comparator) -> None:
    check(comparator, decisions(read_request(BODY)))


@settings(max_examples=30)
@given(eligible)
def test_generated_requests_of_both_protocols(request: Request) -> None:
    for comparator in ALL.values():
        check(comparator, [request])


@settings(max_examples=10)
@given(aborted)
def test_calls_that_were_never_answered(request: Request) -> None:
    for comparator in ALL.values():
        check(comparator, decisions(request)[-3:])


RUNS = [run for run in recorded_runs() if len(run.messages) > 24]


@pytest.mark.parametrize("number", range(4))
def test_recorded_runs(number: int) -> None:
    """Of runs of some length one early, one late and one of each quarter."""
    recorded = RUNS[number * (len(RUNS) - 1) // 3]
    request = read_request(recorded.messages, protocol=recorded.protocol)
    changed = set()
    for comparator in ALL.values():
        found = check(comparator, decisions(request)[::4])
        changed |= {comparator.name} if any(one.request not in decisions(request) for one in found) else set()
    assert "sliding_window_5" in changed


def test_claims_are_measured() -> None:
    """A comparator that drops the task and orphans a result is found out."""

    class Careless:
        name = "careless"
        title = "Careless"
        assumptions = ()
        trained = "no"
        keeps = frozenset(Keep)

        def begin(self) -> None:
            return None

        def rewrite(self, request: Request, state: None, summariser: Any) -> Any:
            from drsr.offline.evaluation.comparators.contract import Rewrite

            return Rewrite(request.with_messages(request.messages[-1:]))

    request = read_request(BODY)
    assert request.messages[-1].role == "tool"
    found = checked_rewrite(Careless(), request, None, ScriptedSummariser(TOKENIZER))  # type: ignore[arg-type]
    assert found.fell_back
    assert found.request is request
    assert [violation.kind for violation in found.violations] == ["result_without_call"]
    assert found.lost >= {Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2}
