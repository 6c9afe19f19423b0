"""The feature layout as data: name, group, unit, information class and order of every column, and a hash over it all.

    structural   58 columns                                                  from the request's text and structure
    attention    per attention layer: per head mass, density, top mean; then 5 summaries over the heads
    hidden       per layer: 5 relations between the Block and the pre-action state
    projection   per semantic layer: 64 coordinates of the Block's direction, then 64 of the pre-action state's

For the paper's backbone (32 layers, 16 heads, full attention in every fourth layer):
58 + 8 x (16 x 3 + 5) + 32 x 5 + 4 x 128 = 1,154 columns. Layers, heads and coordinates are numbered from 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from drsr.features.geometry import Geometry

FEATURES_VERSION = "features/1"
"""Changes whenever the same state would give other numbers under the same column names. Part of the layout's hash."""

ATTENTION_LAYERS = 8
SEMANTIC_LAYERS = 4
TOP_TOKENS = 8
"""Number of a Block's most attended tokens that enter its top mean; all of them if it has fewer."""
PROJECTED = 64
"""Coordinates that a projection keeps."""
PROJECTION_SEED = 73_000
"""Layer l is projected with the matrix of seed 73000 + l."""


class Information(StrEnum):
    """The information boundary of a quantity (paper, table "Information boundary for DRSR")."""

    ONLINE = "online"
    """Known before the next action: the request, its hidden states and attention, the candidate mask and its saving."""
    LABEL_ONLY = "label_only"
    """Builds supervision and nothing else: the realized next output, exact joint deletion harm, deletion forwards."""
    AUDIT_ONLY = "audit_only"
    """Evaluates the whole system afterwards: the task's reward."""


class ColumnGroup(StrEnum):
    STRUCTURAL = "structural"
    ATTENTION = "attention"
    HIDDEN = "hidden"
    PROJECTION = "projection"
    TEXT = "text"
    """Columns of the view `light` alone: what the request's text shows without a language model."""
    WINDOW = "window"
    """Columns of the views `window` and `wide`: attention from the last positions, not from the last one alone."""
    SEMANTIC = "semantic"
    """Columns of the view `semantic` alone: whole directions, for analyses."""


class Unit(StrEnum):
    INDICATOR = "indicator"
    """0 or 1."""
    COUNT = "count"
    LOG_COUNT = "log1p(count)"
    """The natural logarithm of one more than the count: sizes span four orders of magnitude."""
    SHARE = "share"
    """From 0 to 1."""
    RATIO = "ratio"
    """Not bounded by 1."""
    WEIGHT = "attention weight"
    """From 0 to 1; over all positions of the view the weights of one head sum to 1."""
    WEIGHT_PER_TOKEN = "attention weight per token"
    COSINE = "cosine"
    DISTANCE = "distance per sqrt(dimension)"
    LOG_RATIO = "log(ratio)"
    COORDINATE = "coordinate"
    RARITY = "idf"
    """Inverse document frequency over the request's own Blocks, in nats."""
    RELEVANCE = "BM25 per query word"


class Column(NamedTuple):
    name: str
    group: ColumnGroup
    unit: Unit
    information: Information = Information.ONLINE


STRUCTURAL: tuple[tuple[str, Unit], ...] = (
    # position and age
    ("steps_before", Unit.LOG_COUNT),
    ("step_age", Unit.LOG_COUNT),
    ("step_position", Unit.SHARE),
    ("token_position", Unit.SHARE),
    ("token_distance", Unit.LOG_COUNT),
    ("user_messages_since", Unit.LOG_COUNT),
    # type and component
    ("is_assistant_state", Unit.INDICATOR),
    ("component_index", Unit.COUNT),
    ("step_blocks", Unit.COUNT),
    ("is_only_block", Unit.INDICATOR),
    ("reasoning_share", Unit.SHARE),
    # sizes
    ("characters", Unit.LOG_COUNT),
    ("words", Unit.LOG_COUNT),
    ("tokens", Unit.LOG_COUNT),
    ("direct_saving", Unit.LOG_COUNT),
    ("request_share", Unit.SHARE),
    ("step_share", Unit.SHARE),
    ("pool_share", Unit.SHARE),
    ("characters_per_token", Unit.RATIO),
    ("call_share", Unit.SHARE),
    # overlap with the task, with recent history, with the last message, and what became of what it introduced
    ("task_precision", Unit.SHARE),
    ("task_recall", Unit.SHARE),
    ("recent_precision", Unit.SHARE),
    ("recent_recall", Unit.SHARE),
    ("last_message_precision", Unit.SHARE),
    ("last_message_recall", Unit.SHARE),
    ("identifiers_in_task", Unit.SHARE),
    ("identifiers_in_recent", Unit.SHARE),
    ("introduced_share", Unit.SHARE),
    ("introduced_reused", Unit.SHARE),
    # tool relations
    ("same_tool_before", Unit.LOG_COUNT),
    ("same_tool_after", Unit.LOG_COUNT),
    ("same_tool_share", Unit.SHARE),
    ("same_tool_recent", Unit.INDICATOR),
    ("identical_call_before", Unit.INDICATOR),
    ("identical_call_after", Unit.INDICATOR),
    ("recent_arguments_recall", Unit.SHARE),
    ("later_arguments_recall", Unit.SHARE),
    # redundancy with other candidates, and with what stays whichever candidates are deleted
    ("nearest_candidate", Unit.SHARE),
    ("nearest_block", Unit.SHARE),
    ("covered_by_candidates", Unit.SHARE),
    ("covered_by_retained", Unit.SHARE),
    ("unique_share", Unit.SHARE),
    ("is_duplicate", Unit.INDICATOR),
    # content indicators, per word
    ("error_density", Unit.RATIO),
    ("success_density", Unit.RATIO),
    ("path_density", Unit.RATIO),
    ("numeric_density", Unit.SHARE),
    ("nonzero_exit_density", Unit.RATIO),
    ("symbol_density", Unit.SHARE),
    ("distinct_share", Unit.SHARE),
    ("is_empty_result", Unit.INDICATOR),
    # pool and request
    ("request_tokens", Unit.LOG_COUNT),
    ("request_steps", Unit.LOG_COUNT),
    ("pool_size", Unit.COUNT),
    ("pool_saving_share", Unit.SHARE),
    ("view_share", Unit.SHARE),
    ("ends_with_user", Unit.INDICATOR),
)
"""The structural columns; `structural.py` explains each where it computes it."""

