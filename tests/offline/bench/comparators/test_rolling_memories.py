"""Methods that replace older Steps by what a summariser wrote: when they ask, what they show it, where its words go."""

from __future__ import annotations

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SummariserRefused
from drsr.offline.bench.comparators.acm import Acm
from drsr.offline.bench.comparators.acon_core import HISTORY_TOKENS, AconCore
from drsr.offline.bench.comparators.comem import CoMem
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.periodic_summary import PeriodicSummary
from drsr.offline.bench.comparators.sam import Sam
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.comparators.transcript import conversation
from drsr.offline.bench.replay.checked import checked_rewrite
from drsr.offline.bench.summarisers.summariser import Ask
from drsr.request.parts import Result, Text
from drsr.request.request import Protocol, Request, read_request
from tests.conversations import Conversation, Exchange, Turn
from tests.offline.bench.long_run import TASK, long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS

COUNTS = TokenCounts(ScriptedTokenizer(), window=4_000)


def task_message(request: Request) -> str:
    message = next(message for message in request.messages if message.role == "user")
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def ending_at(request: Request, steps: int) -> Request:
    """The request after so many Steps; each is two messages here."""
    prefix = 2 if request.protocol == "openai" else 1
    return request.with_messages(request.messages[: prefix + 2 * steps])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_periodic_summary_rolls_on_every_n_steps(protocol: Protocol) -> None:
    request, method, summariser = long_run(protocol, 12), PeriodicSummary(3), RecordingSummariser()
    state = method.begin()
    assert method.rewrite(ending_at(request, 4), state, summariser).request == ending_at(request, 4)
    found = method.rewrite(ending_at(request, 5), state, summariser)
    assert len(summariser.asked) == 1
    assert "order_2_a" in summariser.asked[0].material
    assert "order_3_a" not in summariser.asked[0].material
    assert task_message(found.request) == f"{TASK}\n\n## Previous context\n\nin short"
    assert found.request.messages[-4:] == ending_at(request, 5).messages[-4:]
    assert len(found.request.messages) == len(ending_at(request, 2).messages)
    assert (found.auxiliary_input_tokens, found.auxiliary_output_tokens) == (100, 10)

    again = method.rewrite(ending_at(request, 6), state, summariser)
    assert len(summariser.asked) == 1
    assert again.auxiliary_input_tokens == 0
    method.rewrite(request, state, summariser)
    assert len(summariser.asked) == 3
    assert "Notes so far:\nin short" in summariser.asked[-1].material


def test_a_jump_asks_as_often_as_every_decision_would() -> None:
    request, method = long_run("openai", 20), PeriodicSummary(5)
    slow, quick = RecordingSummariser(), RecordingSummariser()
    state = method.begin()
    for steps in range(1, 21):
        one_by_one = method.rewrite(ending_at(request, steps), state, slow)
    at_once = method.rewrite(request, method.begin(), quick)
    assert slow.asked == quick.asked
    assert one_by_one.request == at_once.request


def test_comem_reads_all_older_steps_anew_every_four() -> None:
    request, method, summariser = long_run("openai", 12), CoMem(), RecordingSummariser()
    state = method.begin()
    assert method.rewrite(ending_at(request, 5), state, summariser).request == ending_at(request, 5)
    found = method.rewrite(ending_at(request, 6), state, summariser)
    assert "## Memory\n\nin short" in task_message(found.request)
    method.rewrite(ending_at(request, 10), state, summariser)
    assert len(summariser.asked) == 2
    assert "order_0_a" in summariser.asked[1].material
    assert "order_7_a" in summariser.asked[1].material
    assert "order_8_a" not in summariser.asked[1].material


