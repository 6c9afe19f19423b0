"""LLMLingua-2, SWE-Pruner, Sculptor and observation masking: what is left of a tool output."""

from __future__ import annotations

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.llmlingua2 import LlmLingua2, compressible, surprisal
from drsr.offline.bench.comparators.observation_masking import ObservationMasking
from drsr.offline.bench.comparators.sculptor import Sculptor
from drsr.offline.bench.comparators.swe_pruner import SwePruner, skim
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.request.history import read_history
from drsr.request.parts import PartRef, Result
from drsr.request.request import Protocol, Request, read_request
from tests.messages import USER, answers, asks
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS

COUNTS = TokenCounts(ScriptedTokenizer(), window=2_000)
LOG = "\n".join(["start of it"] + [f"row {number} is dull" for number in range(20)] + ["the invoice is here", "end"])


def results(request: Request) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Result)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_llmlingua_drops_words_in_order_and_keeps_digits(protocol: Protocol) -> None:
    request = long_run(protocol, 10)
    found = LlmLingua2(COUNTS).rewrite(request, None, RecordingSummariser()).request
    before, after = compressible(read_history(request)), compressible(read_history(found))
    assert before.keys() == after.keys()
    assert before != after
    for ref, text in before.items():
        words = iter(text.split())
        assert all(word in words for word in after[ref].split())  # a subsequence
        digits = [word for word in text.split() if any(map(str.isdigit, word))]
        assert [word for word in after[ref].split() if any(map(str.isdigit, word))] == digits
    assert results(found)[-2:] == results(request)[-2:]


def test_llmlingua_leaves_short_requests() -> None:
    request = long_run("openai", 10)
    assert LlmLingua2(TokenCounts(ScriptedTokenizer())).rewrite(request, None, RecordingSummariser()).request is request


def test_a_words_score_is_the_mean_of_its_pieces() -> None:
    rare, common = surprisal(COUNTS.ids(["seldom", "the", "the", "the"]))[:2]
    assert sum(rare) / len(rare) > sum(common) / len(common)


def test_skimming_marks_what_it_omits() -> None:
    shorter = skim(LOG, "Where is the invoice?")
    assert shorter.splitlines()[0] == "start of it"
    assert shorter.splitlines()[-1] == "end"
    assert "the invoice is here" in shorter
    assert "lines omitted]" in shorter
    omitted = sum(int(line[1:].split()[0]) for line in shorter.splitlines() if line.endswith("lines omitted]"))
    assert len(shorter.splitlines()) - shorter.count("omitted]") + omitted == len(LOG.splitlines())


def test_no_goal_no_change() -> None:
    assert skim(LOG, "") == LOG
    assert skim(LOG, "zebra") == LOG
    assert skim("one\ntwo", "one") == "one\ntwo"
    request = read_request([USER, asks("a"), answers("a", LOG)])
    assert SwePruner().rewrite(request, None, RecordingSummariser()).request is request


def test_the_goal_is_the_calls_own_question_or_what_is_said_beside_it() -> None:
    asked = asks("a", text="weather", arguments='{"context_focus_question": "Where is the invoice?"}')
    by_argument = SwePruner().rewrite(read_request([USER, asked, answers("a", LOG)]), None, RecordingSummariser())
    spoken = asks("a", text="Where is the invoice?")
    by_text = SwePruner().rewrite(read_request([USER, spoken, answers("a", LOG)]), None, RecordingSummariser())
    assert results(by_argument.request) == results(by_text.request) == [skim(LOG, "Where is the invoice?")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sculptor_changes_no_message_in_number_or_order_and_can_take_everything_back(protocol: Protocol) -> None:
    request, method = long_run(protocol, 12), Sculptor(TokenCounts(ScriptedTokenizer()))
    state = method.begin()
    found = method.rewrite(request, state, RecordingSummariser()).request
    assert [message.role for message in found.messages] == [message.role for message in request.messages]
    assert state.fragments
    for ref, pieces in state.fragments.items():
        assert "".join(one.text for one in pieces) == request.messages[ref.message].parts[ref.part].text  # type: ignore[union-attr]
        for one in pieces:
            state.restore(one)
    assert state.written() == {}


def test_sculptor_restores_what_the_newest_turn_names() -> None:
    """The newest call asks for an order of turn 5, whose list is folded from its second fragment on."""
    method = Sculptor(TokenCounts(ScriptedTokenizer()))
    request = long_run("openai", 12)
    named = request.to_wire()
    named["messages"][-2]["tool_calls"][0]["function"]["arguments"] = '{"order": "order_5_h"}'
    state = method.begin()
    method.rewrite(read_request(named), state, RecordingSummariser())
    one = state.fragments[PartRef(13, 0)]
    named_again = [piece for piece in one if "order_5_h" in piece.text]
    assert named_again
    assert [piece for piece in one[1:] if piece.state == "shown"] == named_again


def test_sculptor_summarises_under_pressure() -> None:
    request, method, summariser = long_run("openai", 12), Sculptor(COUNTS), RecordingSummariser()
    found = method.rewrite(request, method.begin(), summariser)
    assert summariser.asked
    assert "[fragment 3_0_0: in short]" in results(found.request)[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_masking_keeps_the_last_outputs(protocol: Protocol) -> None:
    request = long_run(protocol, 7)
    found = ObservationMasking(3).rewrite(request, None, RecordingSummariser()).request
    assert results(found) == ["[Old tool output: 14 lines omitted.]"] * 4 + results(request)[-3:]
    assert ObservationMasking(7).rewrite(request, None, RecordingSummariser()).request is request
