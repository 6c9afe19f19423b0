"""What must hold of every comparator, whatever the request: it keeps what it claims, changes nothing it was handed,
and does the same twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline import samples
from drsr.offline.bench.comparators.contract import Comparator, Keep
from drsr.offline.bench.comparators.lre import LreModel
from drsr.offline.bench.comparators.registry import comparators
from drsr.offline.bench.comparators.tool_turns import TOOL_TURNS
from drsr.offline.bench.replay.checked import Checked, CountedSummariser, added_violations, checked_rewrite
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import render
from drsr.request.request import Protocol, Request, read_request
from tests.offline.bench.long_run import long_run
from tests.strategies import PROTOCOLS, aborted, arbitrary, eligible
from tests.trajectory_files import recorded_runs

TOKENIZER = ScriptedTokenizer()
SMALL_WINDOW = 2_000
"""Small enough for every budget to be exceeded by the requests of these tests."""
LRE = LreModel(
    (0.5, 60, 5, 10, 0.1, 0.1, 0.5, 3, 0.2, 0.5),
    (1.0,) * 10,
    (0.1, 0.0, 0.2, 0.0, 0.3, 0, 0.4, 0, 0, 1),
    -1.0,
    1,
    9,
    0.5,
)
"""Made up: what it was trained on does not matter to what it keeps."""
REGISTRY = comparators(TOKENIZER, window=SMALL_WINDOW, lre=LRE, policy=scripted_policy())
ALL = REGISTRY.available
BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def decisions(request: Request) -> list[Request]:
    """The requests before each assistant message behind the prefix, and the whole."""
    ends = [index for index, message in enumerate(request.messages) if message.role == "assistant"]
    return [request.with_messages(request.messages[:end]) for end in [*ends, len(request.messages)]]


def run(comparator: Comparator, requests: list[Request]) -> list[Checked]:
    """One trajectory, decision by decision."""
    state = comparator.begin()
    summariser = CountedSummariser(ScriptedSummariser(TOKENIZER))
    found = [checked_rewrite(comparator, request, state, summariser) for request in requests]
    counted = [(one.rewrite.auxiliary_input_tokens, one.rewrite.auxiliary_output_tokens) for one in found]
    # What counts beyond the summariser's tokens are the agent's own turns with tools: see test_tool_turns.py.
    turns_read = sum(read for read, _ in counted) - summariser.input_tokens
    turns_written = sum(written for _, written in counted) - summariser.output_tokens
    assert min(turns_read, turns_written) >= 0, f"{comparator.name} does not count all it asks"
    assert (turns_read > 0) == (turns_written > 0)
    assert turns_read == 0 or TOOL_TURNS in comparator.assumptions, f"{comparator.name} counts more than it asks"
    return found


def check(comparator: Comparator, requests: list[Request]) -> list[Checked]:
    """Run it twice over one trajectory; everything that must hold is asserted."""
    before = [json.dumps(request.to_wire()) for request in requests]
    first, second = run(comparator, requests), run(comparator, requests)
    assert [json.dumps(request.to_wire()) for request in requests] == before, f"{comparator.name} changed its input"
    for request, one, other in zip(requests, first, second, strict=True):
        assert one[:-1] == other[:-1], f"{comparator.name} is not deterministic"  # but for its time
        assert one.failure is None or Keep.PAIRS not in comparator.keeps, f"{comparator.name}: {one.failure}"
        broken = one.lost & comparator.keeps
        assert not broken, f"{comparator.name} lost {broken}"
        assert read_request(one.request.to_wire(), protocol=request.protocol) == one.request
        asked = one.rewrite.auxiliary_input_tokens
        assert (asked > 0) >= (one.rewrite.auxiliary_output_tokens > 0)
        if one.fell_back:
            assert one.request is request
    return first


def test_names_are_unique_and_rows_speak_for_themselves() -> None:
    assert not set(ALL) & set(REGISTRY.not_available)
    for name, comparator in ALL.items():
        assert comparator.name == name
        assert comparator.title
        assert name == "baseline" or comparator.assumptions
        assert all(sentence.endswith(".") for sentence in comparator.assumptions)
    assert set(REGISTRY.not_available) <= {"openhands_condenser"}  # which needs Python 3.12


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


@settings(max_examples=25)
@given(arbitrary)
def test_requests_that_are_broken_already_are_rewritten_or_fall_back(request: Request) -> None:
    """Whatever comes in, nothing worse goes out, and nothing is raised."""
    before = json.dumps(request.to_wire())
    for comparator in ALL.values():
        found = run(comparator, [request])[0]
        assert not added_violations(request, found.request), comparator.name
        assert json.dumps(request.to_wire()) == before, comparator.name


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("comparator", ALL.values(), ids=ALL)
def test_every_comparator_does_something_to_a_long_run(comparator: Comparator, protocol: Protocol) -> None:
    requests = decisions(long_run(protocol))[::2]
    found = check(comparator, requests)
    assert not any(one.fell_back for one in found) or Keep.PAIRS not in comparator.keeps
    made = [one.rewrite.request for one in found]  # also where it is not valid, and so not sent
    changed = any(after != before for after, before in zip(made, requests, strict=True))
    # The Agents SDK's trimmer counts turns by the user's messages, and here is one: see test_peers.py.
    assert changed == (comparator.name not in ("baseline", "openai_agents_trimmer"))
    # Who says that nobody is asked has rows that do not depend on who writes summaries.
    assert comparator.asks == any(one.rewrite.auxiliary_input_tokens for one in found)
    lengths = [
        (len(render(after, TOKENIZER)), len(render(before, TOKENIZER)))
        for after, before in zip(made, requests, strict=True)
    ]
    assert any(after < before for after, before in lengths) == changed


RUNS = {protocol: [run for run in recorded_runs() if run.protocol == protocol] for protocol in PROTOCOLS}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_recorded_runs(protocol: Protocol) -> None:
    """The longest run, one of the middle, and a few decisions of each."""
    ranked = sorted(RUNS[protocol], key=lambda recorded: len(recorded.messages))
    for recorded in (ranked[-1], ranked[len(ranked) // 2]):
        request = read_request(recorded.messages, protocol=protocol)
        for comparator in ALL.values():
            check(comparator, decisions(request)[::5])


def test_claims_are_measured() -> None:
    """A comparator that drops the task and orphans a result is found out."""

    class CarelessComparator:
        """A double."""

        name = "careless"
        title = "Careless"
        assumptions = ()
        trained = "no"
        asks = False
        keeps = frozenset(Keep)

        def begin(self) -> None:
            return None

        def rewrite(self, request: Request, state: None, summariser: Any) -> Any:
            from drsr.offline.bench.comparators.contract import Rewrite

            return Rewrite(request.with_messages(request.messages[-1:]))

    request = read_request(BODY)
    assert request.messages[-1].role == "tool"
    found = checked_rewrite(CarelessComparator(), request, None, ScriptedSummariser(TOKENIZER))  # type: ignore[arg-type]
    assert found.fell_back
    assert found.request is request
    assert [violation.kind for violation in found.violations] == ["result_without_call"]
    assert found.lost >= {Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2}