HEAD_STATISTICS: tuple[tuple[str, Unit], ...] = (
    ("mass", Unit.WEIGHT),
    ("density", Unit.WEIGHT_PER_TOKEN),
    ("top_mean", Unit.WEIGHT_PER_TOKEN),
)
HEAD_SUMMARIES: tuple[tuple[str, Unit], ...] = (
    ("mean_mass", Unit.WEIGHT),
    ("max_mass", Unit.WEIGHT),
    ("mean_density", Unit.WEIGHT_PER_TOKEN),
    ("max_density", Unit.WEIGHT_PER_TOKEN),
    ("mean_top_mean", Unit.WEIGHT_PER_TOKEN),
)
HIDDEN_RELATIONS: tuple[tuple[str, Unit], ...] = (
    ("mean_cosine", Unit.COSINE),
    ("distance", Unit.DISTANCE),
    ("log_norm_ratio", Unit.LOG_RATIO),
    ("first_cosine", Unit.COSINE),
    ("last_cosine", Unit.COSINE),
)


class ViewLayout(NamedTuple):
    """The columns of a view in order, and a hash over everything that defines them."""

    columns: tuple[Column, ...]
    hash: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Layout:
    """The paper's columns for one backbone geometry, in order."""

    geometry: Geometry

    @cached_property
    def attention_layers(self) -> tuple[int, ...]:
        """Eight layers, evenly spaced over the full-attention layers; all of them if there are fewer."""
        return evenly_spaced(self.geometry.full_attention, ATTENTION_LAYERS)

    @cached_property
    def semantic_layers(self) -> tuple[int, ...]:
        """Four layers, evenly spaced over all layers; all of them if there are fewer."""
        return evenly_spaced(range(1, self.geometry.layers + 1), SEMANTIC_LAYERS)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        structural = (Column(f"structural_{name}", ColumnGroup.STRUCTURAL, unit) for name, unit in STRUCTURAL)
        return (*structural, *self._attention(), *self._hidden(), *self._projection())

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over everything that defines a column. It is frozen into a policy, which refuses any other."""
        described = {
            "version": FEATURES_VERSION,
            "attention_layers": self.attention_layers,
            "semantic_layers": self.semantic_layers,
            "top_tokens": TOP_TOKENS,
            "projection_seed": PROJECTION_SEED,
            "columns": self.columns,
        }
        return hashlib.sha256(json.dumps(described, separators=(",", ":")).encode("ascii")).hexdigest()

    def group(self, group: ColumnGroup) -> slice:
        """Return the positions of a group's columns."""
        numbers = [number for number, column in enumerate(self.columns) if column.group is group]
        return slice(numbers[0], numbers[-1] + 1)

    def _attention(self) -> Iterator[Column]:
        for layer in self.attention_layers:
            for head in range(1, self.geometry.heads + 1):
                for name, unit in HEAD_STATISTICS:
                    yield Column(f"attention_l{layer:02d}_h{head:02d}_{name}", ColumnGroup.ATTENTION, unit)
            for name, unit in HEAD_SUMMARIES:
                yield Column(f"attention_l{layer:02d}_{name}", ColumnGroup.ATTENTION, unit)

    def _hidden(self) -> Iterator[Column]:
        for layer in range(1, self.geometry.layers + 1):
            for name, unit in HIDDEN_RELATIONS:
                yield Column(f"hidden_l{layer:02d}_{name}", ColumnGroup.HIDDEN, unit)

    def _projection(self) -> Iterator[Column]:
        for layer in self.semantic_layers:
            for whose in ("block", "state"):
                for number in range(1, PROJECTED + 1):
                    name = f"projection_l{layer:02d}_{whose}_{number:02d}"
                    yield Column(name, ColumnGroup.PROJECTION, Unit.COORDINATE)


def evenly_spaced(items: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `count` of N items, always including the last: the items number ceil(i N / count) for i = 1 .. count.

    All items if there are no more than `count`. Of 32 layers four are 8, 16, 24, 32; of 30 they are 8, 15, 23, 30.
    """
    total = len(items)
    if total <= count:
        return tuple(items)
    return tuple(items[-(-number * total // count) - 1] for number in range(1, count + 1))
