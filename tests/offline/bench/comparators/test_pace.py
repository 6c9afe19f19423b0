"""PACE: weights, thresholds, and forms that are written once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.pace import Pace, form_of, weights
from drsr.offline.bench.comparators.token_counts import TokenCounts
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser


@pytest.mark.parametrize(
    ("weight", "pressure", "form"),
    [
        (0.3, 0.0, "placeholder"),
        (0.41, 0.0, "brief"),
        (0.81, 0.0, "detailed"),
        (1.51, 0.0, "full"),
        (1.51, 0.1, "detailed"),  # the third threshold is 1.575 then
        (0.81, 1.0, "brief"),  # the second is 1.2
        (0.41, 1.0, "placeholder"),  # the first is 0.6
    ],
)
def test_thresholds_rise_with_pressure(weight: float, pressure: float, form: str) -> None:
    assert form_of(weight, pressure) == form


def test_weights_by_hand() -> None:
    """Two keys, one equal to the query, one without a word in common: cosines 1 and 0."""
    found = weights(["refund order", "weather outside", "refund order"])
    share = 1 / (1 + math.exp(-1 / 0.3))
    assert found == pytest.approx([2 * share, 2 * (1 - share)])


def test_weights_sum_to_their_number() -> None:
    assert weights([f"step {number} of many words" for number in range(7)]).sum() == pytest.approx(6)


def test_each_summary_is_asked_for_once() -> None:
    request, method = long_run("openai", 10), Pace(TokenCounts(ScriptedTokenizer(), window=4_000))
    summariser, state = RecordingSummariser(), method.begin()
    first = method.rewrite(request, state, summariser)
    asked = len(summariser.asked)
    assert 0 < asked == len(state.summaries)
    again = method.rewrite(request, state, summariser)
    assert len(summariser.asked) == asked
    assert again.request == first.request
    assert again.auxiliary_input_tokens == 0
    changed = [one != other for one, other in zip(first.request.messages, request.messages, strict=True)]
    assert not any(changed[:2])
    assert not any(changed[-4:])
    assert np.sum(changed) == 8
