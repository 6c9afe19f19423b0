"""Replay: every method rewrites the same recorded decisions, and the same recorded next output is scored again.

A recorded decision is a state of the catalog: its request, and the output that was recorded next. Each method rewrites
the request; the label engine, with the language model of the labels, measures how much less likely that output became.
All contexts of a trajectory are scored in one walk, without those that a label has measured already.

Removal, auxiliary tokens and time cover every decision; harm is measured if the language model reads the request and
the rewrite as a whole.

This is not task reward. The target is fixed, no agent acts on the rewritten request, and a method that writes summaries
is judged by an output that never saw one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import NamedTuple

from drsr.errors import AlignmentError
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.replay.checked import Checked, checked_rewrite
from drsr.offline.bench.replay.labelled_nlls import KnownNlls, score_unknown
from drsr.offline.bench.replay.method_version import version_with
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.freeze.rows import StateRow
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.label.target_nll import Outcome, Pair, TargetNll
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.rendering import Rendering, render, render_output
from drsr.request.request import Request
from drsr.request.view import Caps, caps_for

NOT_TOKENIZED = "the language model's tokenizer cannot represent the rewrite"


class RecordedRun(NamedTuple):
    """A trajectory and those of its decisions that are replayed."""

    name: str
    """Source and external id."""
    task: str
    """Unit that tasks are weighted by: the group that no split divides."""
    domain: str
    states: Sequence[StateRow]
    """Those that are replayed, in order of their decisions. The latest request holds all earlier ones."""


class Replayed(NamedTuple):
    """One row per recorded decision and method."""

    run: str
    task: str
    domain: str
    state_key: str
    method: str
    title: str
    """Title of the method, for tables."""
    trained: str
    """Says whether its model is the one that its source trained."""
    request_tokens: int
    """Tok(C) of the whole request."""
    removed_tokens: int
    """Tok(C) minus the tokens of the rewrite, rendered whole. Negative if a method made the request longer."""
    changed: bool
    """False if the method left the request unchanged, or fell back to it."""
    intact_nll: float | None
    rewritten_nll: float | None
    """NLL under the rewrite; None if the language model cannot read the request, or the rewrite, as a whole."""
    why_not_measured: str
    """Reason why it was not measured; empty if it was."""
    requests: int
    """Number of decisions that the method made since the previously replayed one, this one included."""
    auxiliary_input_tokens: int
    auxiliary_output_tokens: int
    """Tokens that the method's own model calls took for all of these."""
    seconds: float
    """Spent rewriting all of these; model calls included."""
    violations: int
    """Rules of the protocol that the rewrite would have broken."""
    why_fell_back: str
    """Reason why the original request was sent although the method meant to change it; empty if it did not fall
    back."""
    lost: tuple[str, ...]
    """Parts that the rewrite no longer keeps unchanged: prefix, task, recent2, user."""
    claims_broken: tuple[str, ...]
    """Parts among these that the method claims to keep."""
    version: str
    """Version of the method: its policy, fit or package, and the author of its summaries."""

    @property
    def fell_back(self) -> bool:
        return bool(self.why_fell_back)

    @property
    def harm(self) -> float | None:
        if self.intact_nll is None or self.rewritten_nll is None:
            return None
        return self.rewritten_nll - self.intact_nll

    @property
    def unsafe(self) -> bool | None:
        return None if self.harm is None else self.harm > HARM_TOLERANCE


class _Rewritten(NamedTuple):
    """One method's rewrite of one recorded decision, before anything is measured."""

    state: int
    method: Comparator
    checked: Checked
    rendering: Rendering
    requests: int
    auxiliary_input: int
    auxiliary_output: int
    seconds: float


def replay(
    run: RecordedRun,
    methods: Iterable[Comparator],
    summariser: Summariser,
    scorer: TargetNll,
    known: KnownNlls = MappingProxyType({}),
) -> list[Replayed]:
    """Return every method on every recorded decision of one trajectory; what is in `known` is not measured again."""
    tokenizer, caps = scorer.backbone.tokenizer, caps_for(scorer.backbone.window)
    rewritten = [found for method in methods for found in _rewrite(run, method, summariser, tokenizer)]
    targets = [render_output(row.frozen.next_output, tokenizer) for row in run.states]
    pairs: list[Pair] = []
    intact: list[int | Exclusion] = []
    for row, target in zip(run.states, targets, strict=True):
        intact.append(_asked(pairs, row.frozen.state.rendering, target, caps))
    places: list[int | Exclusion] = []
    for found in rewritten:
        whole = intact[found.state]
        if isinstance(whole, Exclusion) or not _changed(run, found):
            places.append(whole)
        else:
            places.append(_asked(pairs, found.rendering, targets[found.state], caps))
    nlls = score_unknown(scorer, pairs, known)

    def outcome(place: int | Exclusion) -> Outcome:
        return place if isinstance(place, Exclusion) else nlls[place]

    return [
        _row(run, found, summariser, outcome(intact[found.state]), outcome(place))
        for found, place in zip(rewritten, places, strict=True)
    ]


