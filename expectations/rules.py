"""The parts of a suite: frames, each with a grain, and rules, each with a name and a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.expectations.expectation import Expectation

Frames = Mapping[str, "pd.DataFrame"]
"""The frames of a dataset, by part."""


class Rule(NamedTuple):
    """A rule that a frame must keep."""

    name: str
    """Name for people, by which verdicts are found; unique in its suite."""
    expectation: Expectation
    hint: str
    """Advice for when it is broken; {column} is replaced by the first offending row's value of the column of that
    name, as a shell takes it, and {=column} by the value as it is."""
    says: Callable[[pd.DataFrame], str] | None = None
    """Words that a verdict adds to the number of rows, if that alone does not say what was looked at."""
    needs_text: bool = False
    """Whether it is judged by the texts of runs: those that were imported without theirs are then left out."""


class Part(NamedTuple):
    """A frame, and the rules for it."""

    name: str
    grain: str
    """"One row per ..."."""
    named_by: tuple[str, ...]
    """The columns that tell which row broke a rule."""
    rules: tuple[Rule, ...]


class Suite(NamedTuple):
    """Everything that is expected of a dataset."""

    dataset: str
    about: str
    """One sentence for a person who opens its page."""
    parts: tuple[Part, ...]
