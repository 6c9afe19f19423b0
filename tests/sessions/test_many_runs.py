"""Sessions of many runs behind one adapter: every request finds its own, from any thread."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from drsr.adapters import Pruner, Sessions
from drsr.adapters.wire_form import Body, openai_body
from drsr.decide.decision import Reason
from drsr.errors import SettingsError
from drsr.offline.bench.price_report import PrefixCache
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.adapters.long_run import RUN
from tests.features.states import run_messages

PRICES = Prices(3, 0.3, 3.75, 15)
MESSAGES: list[Any] = RUN.to_openai()["messages"]
ENDS = [n for n, message in enumerate(MESSAGES, 1) if message["role"] == "tool"]


def run_of(name: str) -> list[list[Any]]:
    """The requests of one run, each the beginning of the next."""
    messages = copy.deepcopy(MESSAGES)
    messages[1]["content"] += f" This is for {name}."
    return [messages[:end] for end in ENDS]


def removed(decision: Decision) -> list[str]:
    return [block["block"] for block in decision.receipt["removed"]]


def test_interleaved_runs_are_decided_like_runs_with_a_session_each() -> None:
    sessions = Sessions(scripted_policy(), prices=PRICES, expected_calls=200)
    names = ("Ada", "Bo", "Cy")
    apart = {name: scripted_policy().session(PRICES, 200) for name in names}
    seen = 0
    for requests in zip(*(run_of(name) for name in names), strict=True):
        for name, messages in zip(names, requests, strict=True):
            one = sessions.prune(request={"messages": messages}, format="openai")
            other = apart[name].prune(request={"messages": messages}, format="openai")
            assert one.messages == other.messages
            assert removed(one) == removed(other)
            assert one.receipt["session"] == other.receipt["session"]
            seen += one.pruned
    assert seen > 0
    assert len(sessions) == len(names)


def test_runs_in_threads_do_not_mix() -> None:
    sessions = Sessions(scripted_policy(), prices=PRICES, expected_calls=200)
    pruner = Pruner(sessions)

    def run(name: str) -> list[Any]:
        bodies: list[Body] = [{"messages": messages} for messages in run_of(name)]
        return [pruner.view(body, openai_body)["messages"] for body in bodies]

    names = [f"person {n}" for n in range(8)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(run, names))
    for name, sent in zip(names, together, strict=True):
        session = scripted_policy().session(PRICES, 200)
        assert sent == [session.prune(messages).messages for messages in run_of(name)]


def test_old_runs_are_forgotten_and_bad_requests_have_no_run() -> None:
    sessions = Sessions(scripted_policy(), prices=PRICES, expected_calls=200, limit=2)
    for name in ("Ada", "Bo", "Cy"):
        sessions.prune(request={"messages": run_of(name)[-1]}, format="openai")
    assert len(sessions) == 2
    decisions: list[Decision] = []
    pruner = Pruner(sessions, on_decision=decisions.append)
    bad: list[Body] = [{"messages": bad} for bad in (None, [object()], [], [{"role": "wizard"}])]
    assert all(pruner.view(body, openai_body) is body for body in bad)
    reasons = [decision.reason for decision in decisions]
    unreadable, few = Reason.UNREADABLE_REQUEST, Reason.TOO_FEW_CANDIDATES
    assert reasons == [unreadable, unreadable, few, unreadable]


def bill_of(policy: Policy, runs: list[list[list[Any]]], sent: Callable[[list[Any]], list[Any]]) -> float:
    """What it costs when the runs take turns, each with a prefix cache of its own at the provider."""
    caches = [PrefixCache() for _ in runs]
    cost = 0.0
    for turn in zip(*runs, strict=True):
        for messages, cache in zip(turn, caches, strict=True):
            tokens = render(read_request({"messages": sent(messages)}), policy.frozen.representation.tokenizer)
            cost += PRICES.input_cost(len(tokens), cache.read(tokens.token_ids))
    return cost


def test_more_runs_at_once_than_are_remembered_cost_no_more_than_without_pruning() -> None:
    policy = scripted_policy()
    runs = []
    for number in range(5):
        messages = run_messages(24, words=60)
        messages[0] = {**messages[0], "content": f"{messages[0]['content']} For person {number}."}
        runs.append([messages[:end] for end in range(1, len(messages) + 1) if messages[end - 1]["role"] != "assistant"])
    unpruned = bill_of(policy, runs, lambda messages: messages)

    def pruned(sessions: Sessions) -> float:
        return bill_of(
            policy, runs, lambda messages: sessions.prune(request={"messages": messages}, format="openai").messages
        )

    usual = Sessions(policy, prices=PRICES, expected_calls=24)
    assert pruned(usual) < unpruned
    assert (len(usual), usual.forgotten) == (5, 0)
    tight = Sessions(policy, prices=PRICES, expected_calls=24, limit=4)
    assert pruned(tight) <= unpruned
    assert (len(tight), tight.forgotten) == (4, 5 * len(runs[0]) - 4)  # each time the one that comes next


def test_settings_that_mean_nothing_are_refused_at_once() -> None:
    for options in ({"expected_calls": 0}, {"expected_calls": 2.5}, {"expected_calls": 9, "limit": 0}):
        with pytest.raises(SettingsError):
            Sessions(scripted_policy(), prices=PRICES, **options)
