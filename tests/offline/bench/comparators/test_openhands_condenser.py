"""OpenHands' condenser: what it is told, what is left of the request, and what its errors lead to.

Every test runs with a double of the package, and with the package itself where that is installed (Python 3.12)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SummariserFailed, SummariserRefused
from drsr.offline.bench.comparators import registry
from drsr.offline.bench.comparators.contract import Keep
from drsr.offline.bench.comparators.openhands_condenser import ROUNDS, OpenHandsCondenser
from drsr.offline.bench.comparators.registry import NotAvailable, comparators, too_old_for, usable
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.replay.checked import Checked, checked_rewrite
from drsr.offline.bench.summarisers.summariser import Ask
from drsr.request.request import Protocol, Request, read_request
from tests.messages import USER, answers, asks
from tests.offline.bench.comparators.openhands_double import install_openhands_double
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.strategies import PROTOCOLS

INSTALLED = find_spec("openhands") is not None
TOKENIZER = ScriptedTokenizer()


@pytest.fixture(autouse=True, params=["double", "package"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "double":
        install_openhands_double(monkeypatch)
    elif not INSTALLED:
        pytest.skip("openhands-sdk is not installed")
    return str(request.param)


def condenser(window: int = 128_000) -> OpenHandsCondenser:
    return OpenHandsCondenser(TokenCounts(TOKENIZER, window))


def after(request: Request, steps: int) -> Request:
    prefix = 2 if request.protocol == "openai" else 1
    return request.with_messages(request.messages[: prefix + 2 * steps])


def look(request: Request, summariser: RecordingSummariser, window: int = 128_000) -> Checked:
    return checked_rewrite(condenser(window), request, condenser().begin(), summariser)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_over_eighty_events_the_middle_becomes_a_summary(protocol: Protocol) -> None:
    """A system prompt, a task and 40 exchanges are 82 events. The first 4 stay; of the rest the latest 35 would, and 34
    do, as an exchange stays whole: 17 of them. Of 82 go those from the fifth to the 48th."""
    method, summariser, run = condenser(), RecordingSummariser(), long_run(protocol, 44)
    state = method.begin()
    short = after(run, 39)
    assert method.rewrite(short, state, summariser).request is short
    assert summariser.asked == []

    request = after(run, 40)
    found = checked_rewrite(method, request, state, summariser)
    assert (found.rewrite.auxiliary_input_tokens, found.rewrite.auxiliary_output_tokens) == (100, 10)
    first = len(after(run, 1).messages)
    assert found.request.messages[:first] == request.messages[:first]
    assert found.request.messages[first].wire == {"role": "user", "content": "in short"}
    assert found.request.messages[first + 1 :] == request.messages[-34:]
    assert found.request.system == request.system
    assert found.lost == frozenset()

    later = method.rewrite(after(run, 41), state, summariser)
    assert len(summariser.asked) == 1
    assert later.request.messages == (*found.request.messages, *after(run, 41).messages[-2:])


def test_what_its_model_is_shown() -> None:
    """Results and what was said beside calls; not the arguments of calls, nor what stays."""
    summariser = RecordingSummariser()
    look(long_run("openai", 40), summariser)
    (ask,) = summariser.asked
    assert "You are maintaining a context-aware state summary" in ask.instructions
    assert ask.purpose == "summary"
    assert ask.material.count("<EVENT>") == 44
    assert ask.material.count("Action: MCPToolAction") == 22
    assert "Thought: I look for the charge that was made twice." in ask.material
    assert "Tool: list_charges\n  Result: order_1_a: charge 10 EUR" in ask.material
    assert '"order"' not in ask.material
    assert "order_0_a" not in ask.material
    assert "order_23_b" not in ask.material


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_over_the_window_it_condenses_again_and_again(protocol: Protocol) -> None:
    """Each summary is read again for the next."""
    method, summariser, run = condenser(1_200), RecordingSummariser(), long_run(protocol, 40)
    state = method.begin()
    lengths = []
    for steps in range(1, 41):
        found = checked_rewrite(method, after(run, steps), state, summariser)
        assert not found.fell_back
        assert not found.lost & {Keep.PAIRS, Keep.TASK}
        lengths.append(len(found.request.messages))
    assert len(summariser.asked) > 2
    assert max(lengths) < 30
    assert all(
        "CondensationSummaryEvent (environment)\n  user: in short" in ask.material for ask in summariser.asked[1:]
    )
    assert sum(message.wire.get("content") == "in short" for message in found.request.messages) == 1


def test_ids_that_come_up_again_are_told_apart() -> None:
    messages = [USER]
    for number in range(45):
        messages += [asks("the same", text="go"), answers("the same", f"number {number}")]
    found = look(read_request(messages), RecordingSummariser())
    assert not found.fell_back
    assert found.rewrite.auxiliary_input_tokens == 100
    assert found.request.messages[-1].wire == messages[-1]


def test_calls_of_one_message_stay_together() -> None:
    """One event each: a task, and three calls with three results in every turn."""
    messages = [USER]
    for number in range(16):
        ids = [f"{number}_{letter}" for letter in "abc"]
        messages += [asks(*ids, text="go"), *(answers(one) for one in ids)]
    request = read_request(messages)
    found = look(request, RecordingSummariser())
    assert not found.fell_back
    assert found.request.messages[:5] == request.messages[:5]
    assert found.request.messages[6].wire == messages[1 + 4 * 11]
    assert len(found.request.messages) == 5 + 1 + 4 * 5


def test_a_call_without_a_result_goes_once_the_middle_is_forgotten() -> None:
    messages = [USER]
    for number in range(45):
        messages += [asks(str(number)), answers(str(number))]
    messages += [asks("never"), {"role": "user", "content": "Never mind."}]
    found = look(read_request(messages), RecordingSummariser())
    assert not found.fell_back
    assert [message.wire for message in found.request.messages[-2:]] == [answers("44"), messages[-1]]


def with_a_task_over_the_window(turns: int) -> Request:
    wire = long_run("openai", turns).to_wire()
    wire["messages"][1]["content"] = "word " * 3_000
    return read_request(wire)


def test_where_nothing_is_left_to_forget_all_but_the_system_prompt_is_summarised() -> None:
    """Four events, the first four of which always stay."""
    request = with_a_task_over_the_window(1)
    found = look(request, RecordingSummariser(), window=1_000)
    system = request.messages[0].wire["content"]
    assert [message.wire["content"] for message in found.request.messages] == [system, "in short"]
    assert Keep.TASK in found.lost


def test_it_is_not_asked_for_ever() -> None:
    """What always stays is over the window alone, and the package would summarise its last summary again and again."""
    request, summariser = with_a_task_over_the_window(3), RecordingSummariser()
    found = look(request, summariser, window=1_000)
    assert len(summariser.asked) == ROUNDS
    assert found.request.messages == (*request.messages[:4], found.request.messages[-1])


def test_a_summary_that_is_refused_leaves_the_request_as_it_is() -> None:
    def refusing(ask: Ask) -> str:
        raise SummariserRefused("too long")

    request = long_run("openai", 40)
    found = look(request, RecordingSummariser(refusing))
    assert found.request is request
    assert not found.fell_back


@pytest.mark.parametrize(("turns", "window"), [(40, 128_000), (10, 500)])
def test_a_summariser_out_of_reach_stops_the_run(turns: int, window: int) -> None:
    """The package would take it for a bad answer, and ask five times more where it must have one."""

    def away(ask: Ask) -> str:
        raise SummariserFailed("out of reach")

    summariser = RecordingSummariser(away)
    with pytest.raises(SummariserFailed, match="out of reach"):
        look(long_run("openai", turns), summariser, window)
    assert len(summariser.asked) == 1


def test_whatever_the_package_raises_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(**options: Any) -> Any:
        raise ZeroDivisionError("with words of the request")

    monkeypatch.setattr(condenser().load().condenser, "LLMSummarizingCondenser", raising)
    request = long_run("openai", 3)
    found = look(request, RecordingSummariser())
    assert found.reason == "openhands-sdk raised ZeroDivisionError"
    assert found.request is request


def test_the_row_runs_where_the_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_version", lambda package: "1.58.0")
    peer = condenser()
    assert usable(peer) is peer
    monkeypatch.setattr(registry, "OPENHANDS_PYTHON", (3, 11))
    assert "openhands_condenser" in comparators(TOKENIZER, wanted=["openhands_condenser"]).available


def test_the_row_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = condenser()
    assert too_old_for(peer, (3, 12)) is None
    old = too_old_for(peer, (3, 11))
    assert old is not None
    assert old.reason == "its package needs Python 3.12 or newer, and this is 3.11"
    monkeypatch.delattr(condenser().load().event, "ObservationEvent")
    monkeypatch.setattr(registry, "_version", lambda package: "0.9")
    missing = usable(peer)
    assert isinstance(missing, NotAvailable)
    assert missing.reason.startswith("what is needed of openhands-sdk 0.9 cannot be imported: AttributeError: ")
