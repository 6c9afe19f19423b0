"""Intervals that were made narrower, with every value as it was: the bootstrap is repeated, and gives others."""

from __future__ import annotations

import orjson

from drsr.offline.audit.checks import judged_scorer
from tests.offline.audit.published import ask, asked, by_hand
from tests.offline.small_pipeline import Pipeline


def test_a_narrower_interval(pipeline: Pipeline) -> None:
    assert asked(pipeline, judged_scorer.CHECK) == {}
    ((recorded,),) = ask(pipeline, "SELECT metrics FROM training_run")
    metrics = orjson.loads(recorded)
    chosen = next(
        metric for metric in metrics["ensemble"] if metric["low"] is not None and metric["low"] < metric["value"]
    )
    chosen["low"] = chosen["value"] - (chosen["value"] - chosen["low"]) / 4
    by_hand(pipeline, "UPDATE training_run SET metrics = ?", orjson.dumps(metrics).decode())
    caught = asked(pipeline, judged_scorer.CHECK)["scorer judged again"]
    assert f"the low end of {chosen['name']} of the ensemble ({chosen['grouping']}) is " in caught
