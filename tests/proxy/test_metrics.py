"""Prometheus' text format, read back by a parser of its own, and what the proxy counts."""

from __future__ import annotations

import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.proxy.activity import percentiles
from drsr.proxy.metrics import Counter, Gauge, Histogram, exposition
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, as Prometheus would read it; each family has its help and type first."""
    found, described = {}, set()
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# "):
            described.add(line.split(" ")[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in described or re.sub("_(bucket|sum|count)$", "", name) in described, line
        pairs = tuple(
            (key, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], text)) for key, text in LABEL.findall(labels or "")
        )
        assert (name, pairs) not in found, line
        found[name, pairs] = float(value)
    return found


@given(st.dictionaries(st.text(), st.integers(1, 2**40), max_size=5))
def test_any_label_comes_back(values: dict[str, int]) -> None:
    counter = Counter("drsr_x_total", "Help.", "what")
    for label, number in values.items():
        counter.add(label, by=number)
    assert parsed(exposition([counter])) == {
        ("drsr_x_total", (("what", label),)): number for label, number in values.items()
    }


@given(st.lists(st.floats(0, 1e4)))
def test_a_histogram_is_cumulative(values: list[float]) -> None:
    edges = (0.1, 1, 10, 100)
    histogram = Histogram("h", "Help.", edges)
    for value in values:
        histogram.observe(value)
    found = parsed(exposition([histogram]))
    for edge, shown in zip(edges, ("0.1", "1", "10", "100"), strict=True):
        assert found["h_bucket", (("le", shown),)] == sum(value <= edge for value in values)
    assert found["h_bucket", (("le", "+Inf"),)] == found["h_count", ()] == len(values)
    assert found["h_sum", ()] == pytest.approx(sum(values))


def test_a_counter_without_labels_starts_at_nothing() -> None:
    counter = Counter("c_total", "Help.")
    assert exposition([counter]) == "# HELP c_total Help.\n# TYPE c_total counter\nc_total 0\n"
    with pytest.raises(ValueError, match="c_total has the labels"):
        counter.add("x")
    assert exposition([Gauge("g", "Help.", lambda: 1.5, [("a", "b")])]).endswith('g{a="b"} 1.5\n')


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
    http.post(messages, content=b"x" * 30_000)
    http.get(f"{proxy.address}/v1/models")
    assert eventually(lambda: sum(count for _, count in proxy.app.activity.requests.items()) == 7)
    answer = http.get(f"{proxy.address}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)

    def value(name: str, **labels: str) -> float:
        return found[f"drsr_{name}", tuple(labels.items())]

    assert value("requests_total", endpoint="chat_completions", code="200") == 3
    assert value("requests_total", endpoint="other", code="200") == 1
    assert value("requests_total", endpoint="messages", code="413") == 1
    assert value("decisions_total", endpoint="chat_completions", reason="pruned") == 2
    assert value("decisions_total", endpoint="chat_completions", reason="too_few_candidates") == 1
    assert value("decisions_total", endpoint="messages", reason="bypass") == 1
    assert value("refusals_total", kind="not_json") == 1
    assert value("refusals_total", kind="body_too_large") == 1
    assert value("tokens_saved_total") == sum(saved) > 0
    assert value("decision_seconds_count") == 3
    assert value("upstream_seconds_count") == 5
    assert value("requests_in_flight") == value("requests_waiting") == value("kill_switch") == 0
    info = next(labels for name, labels in found if name == "drsr_policy_info")
    assert dict(info)["version"] == "scripted.0"
    assert all(name.startswith("drsr_") for name, _ in found)
