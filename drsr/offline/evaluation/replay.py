"""Replay: every method rewrites the same recorded decisions, and the same recorded next output is scored again.

A recorded decision is a state of the catalog: its request, and the output that was recorded next. Each method rewrites
the request; the label engine, with the language model of the labels, measures how much less likely that output became.
All contexts of a trajectory are scored in one walk.

What this is not: task reward. The target is fixed, nobody acts on the rewritten request, and a method that writes
summaries is judged by an output that never saw one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from drsr.contracts import Tokenizer
from drsr.history import read_history
from drsr.offline.evaluation.checked import Checked, checked_rewrite
from drsr.offline.evaluation.comparators.contract import Comparator
from drsr.offline.evaluation.summariser import Summariser
from drsr.offline.frozen_rows import StateRow
from drsr.offline.harm import HARM_TOLERANCE
from drsr.offline.target_nll import Exclusion, ExclusionReason, Outcome, Pair, TargetNll
from drsr.offline.trajectories import Trajectory
from drsr.rendering import Rendering, render, render_output
from drsr.request import Request, read_request
from drsr.view import Caps, caps_for, find_view


class RecordedRun(NamedTuple):
    """A trajectory and those of its decisions that are replayed."""

    name: str
    """Source and external id."""
    task: str
    """What tasks are weighed by: the task's identity, or the run itself where the source knows none."""
    domain: str
    trajectory: Trajectory
    states: Sequence[StateRow]
    """In order of their decisions."""


class Replayed(NamedTuple):
    """One row per recorded decision and method."""

    run: str
    task: str
    domain: str
    state_key: str
    method: str
    title: str
    """Of the method, for tables."""
    trained: str
    """Whether its model is what its source trained."""
    request_tokens: int
    """Tok(C) of the whole request."""
    removed_tokens: int
    """Tok(C) less the tokens of the rewrite, rendered whole. Negative where a method made the request longer."""
    changed: bool
    """False where the method left the request as it was, or fell back to it."""
    intact_nll: float
    rewritten_nll: float | None
    why_not_measured: str
    """Empty where it was measured."""
    auxiliary_input_tokens: int
    auxiliary_output_tokens: int
    """What the method's own model calls took since the decision that was replayed before."""
    seconds: float
    """Spent rewriting, since then; model calls included."""
    violations: int
    """Rules of the protocol that the rewrite would have broken."""
    fell_back: bool
    lost: tuple[str, ...]
    """What the rewrite no longer has as it was: prefix, task, recent2, user."""

    @property
    def harm(self) -> float | None:
        return None if self.rewritten_nll is None else self.rewritten_nll - self.intact_nll

    @property
    def unsafe(self) -> bool | None:
        return None if self.harm is None else self.harm > HARM_TOLERANCE


class _Rewritten(NamedTuple):
    """What one method made of one recorded decision, before anything is measured."""

    state: int
    method: str
    title: str
    trained: str
    checked: Checked
    rendering: Rendering
    auxiliary_input: int
    auxiliary_output: int
    seconds: float


def replay(
    run: RecordedRun, methods: Mapping[str, Comparator], summariser: Summariser, scorer: TargetNll
) -> list[Replayed]:
    """Every method on every recorded decision of one trajectory."""
    tokenizer, caps = scorer.backbone.tokenizer, caps_for(scorer.backbone.window)
    rewritten = [
        found for name, method in methods.items() for found in _rewrite(run, name, method, summariser, tokenizer)
    ]
    targets = [render_output(row.frozen.next_output, tokenizer) for row in run.states]
    pairs: list[Pair] = []
    for row, target in zip(run.states, targets, strict=True):
        state = row.frozen.state
        pairs.append(Pair(state.view.token_ids(state.rendering.token_ids), target))
    places: list[int | Exclusion] = []
    for found in rewritten:
        context = _context(found, tokenizer, caps)
        if isinstance(context, Exclusion):
            places.append(context)
        elif not _changed(run, found):
            places.append(found.state)
        else:
            places.append(len(pairs))
            pairs.append(Pair(context, targets[found.state]))
    nlls = scorer.score(pairs).nlls
    rows = []
    for found, place in zip(rewritten, places, strict=True):
        intact = nlls[found.state]
        if not isinstance(intact, Exclusion):  # without it there is nothing to compare with
            rows.append(_row(run, found, intact, place if isinstance(place, Exclusion) else nlls[place]))
    return rows


def _rewrite(
    run: RecordedRun, name: str, method: Comparator, summariser: Summariser, tokenizer: Tokenizer
) -> list[_Rewritten]:
    """One method along one trajectory. What remembers nothing is asked at the replayed decisions only."""
    whole = read_request(run.trajectory.request, protocol=run.trajectory.protocol, where=run.name)
    numbers = {row.frozen.decision: number for number, row in enumerate(run.states)}
    memory = method.begin()
    last = max(numbers, default=-1)
    found: list[_Rewritten] = []
    spent_in = spent_out = 0
    seconds = 0.0
    for decision, message in enumerate(whole.messages[: last + 1]):
        if message.role != "assistant" or (memory is None and decision not in numbers):
            continue
        request = _request_of(run, numbers.get(decision), whole, decision)
        started = time.perf_counter()
        checked = checked_rewrite(method, request, memory, summariser)
        seconds += time.perf_counter() - started
        spent_in += checked.rewrite.auxiliary_input_tokens
        spent_out += checked.rewrite.auxiliary_output_tokens
        if decision in numbers:
            number = numbers[decision]
            state = run.states[number].frozen.state
            same = checked.request is request
            rendering = state.rendering if same else render(checked.request, tokenizer)
            found.append(
                _Rewritten(number, name, method.title, method.trained, checked, rendering, spent_in, spent_out, seconds)
            )
            spent_in, spent_out, seconds = 0, 0, 0.0
    return found


def _request_of(run: RecordedRun, number: int | None, whole: Request, decision: int) -> Request:
    if number is not None:
        return run.states[number].frozen.state.history.request
    return whole.with_messages(whole.messages[:decision])


def _changed(run: RecordedRun, found: _Rewritten) -> bool:
    return found.checked.request is not run.states[found.state].frozen.state.history.request


def _context(found: _Rewritten, tokenizer: Tokenizer, caps: Caps) -> Any:
    """The tokens that the model reads of a rewrite: all, or the longest suffix that fits, as for every label."""
    view = find_view(read_history(found.checked.request), found.rendering, len(tokenizer.lead), caps.context)
    if view is None:
        what = f"{len(found.rendering)} tokens, and not even its recent Steps fit {caps.context}"
        return Exclusion(ExclusionReason.CONTEXT_TOO_LONG, what)
    return view.token_ids(found.rendering.token_ids)


def _row(run: RecordedRun, found: _Rewritten, intact: float, outcome: Outcome) -> Replayed:
    row = run.states[found.state]
    whole = len(row.frozen.state.rendering)
    measured = not isinstance(outcome, Exclusion)
    return Replayed(
        run=run.name,
        task=run.task,
        domain=run.domain,
        state_key=row.state_key,
        method=found.method,
        title=found.title,
        trained=found.trained,
        request_tokens=whole,
        removed_tokens=whole - len(found.rendering),
        changed=_changed(run, found),
        intact_nll=intact,
        rewritten_nll=outcome if measured else None,  # type: ignore[arg-type]
        why_not_measured="" if measured else f"{outcome.reason}: {outcome.detail}",  # type: ignore[union-attr]
        auxiliary_input_tokens=found.auxiliary_input,
        auxiliary_output_tokens=found.auxiliary_output,
        seconds=found.seconds,
        violations=len(found.checked.violations),
        fell_back=found.checked.fell_back,
        lost=tuple(sorted(found.checked.lost)),
    )
