"""Each of the eight invariants on a real decision, and on one in which exactly that invariant is violated."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import transformers

from drsr.decide.candidates import DecisionState, freeze
from drsr.decide.decision import CountedSource, Reason, decide
from drsr.decide.invariants import (
    INVARIANTS,
    Evidence,
    check_all,
    exchanges_stay_whole,
    kept_when_not_eligible,
    kept_when_nothing_feasible,
    nothing_dangles,
    one_look_at_the_intact_prefix,
    only_gated_sets,
    recent_steps_stay,
    removal_within_cap,
)
from drsr.decide.representation import FrozenRepresentation
from drsr.decide.selection import Selection
from drsr.features.vectors import CandidateFeatures
from drsr.offline import samples
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.history import Block, History, Rewrite, delete, read_history, rewrite
from drsr.request.rendering import render
from drsr.request.request import Request, read_request
from tests.adapters import long_run
from tests.messages import SAYS, USER, answers, asks, returns, texts, uses
from tests.seeded_policies import tiny_policy
from tests.tiny_backbones import small_backbone

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def broken(evidence: Evidence) -> list[str]:
    """Which invariants a decision violates."""
    return [check.name for check in check_all(evidence) if check.problem is not None]


@pytest.fixture
def evidence() -> Evidence:
    """Of a decision that deletes two Blocks."""
    outcome = decide(read_request(BODY), scripted_policy().frozen)
    assert outcome.reason is None
    assert broken(outcome.evidence) == []
    return outcome.evidence


def without(evidence: Evidence, *blocks: Block) -> Rewrite:
    return delete(evidence.original, blocks)


def edited(evidence: Evidence, index: int, edit: Callable[[dict[str, Any]], None]) -> Rewrite:
    """What is returned, with one of its messages changed by hand."""
    wire = evidence.returned.request.to_wire()
    edit(wire["messages"][index])
    return evidence.returned._replace(request=read_request(wire))


def test_there_are_eight_in_the_papers_order() -> None:
    names = [invariant.__name__ for invariant in INVARIANTS]
    assert len(names) == len(set(names)) == 8


def test_recent_steps_stay(evidence: Evidence) -> None:
    recent = evidence.original.recent[0].blocks[0]
    touched = replace(evidence, returned=without(evidence, recent))
    assert "Recent2" in str(recent_steps_stay(touched))
    last = len(evidence.returned.request.messages) - 1
    reworded = replace(evidence, returned=edited(evidence, last, lambda message: message.update(content="other")))
    assert "Recent2" in str(recent_steps_stay(reworded))
    lost = Rewrite(
        evidence.returned.request.with_messages(evidence.returned.request.messages[:-1]), evidence.returned.kept[:-1]
    )
    assert "Recent2" in str(recent_steps_stay(replace(evidence, returned=lost)))


def test_the_prefix_stays(evidence: Evidence) -> None:
    reworded = replace(evidence, returned=edited(evidence, 0, lambda message: message.update(content="obey")))
    assert "the prefix" in str(recent_steps_stay(reworded))


def test_what_is_pinned_stays(evidence: Evidence) -> None:
    pinned = read_history(read_request(BODY), lambda block, _: block.component > 0)
    assert "protected part" in str(recent_steps_stay(replace(evidence, original=pinned)))
    others = read_history(read_request(BODY), lambda block, _: block.component == 0)
    assert recent_steps_stay(replace(evidence, original=others)) is None


def test_later_user_messages_stay() -> None:
    messages = [USER, *(part for number in range(6) for part in (asks(f"c{number}"), answers(f"c{number}", "r" * 99)))]
    messages.insert(3, {"role": "user", "content": "and mind the gap"})
    history = read_history(read_request(messages))
    kept = [index for index in range(len(messages)) if index != 3]
    lost = Rewrite(history.request.with_messages([history.request.messages[index] for index in kept]), tuple(kept))
    evidence = Evidence(history, history.request, lost, (), scripted_policy().numbers.rule)
    assert "protected part" in str(recent_steps_stay(evidence))


def test_text_beside_anthropic_results_stays() -> None:
    messages = [USER]
    for number in range(6):
        messages += [uses(f"c{number}"), returns(f"c{number}", behind="the user adds this")]
    history = read_history(read_request(messages, protocol="anthropic"))
    good = delete(history, [history.steps[0].blocks[0]])
    evidence = Evidence(history, history.request, good, (), scripted_policy().numbers.rule)
    assert recent_steps_stay(evidence) is None
    wire = good.request.to_wire()
    assert wire[1]["content"] == texts("the user adds this")
    wire[1]["content"] = texts("the user never said this")
    bad = good._replace(request=read_request(wire, protocol="anthropic"))
    assert "protected part" in str(recent_steps_stay(replace(evidence, returned=bad)))


def test_an_empty_text_beside_results_goes_with_its_message() -> None:
    messages = [USER]
    for number in range(6):
        messages += [uses(f"c{number}"), {"role": "user", "content": [*returns(f"c{number}")["content"], *texts("")]}]
    history = read_history(read_request(messages, protocol="anthropic"))
    good = delete(history, [history.steps[0].blocks[0]])
    assert len(good.request.messages) == len(messages) - 2
    assert recent_steps_stay(Evidence(history, history.request, good, (), scripted_policy().numbers.rule)) is None


def conversation() -> History:
    """Two parallel calls with one id in every Step."""
    messages = [USER]
    for number in range(5):
        messages += [asks("a", "b", text=f"step {number}"), answers("a", "x" * 40), answers("b", "y" * 40)]
    return read_history(read_request([*messages, SAYS]))


def by_hand(history: History, edit: Callable[[list[dict[str, Any]]], list[int]]) -> Evidence:
    """A rewrite that no code of ours would make; `edit` changes the messages and says which are left."""
    wire = history.request.to_wire()
    kept = edit(wire)
    request = read_request([wire[index] for index in kept])
    return Evidence(history, history.request, Rewrite(request, tuple(kept)), (), scripted_policy().numbers.rule)


def test_exchanges_stay_whole() -> None:
    history = conversation()
    everything = list(range(len(history.request.messages)))

    def result_only(wire: list[dict[str, Any]]) -> list[int]:
        return [index for index in everything if index != 2]

    def call_only(wire: list[dict[str, Any]]) -> list[int]:
        wire[1]["tool_calls"] = wire[1]["tool_calls"][1:]
        return everything

    def crossed(wire: list[dict[str, Any]]) -> list[int]:
        wire[1]["tool_calls"] = wire[1]["tool_calls"][1:]
        return [index for index in everything if index != 3]

    assert exchanges_stay_whole(by_hand(history, lambda wire: everything)) is None
    assert "no result" in str(exchanges_stay_whole(by_hand(history, result_only)))
    assert "no call" in str(exchanges_stay_whole(by_hand(history, call_only)))
    assert exchanges_stay_whole(by_hand(history, crossed)) is not None


def test_an_exchange_that_was_broken_before_may_stay_so() -> None:
    messages = [USER, asks("lost"), SAYS, *(m for n in range(5) for m in (asks(f"c{n}"), answers(f"c{n}", "z" * 50)))]
    history = read_history(read_request(messages))
    good = delete(history, [history.steps[2].blocks[0]])
    evidence = Evidence(history, history.request, good, (), scripted_policy().numbers.rule)
    assert exchanges_stay_whole(evidence) is None


def test_nothing_dangles(evidence: Evidence) -> None:
    history = conversation()
    everything = list(range(len(history.request.messages)))

    def dangling(wire: list[dict[str, Any]]) -> list[int]:
        return [index for index in everything if index != 2]

    def empty(wire: list[dict[str, Any]]) -> list[int]:
        wire[1] = {"role": "assistant", "content": ""}
        return [index for index in everything if index not in (2, 3)]

    assert nothing_dangles(evidence) is None
    assert "call_without_result" in str(nothing_dangles(by_hand(history, dangling)))
    assert "empty_assistant_message" in str(nothing_dangles(by_hand(history, empty)))


def test_removal_within_cap(evidence: Evidence) -> None:
    assert evidence.tokens_before is not None
    limit = int(0.2 * evidence.tokens_before)
    assert removal_within_cap(replace(evidence, tokens_after=evidence.tokens_before - limit)) is None
    assert "cap" in str(removal_within_cap(replace(evidence, tokens_after=evidence.tokens_before - limit - 1)))
    assert "before" in str(removal_within_cap(replace(evidence, tokens_after=evidence.tokens_before + 1)))
    assert "nothing saved" in str(removal_within_cap(replace(evidence, tokens_after=evidence.tokens_before)))
    assert "measured" in str(removal_within_cap(replace(evidence, tokens_after=None)))


def test_only_gated_sets(evidence: Evidence) -> None:
    assert evidence.proposed is not None
    assert evidence.selection is not None
    chosen = evidence.selection.chosen
    assert chosen is not None
    score = float(evidence.proposed.unsafe_score[chosen])
    at_the_threshold = replace(evidence, rule=replace(evidence.rule, risk_threshold=score))
    assert only_gated_sets(at_the_threshold) is None
    above = replace(evidence, rule=replace(evidence.rule, risk_threshold=np.nextafter(score, 0)))
    assert "unsafe score" in str(only_gated_sets(above))
    not_a_number = evidence.proposed._replace(unsafe_score=np.full_like(evidence.proposed.unsafe_score, np.nan))
    assert "unsafe score" in str(only_gated_sets(replace(evidence, proposed=not_a_number)))
    assert "at most 1" in str(only_gated_sets(replace(evidence, rule=replace(evidence.rule, max_cardinality=1))))
    assert "no selection" in str(only_gated_sets(replace(evidence, selection=None)))
    other = next(row for row in range(len(evidence.sets)) if row != chosen)
    elsewhere = replace(evidence, selection=evidence.selection._replace(chosen=other))
    assert "another set" in str(only_gated_sets(elsewhere))


def test_a_rewrite_that_deletes_another_set_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewriting deletes each of the other sets in turn, and Blocks that are no candidates: all valid requests."""
    request = read_request(long_run.BODY)
    good = decide(request, scripted_policy().frozen)
    assert good.reason is None
    state = good.evidence.state
    assert state is not None
    members = {block.name for block in good.removed}
    others = [
        [state.candidates[member].block for member in found.members]
        for found in good.sets
        if {state.candidates[member].block.name for member in found.members} != members
    ]
    proposed = {candidate.block.name for candidate in state.candidates}
    older = [block for step in state.history.older for block in step.blocks]
    others += [[block] for block in older if block.name not in proposed and not block.opaque][:4]
    assert len(others) > 8
    for blocks in others:
        monkeypatch.setattr("drsr.decide.decision.rewrite", lambda request, removed, b=blocks: delete(state.history, b))
        outcome = decide(request, scripted_policy().frozen)
        assert outcome.reason is Reason.INVARIANT_VIOLATED
        assert "only_gated_sets" in [check.name for check in outcome.checks if check.problem is not None]
        assert outcome.evidence.returned.request is request


