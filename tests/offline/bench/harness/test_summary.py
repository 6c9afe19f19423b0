from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.offline.bench.harness.episode import OUT_OF_STEPS, Episode, Sent
from drsr.offline.bench.harness.summary import MethodResult, summarise
from drsr.offline.bench.summarisers.token_accounting import change_percent
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.harness.settings import episode
from tests.offline.bench.slow_means import equal_domain_mean, mean_total, task_weighted_mean

QUICK = Bootstrap(replicates=50)


def one(input_tokens: int, output: int, *, direct: int = 0, auxiliary: tuple[int, int] = (0, 0)) -> tuple[Sent, ...]:
    return (Sent(input_tokens, output, 0, 0, direct, *auxiliary),)


EPISODES = [
    episode("a", "code", "baseline", sent=one(90, 10)),
    episode("b", "code", "baseline", sent=one(190, 10)),
    episode("c", "web", "baseline", sent=one(590, 10)),
    episode("a", "code", "short", sent=one(70, 10, direct=20)),
    episode("b", "code", "short", sent=one(200, 20, direct=50), reward=0.0, repeated_calls=2, ending=OUT_OF_STEPS),
    episode("c", "web", "short", sent=one(280, 10, direct=310, auxiliary=(8, 2)), reward=0.5),
]


def found(episodes: list[Episode]) -> dict[str, MethodResult]:
    return {result.method: result for result in summarise(episodes, QUICK).methods}


def test_the_accounts_by_hand() -> None:
    results = found(EPISODES)
    base, short = results["baseline"], results["short"]
    # T: 100, 200, 600 against 80, 220, 300 (the summariser's ten included).
    assert base.total["tasks"].value == 300
    assert base.total["domains"].value == (150 + 600) / 2
    assert short.total["tasks"].value == 200
    assert short.total["domains"].value == (150 + 300) / 2
    assert base.change is not None
    assert short.change is not None
    assert base.change["tasks"].value == base.change["domains"].value == 0
    assert short.change["tasks"].value == pytest.approx(100 * (200 / 300 - 1))
    assert short.change["domains"].value == pytest.approx(100 * (225 / 375 - 1))
    assert short.change["tasks"].value < 0  # a decrease, as the paper writes it
    assert short.reward["tasks"].value == 0.5
    assert short.reward["domains"].value == 0.5
    assert short.tokens == (550 / 3, 0, 0, 40 / 3, 8 / 3, 2 / 3)
    assert short.tokens.total == 200
    assert short.direct == 380 / 3
    assert short.decomposition is not None
    assert short.decomposition[:2] == (100, 380 / 3)
    assert short.decomposition.residual == pytest.approx(100 - 380 / 3)
    assert (short.failed, short.out_of_steps, short.repeated_calls, short.requests) == (1, 1, 2 / 3, 1)


def test_by_domain() -> None:
    domains = summarise(EPISODES, QUICK).domains
    assert list(domains) == ["code", "web"]
    short = domains["code"][1]
    assert (short.method, short.tasks, short.total["tasks"].value) == ("short", 2, 150)
    assert short.change is not None
    assert short.change["tasks"].value == 0
    assert math.isnan(domains["web"][0].reward["tasks"].low)  # one task says nothing about others


def test_only_shared_tasks_are_compared() -> None:
    """A run that is not finished must not compare easy tasks with hard ones."""
    both = found([one for one in EPISODES if (one.method, one.task) != ("short", "c")])
    base, part = both["baseline"], both["short"]
    assert (base.tasks, base.total["tasks"].value) == (part.tasks, part.total["tasks"].value) == (2, 150)
    assert part.change is not None
    assert part.decomposition is not None
    assert part.change["tasks"].value == 0  # 150 of 150 on a and b
    assert part.decomposition.saved == 0
    alone = found([one for one in EPISODES if one.method == "short"])["short"]
    assert (alone.change, alone.decomposition) == (None, None)


def test_what_the_endpoint_refused_from_the_start_is_compared_with_nothing() -> None:
    refused = [
        episode("d", "web", method, sent=(Sent(0, 0, 0, 0, 0, 0, 0),), reward=0.0) for method in ("baseline", "short")
    ]
    short, before = found([*EPISODES, *refused])["short"], found(EPISODES)["short"]
    assert (short.change or {})["tasks"].value == (before.change or {})["tasks"].value
    assert (short.tasks, short.compared, short.failed) == (4, 3, 2)
    assert found(refused)["short"].change is None


