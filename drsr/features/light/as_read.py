"""A state as its reader reads it: the view, as if it were the whole request.

Labels are measured by a language model that reads the view (a suffix of whole messages if the request is longer than
the context cap), so what comes before it neither held nor repeated anything for that reader. Online the reader is the
model that the request is sent to: it reads everything, and so the view of a light decision is the whole request. Light
columns are therefore always computed from what is read. If the view is the whole request, nothing changes.
"""

from __future__ import annotations

from dataclasses import replace

from drsr.decide.candidates import Candidate, DecisionState
from drsr.request.history import History, Step
from drsr.request.parts import PartRef
from drsr.request.rendering import Rendering
from drsr.request.view import View


def as_read(state: DecisionState) -> DecisionState:
    """Return the state of the request that begins with the view: without system text, tools and what else was cut
    off."""
    first, start, lead = state.view
    if start <= lead:
        return state
    back = start - lead
    rendering = _shifted(state.rendering, state.view)
    history = _behind(state.history, first)
    blocks = {
        block.name: moved
        for step, here in zip(_steps_behind(state.history, first), history.steps, strict=True)
        for block, moved in zip(step.blocks, here.blocks, strict=True)
    }
    candidates = tuple(
        Candidate(
            blocks[candidate.block.name],
            candidate.direct_saving,
            tuple(range(span.start - back, span.stop - back) for span in candidate.token_spans),
        )
        for candidate in state.candidates
    )
    violations = tuple(
        violation._replace(message=violation.message - first)
        for violation in state.violations
        if violation.message >= first
    )
    return DecisionState(history, rendering, View(0, 0, lead), candidates, violations)


def _steps_behind(history: History, first: int) -> list[Step]:
    return [step for step in history.steps if step.message >= first]


def _behind(history: History, first: int) -> History:
    """Return the history from message `first` on. Steps keep their Blocks, renumbered: what `protect` pinned stays
    pinned."""
    request = history.request.with_messages(history.request.messages[first:])
    steps = []
    for index, step in enumerate(_steps_behind(history, first)):
        blocks = tuple(
            replace(block, step=index, parts=tuple(PartRef(ref.message - first, ref.part) for ref in block.parts))
            for block in step.blocks
        )
        steps.append(
            replace(
                step, index=index, message=step.message - first, last_message=step.last_message - first, blocks=blocks
            )
        )
    prefix = steps[0].message if steps else len(request.messages)  # what the user says first is the task to a reader
    return History(replace(request, system=None, tools=[]), prefix, tuple(steps), history.substance[first:])


def _shifted(rendering: Rendering, view: View) -> Rendering:
    back = view.start - view.lead
    return Rendering(
        token_ids=view.token_ids(rendering.token_ids),
        message_spans=tuple(
            range(span.start - back, span.stop - back) for span in rendering.message_spans[view.first_message :]
        ),
        part_spans={
            PartRef(ref.message - view.first_message, ref.part): range(span.start - back, span.stop - back)
            for ref, span in rendering.part_spans.items()
            if ref.message >= view.first_message
        },
        prompt_length=rendering.prompt_length,
    )