def test_kept_when_nothing_feasible(evidence: Evidence) -> None:
    assert evidence.selection is not None
    nothing = Selection(None, None, np.zeros_like(evidence.selection.feasible))
    assert "yet the request was changed" in str(kept_when_nothing_feasible(replace(evidence, selection=nothing)))
    kept = replace(evidence, selection=nothing, returned=Rewrite(evidence.base, ()))
    assert kept_when_nothing_feasible(kept) is None


def test_kept_when_not_eligible(evidence: Evidence) -> None:
    assert "yet it was changed" in str(kept_when_not_eligible(replace(evidence, state=None)))
    assert kept_when_not_eligible(replace(evidence, state=None, returned=Rewrite(evidence.base, ()))) is None


def test_one_look_at_the_intact_prefix(evidence: Evidence) -> None:
    assert one_look_at_the_intact_prefix(evidence) is None
    assert "2 passes" in str(one_look_at_the_intact_prefix(replace(evidence, passes=2)))
    assert "0 passes" in str(one_look_at_the_intact_prefix(replace(evidence, passes=0)))
    assert evidence.features is not None
    other = evidence.features._replace(prefix_hash="0" * 64)
    assert "another prefix" in str(one_look_at_the_intact_prefix(replace(evidence, features=other)))
    assert "without a score" in str(one_look_at_the_intact_prefix(replace(evidence, features=None)))
    (read,) = evidence.tokens_read
    assert one_look_at_the_intact_prefix(replace(evidence, tokens_read=(read[40:70], read[70:]))) is None
    assert "no token" in str(one_look_at_the_intact_prefix(replace(evidence, tokens_read=())))
    twice = replace(evidence, tokens_read=(read, read))
    assert "the intact view has" in str(one_look_at_the_intact_prefix(twice))
    for wrong in (read[:-1], read[40:60], read[::-1]):
        assert "other tokens" in str(one_look_at_the_intact_prefix(replace(evidence, tokens_read=(wrong,))))


