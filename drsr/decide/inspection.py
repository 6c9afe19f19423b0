"""A request as DRSR sees it: prefix, Steps, Blocks, candidates, and every deletion set with its saving."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drsr.decide.candidates import RULE_VERSION, DecisionState, Ineligible, IneligibleReason, freeze_rendered
from drsr.decide.deletion_sets import DeletionSet, deletion_sets
from drsr.errors import AlignmentError
from drsr.request.contracts import Tokenizer
from drsr.request.history import Block, History, Step, read_history
from drsr.request.parts import Call, Opaque, Part, Reasoning, Result, Text
from drsr.request.protocol import Violation, violations
from drsr.request.rendering import RENDERER_VERSION, Rendering, render
from drsr.request.request import Request
from drsr.tables import excerpt, table

MAX_CARDINALITY = 3
"""K: the largest deletion set considered online."""

REMOVAL_CAP = 0.20
"""q_max: the largest share of the full request that may be removed."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One request, taken apart for a reader or a program."""

    request: Request
    violations: list[Violation]
    history: History
    rendering: Rendering | None
    """None when the tokenizer cannot represent the request; then no token is counted."""
    outcome: DecisionState | Ineligible
    sets: tuple[DeletionSet, ...]
    context_cap: int
    notes: dict[str, str]
    """Remarks about a Block, by its name."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values. Tokens are those of the full request."""
        state = self.outcome if isinstance(self.outcome, DecisionState) else None
        return {
            "protocol": self.request.protocol,
            "messages": len(self.request.messages),
            "tokens": None if self.rendering is None else len(self.rendering),
            "renderer": RENDERER_VERSION,
            "candidate_rule": RULE_VERSION,
            "context_cap": self.context_cap,
            "view": None if state is None else {"first_message": state.view.first_message, "start": state.view.start},
            "violations": [violation._asdict() for violation in self.violations],
            "prefix": {"messages": self.history.prefix_length, "tokens": self._prefix_tokens()},
            "steps": [self._step_json(step) for step in self.history.steps],
            "recent": [step.index for step in self.history.recent],
            "eligible": state is not None,
            "ineligible": self.outcome._asdict() if isinstance(self.outcome, Ineligible) else None,
            "candidates": [
                {
                    "block": candidate.block.name,
                    "direct_saving": candidate.direct_saving,
                    "token_spans": [[span.start, span.stop] for span in candidate.token_spans],
                }
                for candidate in (state.candidates if state else ())
            ],
            "deletion_sets": [
                {
                    "members": list(found.members),
                    "mask": found.mask,
                    "blocks": names,
                    "direct_saving": found.direct_saving,
                    "share": share,
                    "within_cap": share <= REMOVAL_CAP,
                    "violations": [str(violation) for violation in found.violations],
                }
                for found, names, share in self._sets()
            ],
        }

    def to_text(self) -> str:
        """Return the same for a terminal."""
        tokens = "tokens unknown" if self.rendering is None else f"{len(self.rendering):,} tokens"
        prefix = "" if self.rendering is None else f", {self._prefix_tokens():,} tokens"
        lines = [
            f"{self.request.protocol} request: {len(self.request.messages):,} messages, "
            f"{len(self.request.tools)} tools, {tokens}",
            f"prefix: {self.history.prefix_length} messages{prefix}, never touched",
        ]
        lines += [f"violation: {violation}" for violation in self.violations]
        if self.history.steps:
            rows = [row for step in self.history.steps for row in self._block_rows(step)]
            lines += ["", table(("Block", "kind", "message", "tokens", "note", "begins"), rows)]
        if isinstance(self.outcome, Ineligible):
            return "\n".join([*lines, "", f"not eligible: {self.outcome}"])
        lines += ["", f"{len(self.sets)} deletion sets of at most {MAX_CARDINALITY} of the candidates:"]
        rows = [
            (
                "{" + ", ".join(names) + "}",
                found.direct_saving,
                f"{share:.1%}",
                share <= REMOVAL_CAP,
                "valid" if not found.violations else str(found.violations[0]),
            )
            for found, names, share in self._sets()
        ]
        lines.append(table(("delete", "saves", "share", f"within {REMOVAL_CAP:.0%}", "rewrite"), rows))
        return "\n".join(lines)

    def _prefix_tokens(self) -> int | None:
        if self.rendering is None:
            return None
        spans = self.rendering.message_spans
        behind = spans[self.history.prefix_length :]
        return behind[0].start if behind else spans[-1].stop if spans else 0

    def _sets(self) -> Iterator[tuple[DeletionSet, list[str], float]]:
        """Yield every deletion set with its Blocks' names and the share of the request that it saves."""
        for found in self.sets:
            assert isinstance(self.outcome, DecisionState)  # only an eligible request has deletion sets
            names = [self.outcome.candidates[member].block.name for member in found.members]
            yield found, names, found.direct_saving / len(self.outcome.rendering)

    def _tokens(self, block: Block) -> int | None:
        return None if self.rendering is None else sum(len(span) for span in self.rendering.token_spans(block))

    def _step_json(self, step: Step) -> dict[str, Any]:
        return {
            "step": step.index,
            "message": step.message,
            "complete": step.complete,
            "blocks": [
                {
                    "block": block.name,
                    "kind": block.kind,
                    "tokens": self._tokens(block),
                    "note": self.notes.get(block.name, ""),
                }
                for block in step.blocks
            ],
        }

    def _block_rows(self, step: Step) -> list[tuple[object, ...]]:
        return [
            (
                block.name,
                block.kind.value,
                block.parts[0].message,
                self._tokens(block),
                self.notes.get(block.name, ""),
                excerpt(" ".join(_words(self.request.messages[ref.message].parts[ref.part]) for ref in block.parts)),
            )
            for block in step.blocks
        ]


def inspect(request: Request, tokenizer: Tokenizer, context_cap: int) -> Inspection:
    """Take a request apart, even an invalid or ineligible one, and say what is wrong with it."""
    found = violations(request)
    history = read_history(request)
    rendering: Rendering | None = None
    outcome: DecisionState | Ineligible
    try:
        rendering = render(request, tokenizer)
        outcome = freeze_rendered(history, rendering, found, len(tokenizer.lead), context_cap)
    except AlignmentError as error:
        outcome = Ineligible(IneligibleReason.ALIGNMENT_FAILURE, str(error))
    sets = deletion_sets(outcome, MAX_CARDINALITY) if isinstance(outcome, DecisionState) else ()
    return Inspection(request, found, history, rendering, outcome, sets, context_cap, _notes(history, outcome))


def _notes(history: History, outcome: DecisionState | Ineligible) -> dict[str, str]:
    """Return a note for each Block with something special about it; the most important one if there are several."""
    recent = {step.index for step in history.recent}
    first_message = outcome.view.first_message if isinstance(outcome, DecisionState) else 0
    notes = {}
    for step in history.steps:
        for block in step.blocks:
            if not step.complete:
                notes[block.name] = "incomplete Step"
            elif step.index in recent:
                notes[block.name] = "Recent2"
            elif step.message < first_message:
                notes[block.name] = "outside the view"
            elif block.opaque or block.pinned:
                notes[block.name] = "opaque" if block.opaque else "pinned"
    if isinstance(outcome, DecisionState):
        for number, candidate in enumerate(outcome.candidates, start=1):
            notes[candidate.block.name] = f"candidate {number}"
    return notes


def _words(part: Part) -> str:
    match part:
        case Text(text=text) | Reasoning(text=text) | Result(text=text):
            return text
        case Call(name=name, arguments=arguments):
            return f"{name} {arguments}"
        case Opaque(kind=kind):
            return f"[{kind}]"
