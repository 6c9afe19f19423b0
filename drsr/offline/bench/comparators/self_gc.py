"""Self-GC: garbage collection of a context by a plan that a model makes from an index of it.

Every turn and tool span has an id. Under pressure a planner returns a plan over ids: fold (the payload goes to a side
file, a pointer stays), mask (head and tail stay), prune. The last turn is protected and unknown ids are dropped. A plan
is committed only if the remaining calls times its saving exceed the cost of breaking the prompt cache; a committed plan
is permanent.

Assumptions. Pressure is half of the window. Twenty calls remain at any time. Cached input costs a tenth of fresh input,
writing the cache a quarter more. Pruning a turn removes its Step, pruning a span the exchange. A turn is an assistant's
text, if it has one. Opaque content and unfinished Steps are not in the index.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from drsr.offline.bench.comparators.contract import Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import with_texts
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.transcript import task_of
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import Block, BlockKind, History, delete, read_history
from drsr.request.parts import PartRef, Result, Text
from drsr.request.rendering import common_prefix
from drsr.request.request import Request
from drsr.sessions.prices import Prices

Action = Literal["fold", "mask", "prune"]

PRESSURE = 64_000
REMAINING_CALLS = 20
PRICES = Prices(input=1.0, cached_input=0.1, cache_write=1.25, output=5.0)
_HEAD = _TAIL = 160
"""Characters that a mask leaves."""
_INSTRUCTIONS = (
    "You collect garbage in an agent's context. For each listed id that the rest of the work does not need as it is, "
    'say what to do: "fold" stores it away behind a pointer, "mask" leaves head and tail, "prune" removes it. Answer '
    'with a JSON list of {"id": ..., "action": ...}; leave out what should stay.'
)


class Entry(NamedTuple):
    """One line of the index."""

    block: Block
    payload: PartRef
    """The text or result that fold and mask shorten."""
    text: str


@dataclass
class GcState:
    """The plans committed along one trajectory."""

    committed: dict[str, Action] = field(default_factory=dict)
    side_files: dict[str, str] = field(default_factory=dict)
    """Payloads of folded ids."""


class SelfGc:
    """Folds, masks and prunes by plan."""

    name = "self_gc"
    title = "Self-GC"
    assumptions = (
        "Pressure is half of the window; twenty more calls are expected at any time.",
        "Cached input costs a tenth of fresh input, writing to the cache a quarter more.",
        "The planner's prompt is ours; the last complete turn is protected.",
        "Pruning a turn removes its Step, pruning a span the exchange; a turn is an assistant's text, if any.",
        "Opaque content and unfinished Steps are not in the index.",
        SCALED,
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.USER})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def begin(self) -> GcState:
        return GcState()

    def rewrite(self, request: Request, state: GcState, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        entries = index(history)
        present = applied(history, entries, state.committed)
        left = {name: entry for name, entry in entries.items() if name not in state.committed}
        if left and self._counts.request(present) > self._counts.share(PRESSURE):
            listing = "\n".join(self._listed(name, entry) for name, entry in left.items())
            ask = Ask("plan", _INSTRUCTIONS, f"Task:\n{task_of(history)}\n\nIndex:\n{listing}", 2048)
            plan = read_plan(ledger.paid(summariser.complete(ask)), left)
            proposed = applied(history, entries, state.committed | plan)
            if plan and self._worth_it(present, proposed):
                state.committed |= plan
                state.side_files |= {name: left[name].text for name, action in plan.items() if action == "fold"}
                present = proposed
        return ledger.rewrite(present)

    def _listed(self, name: str, entry: Entry) -> str:
        kind = "tool_span" if entry.block.kind is BlockKind.TOOL_EXCHANGE else "turn"
        return f"[{name}] {kind}, {self._counts.text(entry.text)} tokens: {' '.join(entry.text.split()[:12])}"

    def _worth_it(self, present: Request, proposed: Request) -> bool:
        """Return whether a plan pays. The whole present request except its newest part is assumed to be cached."""
        before, after = self._counts.rendering(present), self._counts.rendering(proposed)
        saving = len(before) - len(after)
        if saving <= 0:
            return False
        first = common_prefix(before.token_ids, after.token_ids)
        return PRICES.weigh(
            tokens=len(before), cached=len(before), first_changed=first, saving=saving, remaining_calls=REMAINING_CALLS
        ).worth_it


def index(history: History) -> dict[str, Entry]:
    """Return every turn and tool span of the complete Steps but the last, by id: `t3`, `s3_1`."""
    complete = [step for step in history.steps if step.complete]
    found: dict[str, Entry] = {}
    for step in complete[:-1]:
        for block in (block for block in step.blocks if not block.opaque):
            parts = [(ref, history.request.messages[ref.message].parts[ref.part]) for ref in block.parts]
            texts = [(ref, part.text) for ref, part in parts if isinstance(part, Text | Result) and part.text]
            if len(texts) == 1:
                turn = block.kind is BlockKind.ASSISTANT_STATE
                found[f"t{step.index}" if turn else f"s{step.index}_{block.component}"] = Entry(block, *texts[0])
    return found


def read_plan(answer: str, entries: dict[str, Entry]) -> dict[str, Action]:
    """Return the actions for ids that exist; anything else that the planner says is dropped."""
    try:
        given: Any = json.loads(answer[answer.index("[") : answer.rindex("]") + 1])
    except ValueError:
        return {}
    actions: dict[str, Action] = {"fold": "fold", "mask": "mask", "prune": "prune"}
    return {
        item["id"]: actions[item["action"]]
        for item in given
        if isinstance(item, dict)
        and isinstance(item.get("id"), str)
        and isinstance(item.get("action"), str)
        and item["id"] in entries
        and item["action"] in actions
    }


def applied(history: History, entries: dict[str, Entry], plan: dict[str, Action]) -> Request:
    """Return the request under a plan: shorter payloads first, because pruning moves what comes after."""
    texts: dict[PartRef, str] = {}
    pruned: list[Block] = []
    for name, action in plan.items():
        entry = entries[name]  # ids stay: a run only grows at its end
        if action == "prune":
            pruned += history.steps[entry.block.step].blocks if name.startswith("t") else [entry.block]
            continue
        pointer = f"[folded: {name}, {len(entry.text)} characters in the side file {name}]"
        masked = f"{entry.text[:_HEAD]} [... masked ...] {entry.text[-_TAIL:]}"
        shorter = pointer if action == "fold" else masked
        if len(shorter) < len(entry.text):
            texts[entry.payload] = shorter
    pruned = [block for block in dict.fromkeys(pruned) if not block.opaque]
    request = with_texts(history.request, texts)
    return delete(read_history(request), pruned).request if pruned else request
