"""Rates by context length, held against past runs: on a simulated device whose every token has a known price."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import pytest

from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.cost import (
    PROBE_LENGTHS,
    Rate,
    longest_of,
    measure_rates,
    past_runs,
    price,
    seconds_for,
)
from drsr.offline.freeze.stage import freeze
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import Method, Pair, Scores, TargetNll
from drsr.offline.plan import LabelPlan, Stretch, stretches_of
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.devices import device_name
from drsr.request.contracts import TokenIds
from tests.offline.test_plan import BACKBONE, CAPS, ingested, planned
from tests.tiny_backbones import tiny_backbone

__all__ = ["ingested"]
TOKEN, DEPTH = 1e-4, 1e-7
"""Seconds that the simulated device takes for a token, and for every token that stands before it."""


class SimulatedDevice(TargetNll):
    """A double that computes nothing: its clock goes on as a device's would."""

    def __init__(self, method: Method = Method.SHARED_PREFIX) -> None:
        super().__init__(ScriptedBackbone())
        self.method, self.now = method, 0.0

    def verify(self, token_ids: TokenIds) -> None:
        self.now += 1.0

    def score(self, pairs: Sequence[Pair], watches: Mapping[int, object] | None = None) -> Scores:
        lengths = [len(pair.context) + len(pair.target) for pair in pairs]
        self.now += sum(_seconds(0, length) for length in lengths)
        return Scores(tuple(0.0 for _ in pairs), self.method, sum(lengths), sum(lengths))


def _seconds(start: int, stop: int) -> float:
    """The slow twin: token by token."""
    return sum(TOKEN + DEPTH * (position + 0.5) for position in range(start, stop))


def rates_of(device: SimulatedDevice, longest: int) -> tuple[Rate, ...]:
    return measure_rates(device, longest, clock=lambda: device.now)


def test_three_lengths_are_measured_and_the_longest_is_the_plans() -> None:
    rates = rates_of(SimulatedDevice(), 4_096)
    assert [rate.length for rate in rates] == [256, 1_024, 4_096]
    assert len(rates) == PROBE_LENGTHS
    for rate in rates:
        assert rate.tokens_per_second == pytest.approx(rate.length / _seconds(0, rate.length))


def test_a_slow_device_is_not_measured_for_minutes() -> None:
    class Slow(SimulatedDevice):
        def score(self, pairs: Sequence[Pair], watches: Mapping[int, object] | None = None) -> Scores:
            scores = super().score(pairs)
            self.now += 0.005 * scores.tokens_processed
            return scores

    device = Slow()
    rates = rates_of(device, 10_000)
    assert rates[-1].length < 2_000
    assert device.now < 40


def test_short_plans_are_measured_at_their_length() -> None:
    assert [rate.length for rate in rates_of(SimulatedDevice(), 100)] == [25, 50, 100]
    assert len(rates_of(SimulatedDevice(), 0)) == PROBE_LENGTHS


def test_what_a_plan_takes_is_what_its_tokens_take_one_by_one() -> None:
    rates = rates_of(SimulatedDevice(), 4_096)
    assert seconds_for(rates, [Stretch(2_000, 2_000)]) == pytest.approx(_seconds(0, 2_000))
    behind = seconds_for(rates, [Stretch(3_900 + 4_000, 100)])
    assert behind == pytest.approx(_seconds(3_900, 4_000)), "deep in a context, longer than any that was measured"
    assert seconds_for(rates, []) == 0


def test_long_contexts_cost_more_a_token_than_one_short_measurement_says() -> None:
    """The defect that this mends: one rate, of 1,088 tokens, was taken for contexts of any length."""
    rates = rates_of(SimulatedDevice(), 8_192)
    long = [Stretch(32_768, 32_768)]
    one_rate = 32_768 / (1_088 / _seconds(0, 1_088))
    assert seconds_for(rates, long) == pytest.approx(_seconds(0, 32_768), rel=1e-3)
    assert seconds_for(rates, long) > 10 * one_rate


def test_the_tokens_of_a_plan_are_priced_by_what_will_be_computed(ingested: Catalog, artifacts: ArtifactStore) -> None:
    plan = planned(ingested, artifacts).label
    for method, needed in ((Method.DIRECT, plan.naive), (Method.SHARED_PREFIX, plan.shared)):
        device = SimulatedDevice(method)
        rates = rates_of(device, longest_of(plan.naive))
        found = price(rates, device, plan, [Stretch(500, 500)], 2, None, ())
        assert found.method is method
        assert found.label_hours == pytest.approx(seconds_for(rates, needed) / 3600)
        assert found.label_minutes == pytest.approx(30 * found.label_hours), "two at a time"
        assert found.device_hours == pytest.approx(found.label_hours + _seconds(0, 500) / 3600, rel=0.01)
        assert (found.past_runs, found.past_ratio) == (0, 1.0)


