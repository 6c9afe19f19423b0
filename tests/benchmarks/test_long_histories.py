"""Long histories: what lies before the window, counted by hand."""

from __future__ import annotations

from benchmarks.long_histories import compared, shown
from drsr.request.history import read_history
from drsr.request.rendering import render
from drsr.request.request import read_request
from tests.features.states import run_messages
from tests.tokenizer_kinds import scripted


def test_what_lies_outside_the_window_is_counted() -> None:
    request = read_request(run_messages(12, words=30))
    history, rendering = read_history(request), render(request, scripted())
    removable = [block for step in history.older for block in step.blocks]
    assert len(removable) == 20  # a state and an exchange of each Step before the latest two
    tokens = sum(len(span) for block in removable for span in rendering.token_spans(block))

    whole = compared("runs", 1, history, rendering, 0, len(rendering))
    assert whole is not None
    assert (whole.tokens, whole.removable, whole.outside) == (len(rendering), tokens, 0)
    assert whole.full == whole.light > 0

    cap = len(rendering) - rendering.message_spans[history.steps[6].message].start  # the view begins with Step 6
    part = compared("runs", 1, history, rendering, 0, cap)
    assert part is not None
    before = [block for block in removable if block.step < 6]
    assert part.outside == sum(len(span) for block in before for span in rendering.token_spans(block)) > 0
    assert part.proposes
    assert part.light == whole.light
    assert part.full < part.light

    little = compared("runs", 1, history, rendering, 0, cap // 3)
    assert little is not None
    assert (little.proposes, little.full) == (False, 0)
    assert "2 of 3" in shown([whole, part, little])
