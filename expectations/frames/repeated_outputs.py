"""The frame of repeated outputs: one row per sentence that is the next output of so many tasks of a source that a
framework rather than a model must have said it.

A framework that stops a run says the same sentence whatever came before: `Run ended: budget used up`. A model repeats
itself word for word, too: it makes the same call, and gives the same answer to the same result. What tells them apart
was measured on 10,060 states of 18 public sources (docs/LOG.md, 2026-11-19):

- Outputs with a call are not looked at: `SHOW TABLES` is the output of 100 tasks of one source. Nor are very short
  answers (`Yes`, `TERMINATE`).
- An output counts once for every task *and* every different message before it, whichever are fewer. `YOU ARE BEING
  TRANSFERRED TO A HUMAN AGENT.` is the output of 37 tasks of one source, always behind `Transfer successful`: it counts
  once. Behind results of tools no sentence counts twice. One that does is looked for everywhere in its source, and may
  count two times, or 0.5 % of the source's states.
- Behind a person's words models do repeat themselves: `You're welcome! Have a great day!` is 5 % of the states of one
  model. What is said nowhere else may count nine times, or a tenth of the states.

Costs 0.14 ms a run of these sources (50 microseconds a state) where `states` reads it anyway, which is kept, 50 bytes
for each such output; then 4 microseconds a state. Of every sentence that is found one run is read again, to say it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from drsr.offline.ingest.feeds.framework_words import AND_SO_ON, Words, one_line, words_alone
from drsr.offline.ingest.feeds.limits import Limits, limits_of
from drsr.offline.ingest.near_duplicates import strings_in
from drsr.offline.ingest.trajectories import Json, Trajectory

if TYPE_CHECKING:
    from drsr.offline.store.artifacts import ArtifactStore

SHORTEST = 10
"""Characters of an output from which on it is looked at."""
_SHOWN = 200
"""Characters of a sentence that are enough to name it."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Bar(NamedTuple):
    """How often is too often: both must be reached."""

    least: int
    share: float
    """Of the source's states."""

    def reached(self, count: int, states: int) -> bool:
        return count >= max(self.least, ceil(self.share * states))


AT_WORK = Bar(3, 0.005)
"""Of what is also said behind a tool's result, or behind other words of the agent, more than once."""
IN_TALK = Bar(10, 0.1)
"""Of what is said behind a person's words only."""


class Output(NamedTuple):
    """An output that is words alone, by the hashes of what was said."""

    words: str
    before: str
    """The message before it."""
    in_talk: bool
    """Whether that is a person's."""


class Said(NamedTuple):
    """Such an output as the target of a state."""

    output: Output
    source: str
    task: str
    blob: str
    decision: int


class RepeatedOutput(NamedTuple):
    """A sentence that is the next output of too many tasks of a source; both spelled as in `feeds.toml`."""

    source: str
    words: str
    tasks: int
    states: int
    of_states: int
    """States of the source."""


def outputs_alone(trajectory: Trajectory) -> dict[int, Output]:
    """Return the assistant's messages that are words alone and not too short, by place."""
    messages = trajectory.request["messages"]
    said = ((at, words_alone(message)) for at, message in enumerate(messages) if at)
    return {
        at: Output(_hash(words), _hash(" ".join(strings_in(before.get("content")))), _is_talk(before))
        for at, words in said
        if words is not None and len(words) >= SHORTEST
        for before in [messages[at - 1]]
    }


def repeated_outputs(
    said: Sequence[Said], states: Mapping[str, int], limits: Mapping[str, Limits], artifacts: ArtifactStore
) -> pd.DataFrame:
    """Find them among all targets that are words alone; `states` has the number of states of every source."""
    alike: dict[tuple[str, str], list[Said]] = defaultdict(list)
    for one in said:
        alike[one.source, one.output.words].append(one)
    found = []
    for (source, _), same in alike.items():
        if _too_often(same, states[source]):
            words = _words_of(same[0], artifacts)
            if not Words(limits_of(source, limits).model_says).hold(words):
                tasks = len({one.task for one in same})
                found.append(RepeatedOutput(_key(source), _entry(words), tasks, len(same), states[source]))
    found.sort(key=lambda row: (row.source, -row.tasks, row.words))
    return pd.DataFrame(found, columns=list(RepeatedOutput._fields))


def _too_often(same: Sequence[Said], states: int) -> bool:
    at_work = _count([one for one in same if not one.output.in_talk])
    return (AT_WORK if at_work > 1 else IN_TALK).reached(_count(same), states)


def _count(same: Sequence[Said]) -> int:
    """Count different situations: a model says the same in the same one."""
    return min(len({one.task for one in same}), len({one.output.before for one in same}))


def _words_of(one: Said, artifacts: ArtifactStore) -> str:
    messages = Trajectory.from_json(artifacts.get(one.blob)).request["messages"]
    return words_alone(messages[one.decision]) or ""


def _entry(words: str) -> str:
    """Return the words as an entry of a list in TOML, long ones by their beginning."""
    short = words if len(words) <= _SHOWN else f"{words[:_SHOWN].rstrip()}{AND_SO_ON}"
    return json.dumps(short, ensure_ascii=False)


def _key(source: str) -> str:
    """Return a source's name as a key in TOML."""
    return source if _BARE_KEY.fullmatch(source) else json.dumps(one_line(source), ensure_ascii=False)


def _is_talk(message: Json) -> bool:
    """Return whether a person said it: in Anthropic's form results of calls stand in the user's messages, too."""
    content: Any = message.get("content")
    blocks = content if isinstance(content, list) else []
    return message["role"] == "user" and not any(block.get("type") == "tool_result" for block in blocks)


def _hash(text: str) -> str:
    return hashlib.sha256(one_line(text).encode()).hexdigest()[:16]
