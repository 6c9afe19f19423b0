"""Table cells for numbers with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drsr.offline.train.metrics import Metric


def cell(metric: Metric, *, signed: bool = False) -> str:
    """Return `0.812 [0.774, 0.851]`, or a dash if there is nothing to count; numbers of 100 and more have one
    decimal."""
    if math.isnan(metric.value):
        return "-"
    form = ("+" if signed else "") + (",.1f" if abs(metric.value) >= 100 else ".3f")
    interval = "" if math.isnan(metric.low) else f" [{metric.low:{form}}, {metric.high:{form}}]"
    return f"{metric.value:{form}}{interval}"


def cells(metrics: Sequence[Metric], *, signed: bool = False) -> list[str]:
    return [cell(metric, signed=signed) for metric in metrics]
