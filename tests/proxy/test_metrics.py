"""Prometheus' text format, read back by its own parser, and what the proxy counts."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from drsr.policy.scripted import scripted_policy
from drsr.proxy.activity import Activity, counted, percentiles
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.seeded_policies import with_distribution


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, as Prometheus' own parser reads it; each family has its help and type."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in {"counter", "gauge", "histogram"}
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, sample
            found[key] = sample.value
    return found


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 2**40), max_size=5))
def test_any_label_comes_back(values: dict[str, int]) -> None:
    activity = Activity()
    for label, number in values.items():
        activity.refusals.labels(label).inc(number)
    found = parsed(activity.exposition().decode())
    shown = {dict(labels)["kind"]: value for (name, labels), value in found.items() if name == "drsr_refusals_total"}
    assert shown == values == {kind: count for (kind,), count in counted(activity.refusals).items()}


def test_a_counter_without_labels_starts_at_nothing_and_a_gauge_is_asked() -> None:
    activity = Activity()
    activity.watch("drsr_g", "Help.", lambda: 1.5, {"a": "b"})
    found = parsed(activity.exposition().decode())
    assert found["drsr_tokens_total", ()] == 0
    assert found["drsr_g", (("a", "b"),)] == 1.5


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_of_the_values(values: list[float]) -> None:
    found = percentiles(values)
    assert found is not None
    for share in (50, 90, 99):
        least = next(value for value in sorted(values) if 100 * sum(v <= value for v in values) >= share * len(values))
        assert found[f"p{share}"] == round(least, 1)
    assert percentiles([]) is None


def test_what_the_proxy_counts(start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client) -> None:
    proxy = start_proxy(max_body=20_000)
    chat, messages = f"{proxy.address}/v1/chat/completions", f"{proxy.address}/v1/messages"
    saved = [int(http.post(chat, json=openai_body(steps=steps)).headers["x-drsr-tokens-saved"]) for steps in (2, 7, 9)]
    http.post(messages, json=anthropic_body(), headers={"x-drsr-bypass": "1"})
    http.post(messages, content=b"x")
    http.post(messages, json=anthropic_body(padding="x" * 30_000))
    http.get(f"{proxy.address}/v1/models")
    assert eventually(lambda: sum(counted(proxy.app.activity.requests).values()) == 7)
    answer = http.get(f"{proxy.address}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)

    def value(name: str, **labels: str) -> float:
        return found[f"drsr_{name}", tuple(sorted(labels.items()))]

    assert value("requests_total", endpoint="chat_completions", code="200") == 3
    assert value("requests_total", endpoint="other", code="200") == 1
    assert value("decisions_total", endpoint="chat_completions", reason="pruned") == 2
    assert value("decisions_total", endpoint="chat_completions", reason="too_few_candidates") == 1
    assert value("decisions_total", endpoint="messages", reason="bypass") == 1
    assert value("refusals_total", kind="not_json") == 1
    assert value("decisions_total", endpoint="messages", reason="too_large") == 1
    assert value("tokens_saved_total") == sum(saved) > 0
    assert value("decision_seconds_count") == 3
    assert value("upstream_seconds_count") == 6
    assert value("requests_in_flight") == value("requests_waiting") == value("kill_switch") == 0
    info = next(labels for name, labels in found if name == "drsr_policy_info")
    assert dict(info)["version"] == "scripted.0"
    assert all(name.startswith("drsr_") for name, _ in found)


@pytest.mark.parametrize(("limit", "where"), [(1e-6, "outside"), (1e6, "inside")])
def test_requests_unlike_the_training_states_are_counted(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, limit: float, where: str
) -> None:
    proxy = start_proxy(policy=with_distribution(scripted_policy(), limit))
    chat = f"{proxy.address}/v1/chat/completions"
    for steps in (2, 7):  # from the first nothing could go, so that nothing is read
        http.post(chat, json=openai_body(steps=steps))
    assert eventually(lambda: proxy.count("compared", where) == 1)
    assert proxy.app.activity.to_json()["compared"] == {where: 1}
    recent = proxy.app.activity.to_json()["recent"]
    assert [each["outside"] for each in recent] == [where == "outside", None]
    assert f'drsr_compared_total{{where="{where}"}} 1.0' in http.get(f"{proxy.address}/metrics").text
