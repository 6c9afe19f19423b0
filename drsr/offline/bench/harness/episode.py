"""One agent on one task with one method in between.

    the whole history -> method -> protocol check -> the request that is sent -> agent -> environment -> the history

The history is kept whole: the method sees all of it before every request, and the agent only what the method leaves.
For every request the record holds what was sent, its usage, and what the method removed.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from drsr.errors import AlignmentError
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.harness.agent import Agent, Refused
from drsr.offline.bench.harness.manifest import ManifestTask
from drsr.offline.bench.harness.suite import Suite
from drsr.offline.bench.replay.checked import checked_rewrite
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.offline.bench.summarisers.token_accounting import TaskTokens, Usage
from drsr.request.json_values import canonical_json
from drsr.request.request import Request, read_request

Json = dict[str, Any]

STEP_LIMIT, LONG_STEP_LIMIT = 24, 400
"""Requests after which a task is ended: of the sandbox, whose tasks take seven to ten, and of any other suite, whose
tasks can take millions of tokens. An agent that grows its history to 55,296 tokens reads 11 million in 400 requests."""

ANSWERED, OUT_OF_STEPS, REFUSED = "answered", "out of steps", "refused by the endpoint"


class Sent(NamedTuple):
    """One request, and what it took."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    direct: int | None
    """Tokens that the method removed, counted by our renderer: Tok(C) - Tok(D_A(C)). None if our tokenizer cannot
    represent something in it, such as a byte of a binary file. The acting model has another tokenizer and goes on."""
    auxiliary_input_tokens: int
    auxiliary_output_tokens: int


class Episode(NamedTuple):
    """The outcome of one task."""

    task: str
    domain: str
    method: str
    title: str
    trained: str
    version: str
    """Version of a fitted method: the fit it comes from. Otherwise empty."""
    seed: int
    reward: float
    ending: str
    """`answered`, `out of steps`, or why not."""
    sent: tuple[Sent, ...]
    repeated_calls: int
    """Calls with the tool and arguments of an earlier one: what was fetched again."""
    invalid: int
    """Rewrites that broke the protocol; the request went out as it was."""
    fell_back: int
    """These, and those that failed otherwise."""
    lost_task: int
    """Requests in which the user's task was no longer as the user put it."""

    @property
    def tokens(self) -> TaskTokens:
        """Return the tokens by the paper's rules."""
        return TaskTokens(
            tuple(Usage(*one[:4]) for one in self.sent),
            tuple(one.direct for one in self.sent),
            tuple(Usage(one.auxiliary_input_tokens, one.auxiliary_output_tokens) for one in self.sent),
        )

    def to_json(self) -> Json:
        return {**self._asdict(), "sent": [list(one) for one in self.sent]}

    @classmethod
    def from_json(cls, value: Json) -> Episode:
        return cls(**{**value, "sent": tuple(Sent(*one) for one in value["sent"])})


class Setting(NamedTuple):
    """The parts that all tasks and methods of a run share."""

    suite: Suite
    agent: Agent
    summariser: Summariser
    counts: TokenCounts
    """Counts what methods remove."""
    step_limit: int = STEP_LIMIT
    seed: int = 0


def run_episode(task: ManifestTask, method: Comparator, setting: Setting, version: str = "") -> Episode:
    """Work on a task until it is over, or the steps are used up."""
    sent: list[Sent] = []
    invalid = fell_back = lost_task = 0
    ending = OUT_OF_STEPS
    with setting.suite.open(task.id) as environment:
        opening = environment.opening
        messages: list[Json] = list(opening["messages"])
        conversation, memory = setting.agent.begin(task.id, opening), method.begin()
        while len(sent) < setting.step_limit:
            request = read_request({**opening, "messages": messages}, protocol="openai", where=task.id)
            checked = checked_rewrite(method, request, memory, setting.summariser)
            invalid += bool(checked.violations)
            fell_back += checked.fell_back
            lost_task += "task" in checked.lost and not checked.fell_back
            paid = checked.rewrite
            answer = conversation.answer(checked.request)
            if isinstance(answer, Refused):  # nothing was taken out of a request that nobody read; a summary was paid
                ending = f"{REFUSED}: {answer.reason}"
                sent.append(Sent(0, 0, 0, 0, 0, paid.auxiliary_input_tokens, paid.auxiliary_output_tokens))
                break
            used = answer.usage
            sent.append(
                Sent(
                    used.input_tokens,
                    used.output_tokens,
                    used.cache_read_tokens,
                    used.cache_creation_tokens,
                    _direct(request, checked.request, setting.counts),
                    paid.auxiliary_input_tokens,
                    paid.auxiliary_output_tokens,
                )
            )
            messages.append(answer.message)
            following = environment.follow(answer.message)
            if following is None:
                ending = ANSWERED
                break
            messages += following
        reward = environment.reward()
    return Episode(
        task=task.id,
        domain=task.domain,
        method=method.name,
        title=method.title,
        trained=method.trained,
        version=version,
        seed=setting.seed,
        reward=reward,
        ending=ending,
        sent=tuple(sent),
        repeated_calls=repeated_calls(messages),
        invalid=invalid,
        fell_back=fell_back,
        lost_task=lost_task,
    )


def _direct(request: Request, sent: Request, counts: TokenCounts) -> int | None:
    if sent is request:
        return 0
    try:
        return counts.request(request) - counts.request(sent)
    except AlignmentError:
        return None


def repeated_calls(messages: list[Json]) -> int:
    """Count calls that were made before, with the same tool and the same arguments."""
    made = [
        (call["function"]["name"], _canonical(call["function"]["arguments"]))
        for message in messages
        for call in message.get("tool_calls") or ()
    ]
    return len(made) - len(set(made))


def _canonical(arguments: str) -> str:
    """Return arguments in one form. They are JSON in a string: spaces and the order of keys do not make a different
    call. A string that is not JSON counts as is."""
    try:
        return canonical_json(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments
