"""The scripted agent of the sandbox as a double of a model: it knows only what is in the request it is shown.

Its skill is its plan of moves in order; every fact it uses is read from the visible messages each time (see
`sandbox/agent.py`). Evidence that was deleted, masked or shortened is fetched again by calling the tool again, which
costs requests and, if the step limit comes first, the task. It can do nothing with a request without the user's task. A
section after the task, where methods put summaries, is read like any other text.

It needs no endpoint and always does the same. It is not a language model: it is never distracted by noise, so removing
noise gains only tokens, and it takes no hint that lacks the words it looks for.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drsr.errors import AlignmentError, SettingsError
from drsr.offline.bench.comparators.selfcompact import CONTINUE
from drsr.offline.bench.harness.agent import Answer, Refused
from drsr.offline.bench.harness.sandbox_suite import sandbox_task
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.offline.sandbox.agent import Move, follow, task_dice
from drsr.offline.sandbox.visible import prompt_of
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.parts import Call, Message, Reasoning, Result, Text
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import common_prefix, render, render_output
from drsr.request.request import Request, read_output

Json = dict[str, Any]

NO_TASK = "I do not see what I was asked to do, so I stop here."
NO_TOKENS = "its tokenizer cannot represent the request"
CHUNK = 64
"""Tokens. Providers take 128 or more, for requests that are much longer than those of the sandbox."""


class ContextDependentAgent:
    """The double. Tokens are counted with the tokenizer it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def name(self) -> str:
        return "scripted"

    def begin(self, task: str, opening: Json) -> ScriptedConversation:
        plan = sandbox_task(task).family.plan(task_dice(opening["messages"]))
        tokenizer = RememberedTokens(self._tokenizer)
        return ScriptedConversation(plan, prompt_of(opening["messages"]), tokenizer, PromptCache())

    def close(self) -> None:
        return


class PromptCache:
    """A model of a provider's prompt cache, for one task's requests.

    The longest beginning that a request shares with the one before it is read from the cache, everything after it is
    written, both in whole chunks; what is left over is neither. Nothing expires. Both are parts of the input, never
    additions to it: input = uncached + cache-read + cache-creation.
    """

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self._before: TokenIds = np.empty(0, dtype=np.int32)

    def usage(self, request: TokenIds, output_tokens: int) -> Usage:
        """Return what a request and its answer took. The request is what the next one is compared with."""
        read = self._whole(common_prefix(self._before, request))
        self._before = request
        return Usage(len(request), output_tokens, read, self._whole(len(request)) - read)

    def _whole(self, tokens: int) -> int:
        return tokens // self._chunk * self._chunk


class ScriptedConversation:
    """The double at work on one task. Between requests it keeps the ids that it has used, and no word."""

    def __init__(self, plan: list[Move], task: str, tokenizer: Tokenizer, cache: PromptCache) -> None:
        self._plan = plan
        self._task = task
        self._tokenizer = tokenizer
        self._cache = cache
        self._ids: set[str] = set()

    def answer(self, request: Request) -> Answer | Refused:
        """Refuse the request if the tokenizer has no token for something in it: no model with that tokenizer could read
        it."""
        visible = visible_messages(request, self._task)
        message: Json = follow(visible, self._plan) if visible else {"role": "assistant", "content": NO_TASK}
        for made in message.get("tool_calls") or ():
            made["id"] = self._unused(made["id"])
        try:
            rendered = render(request, self._tokenizer).token_ids
            output = len(render_output(read_output(message, "openai", where="the agent's message"), self._tokenizer))
        except AlignmentError:
            return Refused(NO_TOKENS)
        return Answer(message, self._cache.usage(rendered, output))

    def _unused(self, wanted: str) -> str:
        """Return an unused id: a provider never gives the same id twice, but a repeated move would."""
        found = wanted if wanted not in self._ids else f"{wanted}_{len(self._ids)}"
        self._ids.add(found)
        return found


def visible_messages(request: Request, task: str) -> list[Json]:
    """Return what the double reads of a request, in the form it reads; nothing if the request lacks the user's task."""
    found: list[Json] = []
    task_seen = False
    for message in request.messages:
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        if message.role == "user" and not task_seen and task in text:
            task_seen = True
            before, _, behind = text.partition(task)
            notes = "\n".join(filter(None, (before.strip(), behind.strip())))
            found.append({"role": "user", "content": task})
            found += [{"role": "assistant", "content": notes}] if notes else []
        elif message.role == "user" and (not task_seen or text == CONTINUE):
            # Words that a method put there: no task, and no answer to a question.
            found.append({"role": "assistant", "content": text})
        elif message.role != "system":
            found += _plain(message, text)
    return found if task_seen else []


def _plain(message: Message, text: str) -> list[Json]:
    results = [part for part in message.parts if isinstance(part, Result)]
    if results:
        return [{"role": "tool", "tool_call_id": part.call_id, "content": part.text} for part in results]
    reasoning = [part.text for part in message.parts if isinstance(part, Reasoning)]
    calls = [part for part in message.parts if isinstance(part, Call) and isinstance(part.arguments, dict)]
    plain: Json = {"role": message.role, "content": text or None}
    if reasoning:
        plain["reasoning_content"] = "\n".join(reasoning)
    if calls:
        plain["tool_calls"] = [
            {"id": part.id, "function": {"name": part.name, "arguments": json.dumps(part.arguments)}} for part in calls
        ]
    return [plain]


def only_in_the_sandbox(suite: str) -> None:
    """Raise SettingsError if the double is asked to work on tasks that it has no plan for."""
    if suite != "sandbox":
        raise SettingsError(
            f"the scripted agent knows the sandbox's tasks alone, not those of {suite}",
            hint="--agent http://HOST:PORT/v1 --agent-model NAME",
        )
