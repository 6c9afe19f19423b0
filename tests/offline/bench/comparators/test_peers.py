"""Third-party packages: they are really run, they get what they would get from their own users, and what they are known
to get wrong on an ordinary run of an agent shows up as counted violations."""

from __future__ import annotations

import copy
from collections import Counter
from importlib.metadata import version
from typing import Any

import pytest
from langchain_core.messages import convert_to_messages, trim_messages
from litellm.utils import trim_messages as litellm_trim_messages

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators import registry
from drsr.offline.bench.comparators.contract import Comparator, Keep
from drsr.offline.bench.comparators.langchain_clear_tool_uses import LangChainClearToolUses
from drsr.offline.bench.comparators.langchain_trim_messages import LangChainTrimMessages
from drsr.offline.bench.comparators.litellm_trim_messages import LiteLlmTrimMessages
from drsr.offline.bench.comparators.openai_agents_trimmer import OpenAiAgentsTrimmer
from drsr.offline.bench.comparators.peer_messages import Left, carry_back, tell
from drsr.offline.bench.comparators.registry import NotAvailable, usable
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.replay.checked import Checked, checked_rewrite
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.request.parts import Result
from drsr.request.protocol import ViolationKind
from drsr.request.request import Protocol, Request, read_request
from tests.offline.bench.long_run import long_run
from tests.strategies import PROTOCOLS

TOKENIZER = ScriptedTokenizer()
COUNTS = TokenCounts(TOKENIZER, window=2_000)
TRIMMED_TO = 1_500
TURNS = 14
"""With system prompt and task 30 messages."""


def look(comparator: Comparator, request: Request) -> Checked:
    return checked_rewrite(comparator, request, comparator.begin(), ScriptedSummariser(TOKENIZER))


def every_decision(comparator: Comparator, request: Request) -> list[Checked]:
    ends = [index for index, message in enumerate(request.messages) if message.role == "assistant"]
    return [look(comparator, request.with_messages(request.messages[:end])) for end in ends]


def results(request: Request) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Result)]


def test_litellm_is_run_as_it_is() -> None:
    """What comes out is what the function itself makes of the same messages."""
    wire: list[dict[str, Any]] = long_run("openai", TURNS).to_wire()["messages"]
    wire = [{**message, "content": message["content"] or "I go on."} for message in wire]
    direct = litellm_trim_messages(copy.deepcopy(wire), max_tokens=TRIMMED_TO)
    assert direct != wire
    found = look(LiteLlmTrimMessages(COUNTS), read_request(wire))
    assert found.rewrite.request.to_wire() == direct


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_litellm_emits_results_whose_calls_it_dropped(protocol: Protocol) -> None:
    found = every_decision(LiteLlmTrimMessages(COUNTS), long_run(protocol, TURNS))
    kinds = Counter(violation.kind for one in found for violation in one.violations)
    assert kinds[ViolationKind.RESULT_WITHOUT_CALL] > 0
    assert any(Keep.TASK in one.lost for one in found)
    assert all(one.fell_back for one in found if one.violations)


