"""Self-GC: the index, the plan, what is protected, and when a plan is worth breaking the prompt cache."""

from __future__ import annotations

import json

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.self_gc import SelfGc, index
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.request.history import read_history
from drsr.request.parts import Result
from drsr.request.request import Protocol, Request
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS

COUNTS = TokenCounts(ScriptedTokenizer(), window=2_000)


def planning(**actions: str) -> RecordingSummariser:
    plan = [{"id": name, "action": action} for name, action in actions.items()]
    return RecordingSummariser(lambda ask: f"My plan: {json.dumps(plan)}")


def results(request: Request) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Result)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fold_mask_and_prune(protocol: Protocol) -> None:
    request, method = long_run(protocol, 8), SelfGc(COUNTS)
    before, state = results(request), method.begin()
    found = method.rewrite(request, state, planning(s0_1="fold", s1_1="mask", s2_1="prune", s3_1="prune", t3="prune"))
    left = results(found.request)
    assert left[0] == f"[folded: s0_1, {len(before[0])} characters in the side file s0_1]"
    assert left[1].startswith(before[1][:160])
    assert left[1].endswith(before[1][-160:])
    assert left[2:] == before[4:]
    assert state.side_files == {"s0_1": before[0]}


def test_what_is_committed_stays_and_is_not_planned_again() -> None:
    request, method, state = long_run("openai", 9), SelfGc(COUNTS), SelfGc(COUNTS).begin()
    shorter = request.with_messages(request.messages[:-2])
    method.rewrite(shorter, state, planning(s0_1="fold", s2_1="prune", s3_1="prune", s4_1="prune"))
    summariser = planning()
    found = method.rewrite(request, state, summariser)
    assert results(found.request)[0].startswith("[folded: s0_1")
    assert "[s0_1]" not in summariser.asked[0].material
    assert "[s1_1] tool_span," in summariser.asked[0].material


def test_unknown_ids_actions_and_the_last_turn_are_left_alone() -> None:
    request, method = long_run("openai", 8), SelfGc(COUNTS)
    assert "s7_1" not in index(read_history(request))
    assert {"t0", "s0_1", "s6_1"} <= set(index(read_history(request)))
    found = method.rewrite(request, method.begin(), planning(s7_1="prune", s99_1="fold", s0_1="burn"))
    assert found.request is request


@pytest.mark.parametrize("answer", ["", "no plan", "[{]", "[1, null]", '[{"id": ["s0_1"]}]'])
def test_an_answer_that_is_no_plan_changes_nothing(answer: str) -> None:
    request, method = long_run("openai", 8), SelfGc(COUNTS)
    assert method.rewrite(request, method.begin(), RecordingSummariser(lambda ask: answer)).request is request


def test_a_small_saving_at_the_beginning_is_not_worth_the_cache() -> None:
    """Masking one short text at the start saves a few tokens and would re-write everything behind it."""
    request, method = long_run("openai", 8), SelfGc(COUNTS)
    late = method.rewrite(request, method.begin(), planning(s6_1="prune"))
    early = method.rewrite(request, method.begin(), planning(t0="fold"))
    assert late.request is not request
    assert early.request is request
