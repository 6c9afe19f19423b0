"""Spans of Blocks in the view: token ranges of the full request, checked and shifted to the backbone's positions."""

from __future__ import annotations

import hashlib

import numpy as np

from drsr.decide.candidates import Candidate, DecisionState
from drsr.errors import EmptySpan, MisalignedSpan, OutsideView
from drsr.request.view import View

Spans = tuple[range, ...]
"""The positions of one Block in the view, ascending; an exchange has two ranges where call and result are apart."""


def candidate_spans(state: DecisionState) -> tuple[Spans, ...]:
    """Return the spans of every candidate in the view."""
    return tuple(_checked(state, candidate) for candidate in state.candidates)


def block_spans(state: DecisionState) -> tuple[Spans, ...]:
    """Return the spans of every Block that is in the view and has tokens, whether it is a candidate now or not."""
    blocks = (
        block for step in state.history.steps if step.message >= state.view.first_message for block in step.blocks
    )
    found = (state.rendering.token_spans(block) for block in blocks)
    return tuple(_shifted(spans, state.view) for spans in found if spans)


def prefix_hash(state: DecisionState) -> str:
    """Return the SHA-256 of the exact prefix: the full request's token ids and where the view cuts them."""
    hashed = hashlib.sha256(f"drsr prefix/1 {state.view.start} {state.view.lead}\n".encode())
    hashed.update(np.ascontiguousarray(state.rendering.token_ids, dtype="<i4").tobytes())
    return hashed.hexdigest()


def _checked(state: DecisionState, candidate: Candidate) -> Spans:
    """Return a candidate's spans in the view, or raise an error that names what is wrong with them."""
    where, spans, view = f"Block {candidate.block.name}", candidate.token_spans, state.view
    if not spans or not all(len(span) for span in spans):
        raise EmptySpan("it has no tokens of its own", where=where)
    ends = [0, *(edge for span in spans for edge in (span.start, span.stop)), state.rendering.pre_action_position]
    if ends != sorted(ends) or any(span.step != 1 for span in spans):
        raise MisalignedSpan(f"its token spans {_written(spans)} are not ascending ranges of the prefix", where=where)
    expected = state.rendering.token_spans(candidate.block)
    if spans != expected:
        raise MisalignedSpan(f"its token spans are {_written(spans)}, not {_written(expected)}", where=where)
    if _is_cut(view) and spans[0].start < view.start:
        raise OutsideView(f"it starts at token {spans[0].start}, the view at token {view.start}", where=where)
    return _shifted(spans, view)


def _shifted(spans: Spans, view: View) -> Spans:
    """Convert positions of the full request to those of the view, which keeps `lead` tokens in front."""
    if not _is_cut(view):
        return spans
    back = view.start - view.lead
    return tuple(range(span.start - back, span.stop - back) for span in spans)


def _is_cut(view: View) -> bool:
    return view.start > view.lead


def _written(spans: Spans) -> str:
    return " + ".join(f"{span.start}..{span.stop}" for span in spans) or "empty"