def test_acon_keeps_the_last_action_and_rewrites_long_observations_once() -> None:
    request, method, summariser = long_run("openai", 20), AconCore(COUNTS), RecordingSummariser()
    wire = request.to_wire()
    wire["messages"][3]["content"] = "a very long log line 17 here\n" * 400
    long = read_request(wire)
    state = method.begin()
    found = method.rewrite(ending_at(long, 2), state, summariser)
    results = [p.text for m in found.request.messages for p in m.parts if isinstance(p, Result)]
    assert results[0] == "in short"
    assert found.auxiliary_input_tokens == 100
    assert method.rewrite(ending_at(long, 2), state, summariser).auxiliary_input_tokens == 0

    found = method.rewrite(long, state, summariser)
    assert found.auxiliary_input_tokens == 100
    assert "History so far:\n(none)" in summariser.asked[-1].material
    assert sum(COUNTS.messages(long)[4:-2]) > HISTORY_TOKENS
    assert found.request.messages[2:] == long.messages[-2:]
    assert "## History so far\n\nin short" in task_message(found.request)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sam_cuts_the_past_into_pages_and_recalls_what_is_named_again(protocol: Protocol) -> None:
    request, method, summariser = long_run(protocol, 15), Sam(COUNTS), RecordingSummariser()
    state = method.begin()
    steps = next(n for n in range(1, 15) if COUNTS.request(ending_at(request, n)) > 2_000)
    found = method.rewrite(ending_at(request, steps), state, summariser)
    assert len(state.pages) > 1
    assert len(found.request.messages) == (2 if protocol == "openai" else 1)
    assert all(COUNTS.text(page.text) <= COUNTS.share(30_000) for page in state.pages)
    assert "".join(page.text for page in state.pages).count("charged twice") == steps
    assert task_message(found.request).count("Page ") == len(state.pages)

    # The fifth Step of every five asks for an order of three Steps before, which by then is in a page.
    for number in range(steps + 1, 16):
        rewrite = method.rewrite(ending_at(request, number), state, summariser)
    assert "Recalled: in short" in task_message(rewrite.request)
    asked = [ask for ask in summariser.asked if ask.purpose == "recall"]
    assert asked
    assert all("Intent:" in ask.material for ask in asked)


def test_sam_stores_no_page_twice_where_a_cue_is_refused() -> None:
    """The second of several cues is refused once: that decision goes out as it came, the next one pages the rest."""
    request, method = ending_at(long_run("openai", 15), 13), Sam(COUNTS)
    refused: list[Ask] = []

    def refusing_once(ask: Ask) -> str:
        if len(refusing.asked) == 2:
            refused.append(ask)
            raise SummariserRefused("not this one")
        return "in short"

    refusing, state = RecordingSummariser(refusing_once), method.begin()
    first = checked_rewrite(method, request, state, refusing)
    assert (first.request, first.failure) == (request, "not this one")
    assert len(refused) == 1
    assert first.rewrite.auxiliary_input_tokens == 100  # the first cue was paid for
    (page,) = state.pages
    assert "order_0_d" in page.text

    second = checked_rewrite(method, request, state, refusing)
    untroubled = method.begin()
    assert second.request == method.rewrite(request, untroubled, RecordingSummariser()).request
    assert len(state.pages) > 2
    assert (state.pages, state.until) == (untroubled.pages, untroubled.until)
    cues = [ask.material for ask in refusing.asked if ask.purpose == "summary"]
    assert cues.count(page.text) == 1, "nothing is paid twice"


def test_acm_archives_all_since_the_previous_summary() -> None:
    request, method, summariser = long_run("openai", 16), Acm(COUNTS), RecordingSummariser()
    state = method.begin()
    for number in range(1, 17):
        found = method.rewrite(ending_at(request, number), state, summariser)
    assert len(state.pages) > 1
    archived = "\n\n".join(entry.text for entry in state.pages)
    assert all(archived.count(f"order_{number}_d") == 1 for number in range(8))
    assert task_message(found.request).count("Summary ") == len(state.pages)
    assert [ask.purpose for ask in summariser.asked].count("summary") == len(state.pages)


@pytest.mark.parametrize("method", [Sam(COUNTS), Acm(COUNTS)], ids=["sam", "acm"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("where", ["nowhere", "step", "system"])
def test_what_stands_in_the_visible_context_is_not_read_again(
    method: Comparator, protocol: Protocol, where: str
) -> None:
    """The newest turn names an order of the first page. It is read again only where nothing visible names it too: no
    Step behind the pages, and no system prompt."""
    body = {"openai": Conversation.to_openai, "anthropic": Conversation.to_anthropic}[protocol]
    turns = [
        Turn("", "", (Exchange(f"c{number}", "look", {"order": f"order_{number}"}, f"paid_{number} " * 90),), "")
        for number in range(12)
    ]
    system = "You work for a shop." + (" The first is order_0." if where == "system" else "")
    summariser, state = RecordingSummariser(), method.begin()
    past = Conversation(system, "Do it.", tuple(turns))
    method.rewrite(read_request(body(past), protocol=protocol), state, summariser)
    asked = len(summariser.asked)
    assert asked > 0  # the past was put away
    said = "I come back to order_0." if where == "step" else "I go on."
    shown = Turn("", said, (Exchange("d", "look", {}, "ok"),), "")
    names = Turn("", "", (Exchange("e", "look", {"order": "order_0"}, "ok"),), "")
    whole = Conversation(system, "Do it.", (*turns, shown, names))
    found = method.rewrite(read_request(body(whole), protocol=protocol), state, summariser)
    recalls = [ask for ask in summariser.asked[asked:] if ask.purpose == "recall"]
    assert len(recalls) == (where == "nowhere")
    assert "order_0" in conversation(found.request)
