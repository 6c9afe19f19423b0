"""The scripted agent: a pure function of the request it is shown.

An agent follows its family's plan, a list of moves. Where it stands is read from the request alone: the ids of its
calls carry the number of the move that made them. What it knows is read from the request alone, too: a fact is looked
up in the visible messages each time it is used. A fact that is no longer there is fetched again by repeating the move
that revealed it, also where a masked or shortened output stands in its place; a fact that is not in an output of just
now makes the agent give up. So pruning a request has the consequences it would have for a model: nothing where noise
was removed, more work or a failed task where evidence was.

Where no call is visible any more, a text that repeats one word for word, as a summary may, tells the agent where it
stands; without that it starts over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from string import Formatter
from typing import Any, Generic, TypeVar

from drsr.offline.sandbox.visible import CALL_ID, latest_moves, prompt_of, user_replies, visible_outputs, visible_texts
from drsr.offline.sandbox.voice import FETCHING_AGAIN, GIVING_UP, Voice

Json = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

BRIEF = "On second thought, a short confirmation at the end is enough."
"""The user's last words in tasks that end without a report."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call."""

    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Message:
    """The words and calls of the agent in one Step."""

    text: str | None
    calls: tuple[Call, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True)
class Fact(Generic[T_co]):
    """Something a task reveals: how to find it in what is visible, and which moves show it again."""

    shown_by: str
    """Names of the moves whose outputs it is read from, separated by blanks; `name.1` is a move's second call."""
    find: Callable[[Mind], T_co | None]
    """Reads it from visible messages only; None if it is not there."""


_REFERENCE = re.compile(r"\{[a-z_]+(?:\.\w+|\[\d\])?\}")


def said(shown_by: str, *patterns: str) -> Fact[str]:
    """Return a fact from the text: group 1 of the first pattern that occurs in any visible message, newest first.

    `{name}` in a pattern is the value of another fact of the plan.
    """

    def find(mind: Mind) -> str | None:
        return mind.search(*(_REFERENCE.sub(lambda named: named[0].format_map(mind), pattern) for pattern in patterns))

    return Fact(shown_by, find)


@dataclass(frozen=True)
class Move:
    """One Step of a plan."""

    name: str
    make: Callable[[Mind], Message]
    asks: bool = False
    """True if it is a question: the user answers, and it counts as done once the answer is visible."""
    facts: Mapping[str, Fact[Any]] = field(default_factory=dict, repr=False)
    """The facts that its texts and calls name; the moves of a plan share them."""


class _Missing(Exception):
    """A fact is not visible, but the named move would reveal it."""

    def __init__(self, move: str) -> None:
        self.move = move


class _Lost(Exception):
    """A fact cannot be found although the moves that reveal it were made just now."""


class Mind:
    """The agent's knowledge at one decision: the visible request and the plan, nothing else."""

    def __init__(self, messages: Sequence[Json], plan: Sequence[Move]) -> None:
        self._plan = {planned.name: number for number, planned in enumerate(plan)}
        self._prompt = prompt_of(messages)
        self._texts = visible_texts(messages)
        self._outputs = visible_outputs(messages)
        self._latest_output = str(messages[-1]["content"]) if messages[-1]["role"] == "tool" else ""
        self._latest_moves = latest_moves(messages)
        self._move = ""
        self._facts: Mapping[str, Fact[Any]] = {}

    def __call__(self, fact: Fact[T]) -> T:
        """The fact's value; where it is not visible, the agent fetches it again or gives up instead of this move."""
        value = self._found(fact)
        if value is not None:
            return value
        sources = fact.shown_by.split()
        for source in sources:
            if self.output(source) is None:
                raise _Missing(source.split(".")[0])
        for name in (source.split(".")[0] for source in sources):
            if self._plan.get(name) not in self._latest_moves:  # what is shown of it may not be all that was there
                raise _Missing(name)
        raise _Lost

    def __getitem__(self, name: str) -> Any:
        """The value of the fact of that name, in the same way."""
        return self(self._facts[name])

    def prompt(self, pattern: str) -> str:
        """Group 1 of a pattern in the task, which is always visible."""
        found = re.search(pattern, self._prompt)
        if found is None:
            raise ValueError(f"the task does not say {pattern!r}: {self._prompt!r}")
        return found[1]

    def search(self, *patterns: str) -> str | None:
        """Group 1 of the first pattern that occurs in a visible message behind the task, newest message first."""
        for pattern in patterns:
            for text in self._texts:
                found = re.search(pattern, text, re.MULTILINE)
                if found is not None:
                    return found[1]
        return None

    def output(self, source: str) -> str | None:
        """Return what a call returned, if that is visible: `name` is a move's first call, `name.1` its second.

        None also for a move that this task's plan leaves out.
        """
        name, _, slot = source.partition(".")
        return self._outputs.get((self._plan.get(name, -1), int(slot or 0)))

    def mentions(self, made: Call) -> bool:
        """Return whether a visible text repeats a call word for word, as a summary may."""
        words = f"{made.tool}: {json.dumps(made.arguments, sort_keys=True, ensure_ascii=False)}"
        return any(words in text for text in self._texts)

    def say(self, texts: Sequence[str], *calls: Call, thinks: Sequence[str] = ()) -> Message:
        """Return a message with these calls. One of the texts goes with it, or none; `{name}` in it is a fact's value.

        Nothing is fetched again for the sake of narration: a text whose facts are not visible is left out.
        """
        voice = Voice(self._prompt, self._move, moves_left=len(self._plan) - self._plan[self._move])
        text, reasoning = self._filled(voice.text(texts)), self._filled(voice.thought(thinks))
        notes = voice.notes(self._latest_output, self._prompt)
        return Message("\n".join(filter(None, (text, notes))) or None, calls, reasoning)

    def tell(self, *texts: str, brief: Sequence[str] = ()) -> Message:
        """Return a message without calls, a question or the final answer, for which every fact in it must be known.

        `brief` are the texts to choose from where the user asked for a short confirmation.
        """
        wanted = brief if brief and self._prompt.endswith(BRIEF) else texts
        text = Voice(self._prompt, self._move).choose(wanted)
        return Message(text.format_map(self))

    def made(self, planned: Move) -> Message:
        """Return the message of a move, worded as it always is for this task."""
        self._move, self._facts = planned.name, planned.facts
        return planned.make(self)

    def _found(self, fact: Fact[T]) -> T | None:
        """A fact that cannot be read from what is left of an output is not there."""
        try:
            return fact.find(self)
        except (AttributeError, LookupError, StopIteration, TypeError, ValueError):
            return None

    def _filled(self, text: str | None) -> str | None:
        """The text with its facts, None if one is not visible."""
        if text is None:
            return None
        values = {name: self._found(self._facts[name]) for name in _named(text)}
        return None if None in values.values() else text.format(**values)


