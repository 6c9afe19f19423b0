"""SelfCompact: gates, quoted evidence, and the reset."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.selfcompact import RUBRIC, SelfCompact, holds
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.bench.summarisers.summariser import Ask
from drsr.request.request import Protocol, Request, read_request
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS

COUNTS = TokenCounts(ScriptedTokenizer(), window=2_000)


FACTS = ("order_0_a", "order_0_b", "order_0_c", "order_0_d", "order_0_e", "order_0_f")


def verdict(holding: bool = True, evidence: str = "charged twice", facts: Sequence[object] = FACTS[:3]) -> str:
    items = {item: {"holds": holding, "evidence": [evidence]} for item in RUBRIC}
    return json.dumps(items | {"facts_cited": {"holds": holding, "evidence": list(facts)}})


def answering(rubric: str) -> RecordingSummariser:
    return RecordingSummariser(lambda ask: rubric if ask.purpose == "rubric" else "what was done")


def after(request: Request, steps: int) -> Request:
    prefix = 2 if request.protocol == "openai" else 1
    return request.with_messages(request.messages[: prefix + 2 * steps])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reset_to_task_summary_and_continue(protocol: Protocol) -> None:
    request, method, summariser = long_run(protocol, 8), SelfCompact(COUNTS), answering(verdict())
    state = method.begin()
    for steps in (1, 2):
        assert method.rewrite(after(request, steps), state, summariser).request == after(request, steps)
    assert summariser.asked == []
    found = method.rewrite(after(request, 4), state, summariser)
    assert [ask.purpose for ask in summariser.asked] == ["rubric", "summary"]
    assert found.auxiliary_input_tokens == 200
    prefix = len(after(request, 0).messages)
    assert found.request.messages[:prefix] == request.messages[:prefix]
    said = [(message.role, message.wire["content"]) for message in found.request.messages[prefix:]]
    assert said == [("assistant", "what was done"), ("user", "Continue.")]

    later = method.rewrite(after(request, 5), state, summariser)
    assert len(summariser.asked) == 2  # one round since the last probe
    assert later.request.messages[prefix + 2 :] == after(request, 5).messages[-2:]


@pytest.mark.parametrize(
    "said",
    [
        verdict(holding=False),
        verdict(evidence="this was never said"),
        verdict(evidence="  "),
        verdict(facts=FACTS[:2]),
        verdict(facts=FACTS[:6]),
        verdict(facts=[*FACTS[:2], FACTS[0], f" {FACTS[1]}"]),
        verdict(facts=[*FACTS[:3], "this was never said"]),
        verdict(facts=[*FACTS[:3], ""]),
        verdict(facts=[*FACTS[:3], 7]),
        verdict(facts=[]),
        "yes",
        "{not json}",
        json.dumps({"unit_closed": {"holds": True, "evidence": "charged twice"}}),
        json.dumps(dict.fromkeys(RUBRIC, True)),
    ],
)
def test_no_reset_without_evidence_for_every_item(said: str) -> None:
    request, summariser = long_run("openai", 8), answering(said)
    method = SelfCompact(COUNTS)
    found = method.rewrite(request, method.begin(), summariser)
    assert found.request is request
    assert [ask.purpose for ask in summariser.asked] == ["rubric"]
    assert found.auxiliary_input_tokens == 100


@pytest.mark.parametrize("number", [3, 4, 5])
def test_three_to_five_facts_are_quoted(number: int) -> None:
    request, summariser = long_run("openai", 8), answering(verdict(facts=FACTS[:number]))
    method = SelfCompact(COUNTS)
    assert method.rewrite(request, method.begin(), summariser).request is not request


def test_the_probe_says_how_many_quotations_it_wants() -> None:
    summariser = answering(verdict())
    SelfCompact(COUNTS).rewrite(long_run("openai", 8), SelfCompact(COUNTS).begin(), summariser)
    assert "three to five different ones, one per fact, for facts_cited:\n- unit_closed:" in (
        summariser.asked[0].instructions
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_scripted_double_can_say_yes(protocol: Protocol) -> None:
    method, request = SelfCompact(COUNTS), long_run(protocol, 8)
    found = method.rewrite(request, method.begin(), ScriptedSummariser(ScriptedTokenizer()))
    assert found.request is not request


def test_the_doubles_verdict_fits_its_tokens_whatever_it_quotes() -> None:
    """Every digit is a token of its own, and the verdict would be no JSON where it was cut."""
    text = "\n\n".join(str(number) * 200 for number in range(1, 9))
    probe = Ask("rubric", "\n".join(f"- {item}: {meaning}" for item, meaning in RUBRIC.items()), text, 512)
    answer = ScriptedSummariser(ScriptedTokenizer()).complete(probe)
    assert holds(answer.text, text)
    assert 360 < answer.output_tokens < 512


def test_a_verdict_may_stand_in_other_words_and_one_quotation_without_a_list() -> None:
    text = "it was charged twice, so order_0_a, order_0_b and order_0_c"
    assert holds(f"Here is my answer:\n```json\n{verdict()}\n```", text)
    assert holds(verdict().replace('["charged twice"]', '"charged twice"'), text)


def test_what_the_user_has_just_said_is_not_summarised_away() -> None:
    wire = long_run("openai", 6).to_wire()
    wire["messages"].append({"role": "user", "content": "Refund it in euros, please."})
    method = SelfCompact(COUNTS)
    found = method.rewrite(read_request(wire), method.begin(), answering(verdict()))
    assert [message.wire["content"] for message in found.request.messages[-2:]] == [
        "what was done",
        "Refund it in euros, please.",
    ]


def test_below_the_budget_nobody_is_asked() -> None:
    summariser = RecordingSummariser(lambda ask: verdict())
    method = SelfCompact(TokenCounts(ScriptedTokenizer()))
    request = long_run("openai", 20)
    assert method.rewrite(request, method.begin(), summariser).request is request
    assert summariser.asked == list[Ask]()