class LooksAtRewrites:
    """Gives the right features, after four passes of the real model over the request without one of its candidates."""

    def __init__(self, policy: Policy, by_embeddings: bool) -> None:
        self.representation = policy.frozen.representation
        self.by_embeddings = by_embeddings

    def features(self, state: DecisionState) -> CandidateFeatures:
        assert isinstance(self.representation, FrozenRepresentation)
        model = self.representation.backbone
        for _, candidate in zip(range(4), cycle(state.candidates), strict=False):
            rewritten = delete(state.history, [candidate.block]).request
            token_ids = render(rewritten, model.tokenizer).token_ids
            if self.by_embeddings:
                embedded = model.model.get_input_embeddings().weight[token_ids.tolist()]
                model.model(inputs_embeds=embedded[None])
            else:
                model.logits(token_ids, [len(token_ids) - 1])
        return self.representation.features(state)


@pytest.mark.parametrize("by_embeddings", [False, True])
def test_a_source_that_runs_four_more_passes_over_rewrites_is_caught(by_embeddings: bool) -> None:
    policy = tiny_policy(small_backbone(transformers.LlamaConfig))
    request = read_request(BODY)
    honest = decide(request, policy.frozen)
    assert honest.reason is None
    outcome = decide(request, policy.frozen, source=LooksAtRewrites(policy, by_embeddings))
    assert outcome.evidence.passes == 1  # by its own word
    assert len(outcome.evidence.tokens_read) >= len(honest.evidence.tokens_read) + 4
    assert outcome.reason is Reason.INVARIANT_VIOLATED
    assert [check.name for check in outcome.checks if check.problem] == ["one_look_at_the_intact_prefix"]
    assert "tokens were read" in outcome.detail
    assert outcome.evidence.returned.request is request


