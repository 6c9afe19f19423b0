"""Prices by model name: the list prices of the large providers, or a table of your own in the same form.

    table = PriceTable.chosen()         # DRSR_PRICES or `prices` in drsr.toml, else the bundled list_prices.json
    table.of("openai/gpt-5-2025-08-07")

A model that the table does not name has no price: then its savings are counted in tokens alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from drsr.errors import SettingsError
from drsr.sessions.prices import Prices
from drsr.settings import load_settings

FORMAT = "drsr-prices/1"
BUNDLED = "list_prices.json"
_OPTIONAL = ("cache_minimum", "cache_lifetime")
_VERSION = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}|latest|preview|default))+$|-v\d+(:\d+)?$")
"""Endings that name a version or an alias of a model at the same price."""
_HINT = "the form is that of drsr/sessions/list_prices.json: models with [input, cached input, cache write, output]"


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The prices of a million tokens, by model."""

    models: Mapping[str, Prices]
    """Prices by plain model name, as `plain_name` returns it."""
    any_model: Prices | None = None
    """The prices of every model that is not named."""
    currency: str = "USD"
    taken: str = ""
    """The day that the prices were taken."""
    source: str = ""
    """Origin of the prices."""

    def of(self, model: str | None) -> Prices | None:
        """Return the prices of a model; None if they are unknown."""
        if model is None:
            return self.any_model
        return self.models.get(model) or self.models.get(plain_name(model)) or self.any_model

    @classmethod
    def chosen(cls) -> PriceTable:
        """Return the table that the settings name, else the bundled one. Raise SettingsError if it cannot be used."""
        given = load_settings().prices
        return cls.parse(given) if given else bundled_prices()

    @classmethod
    def parse(cls, text: str) -> PriceTable:
        """Parse `INPUT,CACHED,WRITE,OUTPUT`, which then applies to every model, or the path of a table."""
        if re.fullmatch(r"[-+\d.,eEinfaINFA\s]+", text) and "," in text:
            return cls({}, Prices.parse(text), source="the settings")
        try:
            return cls.from_json(Path(text).read_bytes(), text)
        except OSError as error:
            raise SettingsError(
                f"the table of prices cannot be read: {error.strerror}",
                where=text,
                hint="name a JSON file, or four numbers per million tokens: 3,0.3,3.75,15",
            ) from None

    @classmethod
    def from_json(cls, data: bytes | str, where: str) -> PriceTable:
        """Read a table; SettingsError names the first thing that is wrong."""
        try:
            table = json.loads(data)
            if not isinstance(table, dict) or table.get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT!r}")
            models: dict[str, Prices] = {}
            for provider in table["providers"]:
                more = {name: provider[name] for name in _OPTIONAL if name in provider}
                for model, given in provider["models"].items():
                    models[model.lower()] = _prices(model, given, more, where)
            return cls(models, None, str(table["currency"]), str(table["taken"]), str(table["source"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise SettingsError(f"is not a table of prices: {what}", where=where, hint=_HINT) from None


def _prices(model: str, given: Any, more: dict[str, Any], where: str) -> Prices:
    if not isinstance(given, list) or len(given) != 4:
        raise SettingsError(f"{model} must have four prices, not {given!r}", where=where, hint=_HINT)
    try:
        return Prices(*given, **more)
    except SettingsError as error:
        raise SettingsError(f"{model}: {error.what}", where=where) from None


@cache
def bundled_prices() -> PriceTable:
    """Return the list prices that come with drsr."""
    return PriceTable.from_json(files("drsr.sessions").joinpath(BUNDLED).read_bytes(), BUNDLED)


def model_of(body: Any) -> str | None:
    """Return the model that a request asks for, if it names one."""
    model = body.get("model") if isinstance(body, Mapping) else None
    return model if isinstance(model, str) and model else None


def plain_name(model: str) -> str:
    """Return a model's name without its provider, region and version: `us.anthropic.claude-opus-4-1-20250805-v1:0` is
    `claude-opus-4-1`."""
    name = model.lower().rpartition("/")[2]
    name = re.sub(r"^([a-z]{2,6}\.)?(anthropic|amazon|meta|mistral|deepseek)\.", "", name)
    while (shorter := _VERSION.sub("", name)) != name:
        name = shorter
    return name