def test_a_real_model_has_a_price() -> None:
    scorer = TargetNll(tiny_backbone("llama"))
    rates = measure_rates(scorer, 200)
    assert scorer.method is Method.SHARED_PREFIX
    assert all(rate.tokens_per_second > 0 for rate in rates)


def note_run(catalog: Catalog, **counts: object) -> None:
    with catalog.writing() as connection:
        found = {"device": "a GPU", "method": "shared_prefix", "workers": 1, "seconds": 100.0, "tokens_processed": 1000}
        finish_run(connection, start_run(connection, "label", "default", "0"), {**found, **counts})


def test_past_runs_of_another_kind_say_nothing(catalog: Catalog) -> None:
    with catalog.reading() as connection:
        assert past_runs(connection, 1, "default", "a GPU", Method.SHARED_PREFIX, 1) is None
    note_run(catalog, device="another GPU")
    note_run(catalog, method="direct")
    note_run(catalog, seconds=0.5)
    note_run(catalog, tokens_processed=0)
    with catalog.writing() as connection:
        start_run(connection, "label", "default", "0")  # still at work
    with catalog.reading() as connection:
        assert past_runs(connection, 1, "default", "a GPU", Method.SHARED_PREFIX, 1) is None
        note = past_runs(connection, 1, "default", "another GPU", Method.SHARED_PREFIX, 1)
        assert note is not None
        assert past_runs(connection, 1, "another labeler", "a GPU", Method.SHARED_PREFIX, 1) is None


def test_past_runs_with_as_many_workers_count_or_those_nearest(catalog: Catalog) -> None:
    for workers, seconds in ((1, 100.0), (4, 200.0), (4, 300.0)):
        note_run(catalog, workers=workers, seconds=seconds)
    with catalog.reading() as connection:
        four = past_runs(connection, 1, "default", "a GPU", Method.SHARED_PREFIX, 4)
        eight = past_runs(connection, 1, "default", "a GPU", Method.SHARED_PREFIX, 8)
    assert four is not None
    assert (four.runs, four.workers, four.seconds, four.tokens) == (2, 4, 500.0, 2000)
    assert eight == four


def test_the_next_run_takes_as_much_longer_as_the_last(ingested: Catalog, artifacts: ArtifactStore) -> None:
    """A run that was half done is planned by what its first half took: three times what its device measures now."""
    freeze(ingested, artifacts, BACKBONE.tokenizer, CAPS)
    scorer = TargetNll(BACKBONE)
    whole = planned(ingested, artifacts).label
    done = label(ingested, artifacts, scorer, label_run(scorer, "float32", CAPS, limit=1))
    assert (done.device, done.method) == (device_name("cpu"), "direct")
    device = SimulatedDevice(Method.DIRECT)
    rates = rates_of(device, longest_of(whole.naive))
    worked_on = whole.tokens_naive - planned(ingested, artifacts, labeler_id=1).label.tokens_naive
    assert worked_on == done.tokens_processed
    _as_if_it_took(ingested, 30.0)
    with ingested.reading() as connection:
        past = past_runs(connection, 1, "default", device_name("cpu"), Method.DIRECT, 1)
    assert past is not None
    assert (past.runs, past.tokens, past.workers) == (1, worked_on, 1)
    before = stretches_of(artifacts, past.blobs, BACKBONE.tokenizer, CAPS, shared=False)
    left = planned(ingested, artifacts, labeler_id=1).label
    plain = price(rates, device, left, (), 1, None, ())
    found = price(rates, device, left, (), 1, past, before)
    assert found.past_ratio == pytest.approx(30.0 / seconds_for(rates, before))
    assert found.label_hours == pytest.approx(found.past_ratio * plain.label_hours)
    assert price(rates, device, left, (), 1, past, ()).past_runs == 0, "nothing is left to compare it by"


def _as_if_it_took(catalog: Catalog, seconds: float) -> None:
    from sqlalchemy import select, update

    from drsr.offline.catalog.tables import Execution

    with catalog.writing() as connection:
        run = connection.execute(select(Execution).where(Execution.stage == "label")).one()
        assert run.finished_at - run.started_at < datetime.timedelta(seconds=30)
        connection.execute(
            update(Execution).where(Execution.id == run.id).values(counts=run.counts | {"seconds": seconds})
        )


def test_a_plan_of_nothing_costs_nothing() -> None:
    device = SimulatedDevice()
    nothing = LabelPlan(0, 0, 0, 0, 0, 0, 0, False, {})
    assert price(rates_of(device, 0), device, nothing, (), 4, None, ()).device_hours == 0
