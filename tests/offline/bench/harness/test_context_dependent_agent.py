"""The double knows only what it is shown: what is deleted is fetched again, or the task fails."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.catalogue import load_tokenizer
from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SettingsError
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.edits import with_section
from drsr.offline.bench.comparators.periodic_summary import PeriodicSummary
from drsr.offline.bench.comparators.selfcompact import CONTINUE
from drsr.offline.bench.harness.context_dependent_agent import (
    NO_TASK,
    NO_TOKENS,
    ContextDependentAgent,
    PromptCache,
    only_in_the_sandbox,
    visible_messages,
)
from drsr.offline.bench.harness.episode import ANSWERED, OUT_OF_STEPS, REFUSED, Sent, run_episode
from drsr.offline.bench.harness.sandbox_suite import SandboxSuite, sandbox_task
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.offline.sandbox.recorder import run_task
from drsr.offline.sandbox.visible import user_replies
from drsr.request.history import read_history
from drsr.request.rendering import render, render_output
from drsr.request.request import read_request
from tests.offline.bench.harness.settings import BALANCE, ORDER, OnlyTheTask, quick_setting
from tests.offline.bench.recording_summariser import RecordingSummariser

Json = dict[str, Any]


@pytest.mark.parametrize("task", [BALANCE, ORDER])
def test_with_the_whole_history_it_does_what_the_recorded_agent_does(task: Any) -> None:
    episode = run_episode(task, Baseline(), quick_setting())
    recorded = run_task(sandbox_task(task.id))
    assert (episode.reward, episode.ending) == (recorded.reward, ANSWERED) == (1.0, ANSWERED)
    # Tokens by the slow way: every request rendered from the recorded messages.
    tokenizer = ScriptedTokenizer()
    messages = recorded.request["messages"]
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    inputs = [
        len(render(read_request({**recorded.request, "messages": messages[:place]}), tokenizer)) for place in places
    ]
    outputs = [
        len(render_output(read_request([messages[place]], protocol="openai").messages[0], tokenizer))
        for place in places
    ]
    assert [sent.input_tokens for sent in episode.sent] == inputs
    assert [sent.output_tokens for sent in episode.sent] == outputs
    assert episode.tokens.total == sum(inputs) + sum(outputs)
    assert episode.tokens.direct_removal == 0


def test_deleted_evidence_is_fetched_again() -> None:
    baseline = run_episode(BALANCE, Baseline(), quick_setting())
    pruned = run_episode(BALANCE, OnlyTheTask(8), quick_setting())
    assert pruned.repeated_calls > baseline.repeated_calls
    assert len(pruned.sent) > len(baseline.sent)
    assert (pruned.tokens.direct_removal or 0) > 0
    assert (pruned.reward, pruned.ending) == (1.0, ANSWERED)


def test_with_its_steps_used_up_the_task_fails() -> None:
    needed = len(run_episode(BALANCE, Baseline(), quick_setting()).sent)
    assert run_episode(BALANCE, Baseline(), quick_setting(needed)).reward == 1.0
    failed = run_episode(BALANCE, OnlyTheTask(8), quick_setting(needed))
    assert (failed.reward, failed.ending, len(failed.sent)) == (0.0, OUT_OF_STEPS, needed)


def test_nothing_of_the_past_is_remembered_between_requests() -> None:
    """Two conversations that saw different requests answer the same one alike."""
    setting = quick_setting()
    with SandboxSuite().open(BALANCE.id) as environment:
        opening = environment.opening
        informed, fresh = (setting.agent.begin(BALANCE.id, opening) for _ in range(2))
        messages: list[Json] = list(opening["messages"])
        for _ in range(4):
            answer = informed.answer(read_request({**opening, "messages": messages})).message  # type: ignore[union-attr]
            messages += [answer, *(environment.follow(answer) or ())]
        request = read_request({**opening, "messages": [*messages[:2], *messages[-2:]]})
        mine, other = informed.answer(request), fresh.answer(request)
    assert _words(mine.message) == _words(other.message)  # type: ignore[union-attr]
    assert mine.usage.input_tokens == other.usage.input_tokens  # type: ignore[union-attr]


def _words(message: Json) -> Any:
    return message.get("content"), [made["function"] for made in message.get("tool_calls") or ()]


def test_it_is_deterministic() -> None:
    method = OnlyTheTask(6)
    assert run_episode(ORDER, method, quick_setting()) == run_episode(ORDER, method, quick_setting())


def test_without_the_task_it_can_do_nothing() -> None:
    setting = quick_setting()
    with SandboxSuite().open(BALANCE.id) as environment:
        opening = environment.opening
        conversation = setting.agent.begin(BALANCE.id, opening)
        system, task = opening["messages"]
        cut = {**task, "content": task["content"][:20]}
        found = conversation.answer(read_request({**opening, "messages": [system, cut]}))
    assert found.message == {"role": "assistant", "content": NO_TASK}  # type: ignore[union-attr]


def test_a_request_that_its_tokenizer_cannot_represent_ends_that_task_alone() -> None:
    """A real summariser may write what the double's tokenizer has no token for."""
    tokenizer = load_tokenizer("smollm2-135m").tokenizer
    summariser = RecordingSummariser(lambda ask: "the end\x04")
    setting = quick_setting()._replace(agent=ContextDependentAgent(tokenizer), summariser=summariser)
    episode = run_episode(BALANCE, PeriodicSummary(3), setting)
    assert (episode.ending, episode.reward) == (f"{REFUSED}: {NO_TOKENS}", 0.0)
    assert len(episode.sent) > 3
    assert episode.sent[-1] == Sent(0, 0, 0, 0, 0, 100, 10)