def test_a_task_whose_removal_nobody_can_count_counts_in_everything_else() -> None:
    uncounted = (Sent(90, 10, 0, 0, 5, 0, 0), Sent(190, 10, 0, 0, None, 0, 0))
    more = [episode("d", "web", "baseline", sent=one(390, 10)), episode("d", "web", "short", sent=uncounted)]
    short, before = found([*EPISODES, *more])["short"], found(EPISODES)["short"]
    assert (short.tasks, short.compared, short.decomposed) == (4, 4, 3)
    assert (short.direct, short.decomposition) == (before.direct, before.decomposition)
    assert short.total["tasks"].value == (80 + 220 + 300 + 300) / 4
    assert (short.change or {})["tasks"].value == pytest.approx(100 * (900 / 1300 - 1))
    alone = found(more)["short"]
    assert (alone.direct, alone.decomposed, alone.decomposition) == (None, 0, None)
    assert json.loads(json.dumps(alone.to_json(), allow_nan=False))["direct"] is None


def test_several_seeds_of_a_task_count_as_one_task() -> None:
    more = [
        *EPISODES,
        episode("c", "web", "short", sent=one(480, 10), reward=1.0, seed=1),
        episode("c", "web", "baseline", sent=one(590, 10), seed=1),
    ]
    short = found(more)["short"]
    assert short.tasks == 3
    assert short.total["tasks"].value == (80 + 220 + (300 + 490) / 2) / 3
    assert short.reward["tasks"].value == (1 + 0 + 0.75) / 3


def test_json_without_nan() -> None:
    single = [one for one in EPISODES if one.task == "a"]
    for result in summarise(single, QUICK).methods:
        text = json.dumps(result.to_json(), allow_nan=False)
        assert json.loads(text)["total"]["tasks"]["low"] is None


counts = st.integers(0, 500)


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    read, created, rest = draw(counts), draw(counts), draw(counts)
    return Sent(
        read + created + rest, draw(counts), read, created, draw(st.integers(-50, 400)), draw(counts), draw(counts)
    )


@st.composite
def runs(draw: st.DrawFn) -> list[Episode]:
    tasks = draw(st.integers(1, 5))
    made = []
    for task in range(tasks):
        domain = draw(st.sampled_from(["code", "web"]))
        for method in ("baseline", "short"):
            sent = (Sent(1, 0, 0, 0, 0, 0, 0), *draw(st.lists(requests(), max_size=3)))  # a request is never empty
            made.append(episode(str(task), domain, method, sent=sent))
    return made


@settings(max_examples=40)
@given(runs())
def test_the_identities_hold_and_both_means_agree_with_the_slow_way(episodes: list[Episode]) -> None:
    results = summarise(episodes, Bootstrap(replicates=5)).methods
    totals: dict[str, float] = {}
    for result in results:
        mine = [one for one in episodes if one.method == result.method]
        tokens = result.tokens
        # Cache counts are parts of the input: the three parts make it up, and the total does not have them again.
        assert tokens.uncached >= -1e-9
        assert tokens.input == pytest.approx(tokens.uncached + tokens.cache_read + tokens.cache_creation)
        whole = tokens.input + tokens.output + tokens.auxiliary_input + tokens.auxiliary_output
        assert result.total["tasks"].value == pytest.approx(whole)
        assert result.total["tasks"].value == pytest.approx(mean_total([one.tokens for one in mine]))
        by_hand = {
            domain: mean_total([one.tokens for one in mine if one.domain == domain])
            for domain in sorted({one.domain for one in mine})
        }
        number = {domain: sum(one.domain == domain for one in mine) for domain in by_hand}
        assert result.total["domains"].value == pytest.approx(equal_domain_mean(by_hand))
        assert result.total["tasks"].value == pytest.approx(task_weighted_mean(by_hand, number))
        totals[result.method] = result.total["tasks"].value
        # T_base - T_method = D + residual.
        assert result.decomposition is not None
        assert result.change is not None
        split = result.decomposition
        assert split.saved == pytest.approx(totals["baseline"] - totals[result.method])
        assert result.direct is not None
        assert split.saved == pytest.approx(result.direct + split.residual)
        assert result.change["tasks"].value == pytest.approx(change_percent(totals[result.method], totals["baseline"]))
        assert np.sign(round(result.change["tasks"].value, 9)) == -np.sign(round(split.saved, 9))