def _named(text: str) -> list[str]:
    """The facts whose values, or parts of them, a text has."""
    fields = (field for _, field, _, _ in Formatter().parse(text) if field)
    return [re.split(r"[.\[]", field)[0] for field in fields]


def next_message(messages: Sequence[Json], plan_of: Callable[[Random], list[Move]]) -> Json:
    """Return the agent's next assistant message in OpenAI chat form; `plan_of` makes the plan from the task's own
    dice."""
    return follow(messages, plan_of(task_dice(messages)))


def follow(messages: Sequence[Json], plan: Sequence[Move]) -> Json:
    """Return the next message of an agent with this plan."""
    mind = Mind(messages, plan)
    number = min(_moves_done(messages, plan) or _moves_mentioned(mind, plan), len(plan) - 1)
    try:
        return _as_json(mind.made(plan[number]), number, again=False)
    except _Missing as missing:
        return _fetch_again(mind, plan, missing.move)
    except _Lost:
        return {"role": "assistant", "content": Voice(prompt_of(messages), "lost").choose(GIVING_UP)}


def task_dice(messages: Sequence[Json]) -> Random:
    """Dice that fall the same at every decision of one task, for whatever the task leaves to taste."""
    return Random(f"plan\n{prompt_of(messages)}")


def _moves_done(messages: Sequence[Json], plan: Sequence[Move]) -> int:
    """Return how many moves are done: up to the latest visible one, by a call's id or by the user's answer."""
    done = 0
    for message in messages:
        for made in message.get("tool_calls") or ():
            found = CALL_ID.match(made["id"])
            done = max(done, int(found[1]) + 1 if found else 0)
    questions = [number for number, planned in enumerate(plan) if planned.asks]
    answered = questions[: len(user_replies(messages))]
    return max([done, *(number + 1 for number in answered)])


def _moves_mentioned(mind: Mind, plan: Sequence[Move]) -> int:
    """Return how many moves lie behind by what texts say: up to the latest one whose calls are all repeated in them."""
    for number in reversed(range(len(plan))):
        try:
            made = mind.made(plan[number])
        except (_Missing, _Lost):
            continue
        if made.calls and all(map(mind.mentions, made.calls)):
            return number + 1
    return 0


def _fetch_again(mind: Mind, plan: Sequence[Move], name: str) -> Json:
    """Repeat the named move for its output; where that move lacks a fact itself, the move before it, and so on."""
    numbers = {planned.name: number for number, planned in enumerate(plan)}
    tried: set[str] = set()
    while name not in tried:
        tried.add(name)
        try:
            repeated = mind.made(plan[numbers[name]])
        except _Missing as missing:
            name = missing.move
            continue
        except _Lost:
            break
        if repeated.calls:
            repeated = Message(Voice(name, "again").choose(FETCHING_AGAIN), repeated.calls)
        return _as_json(repeated, numbers[name], again=True)
    return {"role": "assistant", "content": Voice(name, "lost").choose(GIVING_UP)}


def _as_json(message: Message, number: int, again: bool) -> Json:
    """OpenAI chat form, with the move's number in the ids of its calls."""
    result: Json = {"role": "assistant", "content": message.text}
    if message.reasoning is not None:
        result["reasoning_content"] = message.reasoning
    if message.calls:
        result["tool_calls"] = [
            {
                "id": f"call_{number:02d}_{slot}{'_again' if again else ''}",
                "type": "function",
                "function": {"name": made.tool, "arguments": json.dumps(made.arguments, ensure_ascii=False)},
            }
            for slot, made in enumerate(message.calls)
        ]
    return result