def _asked(pairs: list[Pair], rendering: Rendering, target: TokenIds, caps: Caps) -> int | Exclusion:
    """Return where the answer will be. Only what fits as a whole is measured: for a request that is cut, a shorter
    rewrite would show the model older history than the request itself did, and a summary of what it never saw."""
    if len(rendering) > caps.context:
        what = f"{len(rendering):,} tokens, and the language model reads {caps.context:,}"
        return Exclusion(ExclusionReason.CONTEXT_TOO_LONG, what)
    pairs.append(Pair(rendering.token_ids, target))
    return len(pairs) - 1


def _rewrite(run: RecordedRun, method: Comparator, summariser: Summariser, tokenizer: Tokenizer) -> list[_Rewritten]:
    """Run one method along one trajectory. A method with memory runs at every decision from the first on, in order, as
    an agent would; one without runs only at the replayed decisions, where its answer is the same."""
    numbers = {row.frozen.decision: number for number, row in enumerate(run.states)}
    memory = method.begin()
    found: list[_Rewritten] = []
    requests = spent_in = spent_out = 0
    seconds = 0.0
    for decision, request in _requests(run):
        if memory is None and decision not in numbers:
            continue
        checked = checked_rewrite(method, request, memory, summariser)
        requests += 1
        seconds += checked.seconds
        spent_in += checked.rewrite.auxiliary_input_tokens
        spent_out += checked.rewrite.auxiliary_output_tokens
        if decision in numbers:
            number = numbers[decision]
            checked, rendering = _rendered(checked, run.states[number], tokenizer)
            spent = (requests, spent_in, spent_out, seconds)
            found.append(_Rewritten(number, method, checked, rendering, *spent))
            requests = spent_in = spent_out = 0
            seconds = 0.0
    return found


def _rendered(checked: Checked, row: StateRow, tokenizer: Tokenizer) -> tuple[Checked, Rendering]:
    """Return the tokens of what is sent. A tokenizer may have none for what a method wrote: then the original is sent,
    as for an invalid rewrite."""
    request, whole = row.frozen.state.history.request, row.frozen.state.rendering
    if checked.request is request:
        return checked, whole
    try:
        return checked, render(checked.request, tokenizer)
    except AlignmentError:
        return checked._replace(request=request, failure=NOT_TOKENIZED), whole


def _requests(run: RecordedRun) -> Iterator[tuple[int, Request]]:
    """Yield every decision up to the last that is replayed, with its request. Demonstrations are in the prefix: they
    are not decisions of this run."""
    replayed = {row.frozen.decision: row.frozen.state.history.request for row in run.states}
    last = run.states[-1].frozen.state.history
    for decision in sorted(replayed.keys() | {step.message for step in last.steps}):
        request = replayed.get(decision)
        yield decision, last.request.with_messages(last.request.messages[:decision]) if request is None else request


def _changed(run: RecordedRun, found: _Rewritten) -> bool:
    return found.checked.request is not run.states[found.state].frozen.state.history.request


def _row(run: RecordedRun, found: _Rewritten, summariser: Summariser, intact: Outcome, outcome: Outcome) -> Replayed:
    row = run.states[found.state]
    whole = len(row.frozen.state.rendering)
    excluded = next((each for each in (intact, outcome) if isinstance(each, Exclusion)), None)
    return Replayed(
        run=run.name,
        task=run.task,
        domain=run.domain,
        state_key=row.state_key,
        method=found.method.name,
        title=found.method.title,
        trained=found.method.trained,
        request_tokens=whole,
        removed_tokens=whole - len(found.rendering),
        changed=_changed(run, found),
        intact_nll=None if isinstance(intact, Exclusion) else intact,
        rewritten_nll=None if isinstance(outcome, Exclusion) else outcome,
        why_not_measured="" if excluded is None else f"{excluded.reason}: {excluded.detail}",
        requests=found.requests,
        auxiliary_input_tokens=found.auxiliary_input,
        auxiliary_output_tokens=found.auxiliary_output,
        seconds=found.seconds,
        violations=len(found.checked.violations),
        why_fell_back=found.checked.reason,
        lost=tuple(sorted(found.checked.lost)),
        claims_broken=tuple(sorted(found.checked.lost & found.method.keeps)),
        version=version_with(found.method, summariser),
    )