def test_litellm_fails_inside_where_an_assistant_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its own complaint is not shown, and what it gives back is the request as it was."""
    request = long_run("openai", TURNS)
    assert COUNTS.request(request) > TRIMMED_TO
    found = look(LiteLlmTrimMessages(COUNTS), request)
    assert found.rewrite.request is request
    assert not found.fell_back
    assert caplog.records == []


def test_langchain_trim_is_run_as_it_is() -> None:
    request = long_run("openai", TURNS)
    wire = request.to_wire()["messages"]
    direct = trim_messages(convert_to_messages(wire), max_tokens=TRIMMED_TO, token_counter="approximate")
    found = look(LangChainTrimMessages(COUNTS), request)
    assert 0 < len(direct) < len(wire)
    assert found.rewrite.request.to_wire()["messages"] == wire[-len(direct) :]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_langchain_trim_drops_the_task_by_default(protocol: Protocol) -> None:
    found = look(LangChainTrimMessages(COUNTS), long_run(protocol, TURNS))
    assert found.lost >= {Keep.TASK, Keep.PREFIX}
    assert found.rewrite.request.system is None


def test_langchain_trim_as_advised_leaves_nothing_of_a_run_with_one_task() -> None:
    """`start_on="human"` looks for a message of the user among those that fit, and there is none."""
    request = long_run("openai", TURNS)
    found = look(LangChainTrimMessages(COUNTS, as_advised=True), request)
    assert found.failure == "nothing of the conversation is left"
    assert found.request is request
    assert [message.role for message in found.rewrite.request.messages] == ["system"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_langchain_clears_all_but_the_last_three_results(protocol: Protocol) -> None:
    request = long_run(protocol, TURNS)
    found = look(LangChainClearToolUses(COUNTS), request)
    assert results(found.request) == ["[cleared]"] * (TURNS - 3) + results(request)[-3:]
    assert found.lost == frozenset()
    assert look(LangChainClearToolUses(TokenCounts(TOKENIZER)), request).request is request


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_agents_trimmer_does_nothing_on_a_run_with_one_task(protocol: Protocol) -> None:
    request = long_run(protocol, TURNS)
    assert all(len(text) > 500 for text in results(request))
    assert look(OpenAiAgentsTrimmer(), request).request is request


def test_the_agents_trimmer_shortens_what_lies_two_turns_of_the_user_back() -> None:
    wire = long_run("openai", 6).to_wire()
    for place in (8, 13):
        wire["messages"].insert(place, {"role": "user", "content": "Go on."})
    request = read_request(wire)
    found = look(OpenAiAgentsTrimmer(), request)
    shorter = [after != before for after, before in zip(results(found.request), results(request), strict=True)]
    assert shorter == [True] * 3 + [False] * 3
    assert results(found.request)[0].startswith("[Trimmed: list_charges output")
    assert not found.lost


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_told_and_left_is_the_request(protocol: Protocol) -> None:
    request = long_run(protocol, 4)
    told = tell(request)
    assert carry_back(request, [Left(one, one.text) for one in told]) is request
    assert [one.role for one in told[:4]] == ["system", "user", "assistant", "tool"]


def test_several_results_in_one_message_are_told_apart() -> None:
    """Anthropic's user message with two results and a text: one of the results goes, the text is changed."""
    body = {
        "messages": [
            {"role": "user", "content": "task"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab"],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "two"},
                    {"type": "text", "text": "and now"},
                    {"type": "text", "text": "go on"},
                ],
            },
        ]
    }
    request = read_request(body)
    told = tell(request)
    assert [(one.role, one.text) for one in told] == [
        ("user", "task"),
        ("assistant", None),
        ("tool", "one"),
        ("tool", "two"),
        ("user", "and now\ngo on"),
    ]
    left = [Left(one, "shorter" if one.text == "and now\ngo on" else one.text) for one in told if one.text != "one"]
    assert carry_back(request, left).to_wire()["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "b", "content": "two"},
        {"type": "text", "text": "shorter"},
    ]


class BrokenPeer(OpenAiAgentsTrimmer):
    """A double: a package of that name is there, and is not the one that is meant."""

    def load(self) -> Any:
        raise ImportError("cannot import name 'ToolOutputTrimmer'")


def test_a_package_that_cannot_be_imported_is_left_out_with_the_reason() -> None:
    peer = OpenAiAgentsTrimmer()
    assert usable(peer) is peer
    broken = usable(BrokenPeer())
    assert isinstance(broken, NotAvailable)
    assert broken.reason.startswith(f"what is needed of openai-agents {version('openai-agents')} cannot be imported: ")
    assert broken.reason.endswith("ImportError: cannot import name 'ToolOutputTrimmer'")


def test_a_package_that_is_not_there_is_left_out() -> None:
    class MissingPeer(OpenAiAgentsTrimmer):
        """A double of a peer that nobody installed."""

        package = "no-such-package"

    left_out = usable(MissingPeer())
    assert isinstance(left_out, NotAvailable)
    assert left_out.reason == "the package no-such-package is not installed"


def test_nothing_is_imported_for_rows_that_nobody_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "usable", lambda peer: pytest.fail(f"{peer.name} was imported"))
    assert "baseline" in registry.comparators(TOKENIZER, wanted=["baseline"]).available


@pytest.mark.parametrize(
    "comparator",
    [
        LangChainClearToolUses(COUNTS),
        LangChainTrimMessages(COUNTS),
        LiteLlmTrimMessages(COUNTS),
        OpenAiAgentsTrimmer(),
    ],
    ids=lambda one: str(one.name),
)
def test_whatever_a_package_raises_is_counted(comparator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("with words of the request")

    loaded = comparator.load()
    doubles = (raising, *loaded[1:]) if isinstance(loaded, tuple) else raising
    monkeypatch.setattr(type(comparator), "load", lambda self: doubles)
    request = long_run("openai", TURNS)
    found = look(comparator, request)
    assert found.reason == f"{comparator.package} raised ZeroDivisionError"
    assert found.request is request