def test_ids_are_never_used_twice() -> None:
    """A move that is made again would have the same one, and the request would be invalid."""
    episode = run_episode(BALANCE, OnlyTheTask(4), quick_setting())
    assert episode.repeated_calls > 1
    assert episode.invalid == 0


def test_a_section_behind_the_task_is_read() -> None:
    with SandboxSuite().open(BALANCE.id) as environment:
        opening = environment.opening
    request = read_request(opening)
    task = opening["messages"][1]["content"]
    with_notes = with_section(request, read_history(request).prefix_length, "Notes", "the code is 42")
    assert visible_messages(with_notes, task) == [
        {"role": "user", "content": task},
        {"role": "assistant", "content": "## Notes\n\nthe code is 42"},
    ]
    assert visible_messages(request, "another task") == []


def test_calls_results_and_thoughts_are_read() -> None:
    arguments = json.dumps({"path": "a"})
    made = {"id": "call_00_0", "type": "function", "function": {"name": "read", "arguments": arguments}}
    body = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a summary"},
        {"role": "user", "content": "the task"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "call_00_0", "content": "text"},
    ]
    seen = visible_messages(read_request(body, protocol="openai"), "the task")
    assert [message["role"] for message in seen] == ["assistant", "user", "assistant", "tool"]
    assert seen[2]["reasoning_content"] == "hm"
    assert seen[2]["tool_calls"][0]["function"] == {"name": "read", "arguments": arguments}
    assert seen[3] == {"role": "tool", "tool_call_id": "call_00_0", "content": "text"}


def test_words_that_a_method_puts_in_the_users_mouth_are_no_answer() -> None:
    body = [{"role": "user", "content": "the task"}, {"role": "assistant", "content": "a summary"}]
    spoken = [{"role": "user", "content": words} for words in (CONTINUE, "Yes, do it.")]
    seen = visible_messages(read_request([*body, *spoken], protocol="openai"), "the task")
    assert user_replies(seen) == ["Yes, do it."]


def test_it_has_no_plan_for_other_suites() -> None:
    only_in_the_sandbox("sandbox")
    with pytest.raises(SettingsError, match="not those of workbuddybench"):
        only_in_the_sandbox("workbuddybench")


tokens = st.lists(st.integers(0, 2), max_size=30)


def ids(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def test_the_prompt_cache_by_hand() -> None:
    cache = PromptCache(chunk=4)
    first = list(range(10))
    assert cache.usage(ids(first), 3) == Usage(10, 3, cache_read_tokens=0, cache_creation_tokens=8)
    grown = [*first, 20, 21, 22]
    # Ten tokens are shared, of which two whole chunks: 8 read; 12 of 13 fit chunks: 4 written; 1 is neither.
    assert cache.usage(ids(grown), 2) == Usage(13, 2, cache_read_tokens=8, cache_creation_tokens=4)
    pruned = [*first[:3], *grown[8:]]
    # Something was cut out behind the third token: no whole chunk is left.
    assert cache.usage(ids(pruned), 1) == Usage(8, 1, cache_read_tokens=0, cache_creation_tokens=8)


@given(st.lists(tokens, min_size=1, max_size=5), st.integers(1, 7))
def test_cache_counts_are_parts_of_the_input(requests: list[list[int]], chunk: int) -> None:
    cache = PromptCache(chunk)
    before: list[int] = []
    for request in requests:
        usage = cache.usage(ids(request), 5)
        uncached = usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens
        assert usage.input_tokens == len(request)
        assert 0 <= uncached < chunk
        assert usage.total == len(request) + 5
        shared = 0
        while shared < min(len(before), len(request)) and before[shared] == request[shared]:
            shared += 1
        assert usage.cache_read_tokens == shared // chunk * chunk
        before = request
