from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drsr.backbone.catalogue import load_tokenizer
from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.contract import Ledger, Rewrite
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.harness.agent import Answer, Conversation, Refused
from drsr.offline.bench.harness.episode import ANSWERED, Episode, Sent, Setting, repeated_calls, run_episode
from drsr.offline.bench.harness.manifest import ManifestTask
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.offline.bench.summarisers.token_accounting import TaskTokens, Usage
from drsr.request.request import Request
from tests.offline.bench.harness.settings import OnlyTheTask
from tests.offline.bench.recording_summariser import RecordingSummariser

Json = dict[str, Any]
TASK = ManifestTask("t", "code")


class CountingTask:
    """A suite of one task: read twice, then answer. What it is told is kept."""

    executes_here = False
    opening: Json = {
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "add the numbers"}]
    }

    def __init__(self) -> None:
        self.heard: list[Json] = []

    @contextmanager
    def open(self, task: str) -> Iterator[CountingTask]:
        yield self

    def follow(self, message: Json) -> Sequence[Json] | None:
        self.heard.append(message)
        calls = message.get("tool_calls")
        return [{"role": "tool", "tool_call_id": made["id"], "content": "4"} for made in calls] if calls else None

    def reward(self) -> float:
        return 0.5 if self.heard and self.heard[-1].get("content") == "8" else 0.0


class ToldAgent:
    """Answers as it was told, whatever it is shown, and keeps that."""

    name = "told"

    def __init__(self, *answers: Answer | Refused) -> None:
        self.shown: list[Request] = []
        self._answers = list(answers)

    def begin(self, task: str, opening: Json) -> Conversation:
        return self

    def answer(self, request: Request) -> Answer | Refused:
        self.shown.append(request)
        return self._answers.pop(0)

    def close(self) -> None:
        return