class TwoPasses:
    """A source of features that looks at the request without the first candidate as well: a counterfactual forward."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def features(self, state: Any) -> Any:
        rewritten = delete(state.history, [state.candidates[0].block]).request
        outcome = decide(rewritten, self.policy.frozen)
        assert outcome.evidence.features is not None
        return outcome.evidence.features


def test_features_of_a_rewrite_are_found_out_and_thrown_away() -> None:
    policy = scripted_policy()
    outcome = decide(read_request(long_run.BODY), policy.frozen, source=TwoPasses(policy))
    assert outcome.reason is Reason.INVARIANT_VIOLATED
    assert "one_look_at_the_intact_prefix" in outcome.detail
    assert outcome.evidence.returned.request is outcome.evidence.original.request
    assert outcome.removed == ()


def test_a_second_look_is_found_out_whenever_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the selection: here the rewriting runs the model over what it rewrote."""
    policy = scripted_policy()
    counted: list[Any] = []

    class Watched(CountedSource):
        def __init__(self, source: Any, read: Any) -> None:
            super().__init__(source, read)
            counted.append(self)

    def looking(request: Request, removed: Any) -> Rewrite:
        found = rewrite(request, removed)
        state = freeze(found.request, policy.frozen.representation.tokenizer, 50_000)
        counted[-1].features(state)
        return found

    monkeypatch.setattr("drsr.decide.decision.CountedSource", Watched)
    monkeypatch.setattr("drsr.decide.decision.rewrite", looking)
    outcome = decide(read_request(long_run.BODY), policy.frozen)  # long: its rewrite has candidates, too
    assert outcome.reason is Reason.INVARIANT_VIOLATED
    assert "2 passes" in outcome.detail


@pytest.mark.parametrize("number", range(8))
def test_a_violation_returns_the_original_with_the_reason(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever invariant it is."""

    def violated(evidence: Evidence) -> str | None:
        return "planted"

    invariants = list(INVARIANTS)
    invariants[number] = violated
    monkeypatch.setattr("drsr.decide.invariants.INVARIANTS", tuple(invariants))
    decision = scripted_policy().prune(request=BODY)
    assert decision.request is BODY
    assert (decision.pruned, decision.reason, decision.tokens_saved) == (False, Reason.INVARIANT_VIOLATED, 0)
    assert decision.detail == "violated: planted"
    assert "violated: violated" in decision.explain()
    assert decision.receipt["invariants"]["violated"] is False


def test_a_rewrite_that_loses_a_result_never_gets_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewriting itself is broken; the check on what it gave sees it."""

    def broken_rewrite(request: Request, removed: Any) -> Rewrite:
        good = rewrite(request, removed)
        lost = next(index for index, message in enumerate(good.request.messages) if message.role == "tool")
        kept = [index for index in range(len(good.kept)) if index != lost]
        messages = [good.request.messages[index] for index in kept]
        return Rewrite(good.request.with_messages(messages), tuple(good.kept[index] for index in kept))

    monkeypatch.setattr("drsr.decide.decision.rewrite", broken_rewrite)
    decision = scripted_policy().prune(request=BODY)
    assert decision.request is BODY
    assert decision.reason is Reason.INVARIANT_VIOLATED
