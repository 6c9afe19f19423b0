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
    """For people, and what verdicts are known by; unique in its suite."""
    expectation: Expectation
    hint: str
    """What to do when it is broken; {column} stands for the first offending row's value of a column that names it, as a
    shell takes it, and {=column} for the value as it is."""
    says: Callable[[pd.DataFrame], str] | None = None
    """What a verdict tells besides the number of rows, where that alone does not say what was looked at."""
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
    """All that is expected of a dataset."""

    dataset: str
    about: str
    """One sentence for a person who opens its page."""
    parts: tuple[Part, ...]