def reads(number: int) -> Json:
    function = {"name": "read", "arguments": '{"path": "a"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


ANSWERS = (
    Answer(reads(0), Usage(50, 5, 0, 40)),
    Answer(reads(1), Usage(70, 5, 40, 20)),
    Answer({"role": "assistant", "content": "8"}, Usage(90, 2, 60, 20)),
)


def setting(agent: ToldAgent, suite: CountingTask | None = None, **options: Any) -> Setting:
    summariser = RecordingSummariser()
    return Setting(suite or CountingTask(), agent, summariser, TokenCounts(ScriptedTokenizer()), **options)


class Asking(OnlyTheTask):
    """Asks the summariser before every request: 100 tokens in, 10 out."""

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        ledger = Ledger()
        ledger.paid(summariser.complete(Ask("summary", "sum up", "it", 20)))
        return ledger.rewrite(super().rewrite(request, state, summariser).request)


def test_the_accounts_by_hand() -> None:
    suite = CountingTask()
    agent = ToldAgent(*ANSWERS)
    episode = run_episode(TASK, Baseline(), setting(agent, suite))
    assert episode.sent == (
        Sent(50, 5, 0, 40, 0, 0, 0),
        Sent(70, 5, 40, 20, 0, 0, 0),
        Sent(90, 2, 60, 20, 0, 0, 0),
    )
    assert (episode.reward, episode.ending, episode.repeated_calls) == (0.5, ANSWERED, 1)
    assert episode.tokens.usage == Usage(210, 12, 100, 80)
    assert episode.tokens.total == 222
    assert [len(request.messages) for request in agent.shown] == [2, 4, 6]
    assert suite.heard == [answer.message for answer in ANSWERS]


def test_what_a_method_takes_out_and_pays_is_counted_and_the_history_stays_whole() -> None:
    agent = ToldAgent(*ANSWERS)
    counts = TokenCounts(ScriptedTokenizer())
    episode = run_episode(TASK, Asking(2), setting(agent))
    # The third request had four messages behind the task; two of them, one exchange, were left out.
    assert [len(request.messages) for request in agent.shown] == [2, 4, 4]
    whole = agent.shown[2].with_messages([*agent.shown[1].messages, *agent.shown[2].messages[2:]])
    assert [sent.direct for sent in episode.sent] == [0, 0, counts.request(whole) - counts.request(agent.shown[2])]
    assert (episode.sent[2].direct or 0) > 0
    assert episode.tokens == TaskTokens(
        tuple(answer.usage for answer in ANSWERS),
        tuple(sent.direct for sent in episode.sent),
        (Usage(100, 10),) * 3,
    )
    assert episode.tokens.total == 222 + 330


class Breaking(OnlyTheTask):
    """Leaves a result without its call."""

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        return Rewrite(request.with_messages([m for m in request.messages if m.role != "assistant"]))


class BinaryTask(CountingTask):
    """A tool prints a binary file: the embedded model's tokenizer has no piece for the byte 0x04."""

    def follow(self, message: Json) -> Sequence[Json] | None:
        found = super().follow(message)
        return None if found is None else [{**result, "content": "4\x04"} for result in found]


def test_what_our_tokenizer_cannot_count_is_unknown_and_the_task_goes_on() -> None:
    """The endpoint has a tokenizer of its own, and says what it used. Requests that went out whole need no count."""
    agent, tokenizer = ToldAgent(*ANSWERS), load_tokenizer("smollm2-135m").tokenizer
    episode = run_episode(TASK, OnlyTheTask(2), setting(agent, BinaryTask())._replace(counts=TokenCounts(tokenizer)))
    assert [len(request.messages) for request in agent.shown] == [2, 4, 4]
    assert [sent.direct for sent in episode.sent] == [0, 0, None]
    assert (episode.reward, episode.ending, episode.fell_back) == (0.5, ANSWERED, 0)
    assert (episode.tokens.total, episode.tokens.direct_removal) == (222, None)
    assert Episode.from_json(json.loads(json.dumps(episode.to_json()))) == episode


def test_an_invalid_request_is_never_sent() -> None:
    agent = ToldAgent(*ANSWERS)
    episode = run_episode(TASK, Breaking(0), setting(agent))
    assert [len(request.messages) for request in agent.shown] == [2, 4, 6]
    assert (episode.invalid, episode.fell_back, episode.tokens.direct_removal) == (2, 2, 0)


class Forgetting(OnlyTheTask):
    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        return Rewrite(request.with_messages(request.messages[2:])) if len(request.messages) > 2 else Rewrite(request)


def test_a_lost_task_is_counted() -> None:
    episode = run_episode(TASK, Forgetting(0), setting(ToldAgent(*ANSWERS)))
    assert (episode.lost_task, episode.fell_back) == (2, 0)


def test_a_refused_request_ends_the_task_and_what_was_paid_for_it_counts() -> None:
    episode = run_episode(TASK, Asking(2), setting(ToldAgent(ANSWERS[0], Refused("status 400"))))
    assert (episode.ending, episode.reward) == ("refused by the endpoint: status 400", 0.0)
    assert episode.sent == (Sent(50, 5, 0, 40, 0, 100, 10), Sent(0, 0, 0, 0, 0, 100, 10))


def test_a_task_has_so_many_requests() -> None:
    episode = run_episode(TASK, Baseline(), setting(ToldAgent(*ANSWERS), step_limit=2))
    assert (episode.ending, len(episode.sent), episode.reward) == ("out of steps", 2, 0.0)


def test_there_and_back() -> None:
    episode = run_episode(TASK, Baseline(), setting(ToldAgent(*ANSWERS), seed=7), version="abc")
    assert (episode.seed, episode.version) == (7, "abc")
    assert Episode.from_json(episode.to_json()) == episode


def test_calls_are_the_same_by_tool_and_arguments() -> None:
    other = reads(2)
    other["tool_calls"][0]["function"] = {"name": "list", "arguments": '{"path": "a"}'}
    assert repeated_calls([reads(0), other, {"role": "user", "content": "x"}]) == 0
    assert repeated_calls([reads(0), reads(1), reads(2), other]) == 2
    same = ['{"path": "x", "line": 1}', '{ "line":1,"path":"x" }', "no json", "no json", "no  json"]
    calls = [{"function": {"name": "read", "arguments": arguments}} for arguments in same]
    assert repeated_calls([{"role": "assistant", "tool_calls": [call]} for call in calls]) == 2
