"""Prices by model name: what is known, what is not, and what is refused at start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import SettingsError
from drsr.policy.loading import load_policy
from drsr.policy.scripted import scripted_policy
from drsr.sessions.price_table import PriceTable, bundled_prices, model_of, plain_name
from drsr.sessions.prices import Prices

TABLE: dict[str, Any] = {
    "format": "drsr-prices/1",
    "taken": "2026-11-18",
    "source": "a test",
    "currency": "EUR",
    "providers": [{"provider": "us", "source": "here", "cache_minimum": 7, "models": {"Mine": [1, 0.5, 2, 4]}}],
}


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("gpt-5", "gpt-5"),
        ("openai/gpt-5-2025-08-07", "gpt-5"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("vertex_ai/claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("gemini/gemini-3-pro-preview", "gemini-3-pro"),
    ],
)
def test_names_of_one_model(model: str, plain: str) -> None:
    assert plain_name(model) == plain
    assert bundled_prices().of(model) == bundled_prices().models[plain]


@pytest.mark.parametrize("model", ["", "gpt-99", "gpt-5-turbo", "ft:gpt-4o-2024-08-06:us::x", "llama3:free", None])
def test_an_unknown_model_has_no_price(model: str | None) -> None:
    assert bundled_prices().of(model) is None


def test_the_bundled_table_says_when_and_where_from() -> None:
    table = bundled_prices()
    assert (table.currency, table.taken) == ("USD", "2026-11-18")
    assert "LiteLLM" in table.source
    for model, prices in table.models.items():
        assert plain_name(model) == model, "else it would never be found"
        assert 0 < prices.cached_input < prices.input <= prices.cache_write


def test_the_settings_name_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert PriceTable.chosen() is bundled_prices()
    (tmp_path / "prices.json").write_text(json.dumps(TABLE))
    monkeypatch.setenv("DRSR_PRICES", "prices.json")
    table = PriceTable.chosen()
    assert table.of("us/mine") == Prices(1, 0.5, 2, 4, cache_minimum=7)
    assert (table.of("gpt-5"), table.currency) == (None, "EUR")
    monkeypatch.setenv("DRSR_PRICES", "3,0.3,3.75,15")
    assert PriceTable.chosen().of("anything") == PriceTable.chosen().of(None) == Prices(3, 0.3, 3.75, 15)


@pytest.mark.parametrize("prices", ["3,-0.3,3.75,15", "nan,0,0,0", "3,0.3,inf,15", "1,2,3", "no-such-file.json"])
def test_a_price_that_is_none_is_an_error_when_a_policy_is_loaded(
    prices: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted_policy().save("policy")
    monkeypatch.setenv("DRSR_PRICES", prices)
    with pytest.raises(SettingsError, match="price"):
        load_policy("policy")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "else"}, "its format is not"),
        ({"providers": [{"models": {"m": [1, 2, 3]}}]}, "m must have four prices"),
        ({"providers": [{"models": {"m": [1, 2, 3, -4]}}]}, "m: the price setting output must be a number from 0 on"),
        ({"providers": [{"models": {"m": [1, 2, 3, "4"]}}]}, "m: the price setting output"),
        ({"providers": 7}, "is not a table of prices"),
        ({"providers": [{}]}, "it has no 'models'"),
    ],
)
def test_a_table_that_is_none_says_what_is_wrong(change: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        PriceTable.from_json(json.dumps(TABLE | change), "t.json")
    with pytest.raises(SettingsError, match="is not a table of prices"):
        PriceTable.from_json("[", "t.json")
    with pytest.raises(SettingsError, match="its format is not"):
        PriceTable.from_json("[]", "t.json")


def test_the_model_of_a_request() -> None:
    assert model_of({"model": "gpt-5"}) == "gpt-5"
    nameless: list[Any] = [{"model": 5}, {"model": ""}, [], None]
    assert [model_of(body) for body in nameless] == [None] * 4
