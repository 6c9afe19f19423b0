"""The base of our expectations: a frame keeps a rule when no row of it offends, and those that do are named.

Its results have the shape of the built-in map expectations: element_count, unexpected_count, and the first offending
rows as records of the columns that name a row and those that the rule looks at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from drsr.expectations.library import (
    BatchExpectation,
    MetricDomainTypes,
    PandasExecutionEngine,
    TableMetricProvider,
    metric_value,
)

if TYPE_CHECKING:
    import pandas as pd

FRAME = "drsr.frame"


class WholeFrame(TableMetricProvider):
    """The frame itself: our rules look at rows together, which no built-in metric hands out."""

    metric_name = FRAME

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls: Any,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> pd.DataFrame:
        frame, _, _ = execution_engine.get_compute_domain(
            domain_kwargs=metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE
        )
        return frame


class OffendingRows(BatchExpectation, ABC):
    """An expectation that is broken by rows."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (FRAME,)

    @abstractmethod
    def offending(self, frame: pd.DataFrame) -> pd.Series:
        """For each row whether it breaks the rule."""

    @abstractmethod
    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns whose values say why a row offends."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        frame = metrics[FRAME]
        offends = self.offending(frame)
        wanted: dict[str, Any] = (runtime_configuration or {}).get("result_format", {})
        names = dict.fromkeys([*(wanted.get("unexpected_index_column_names") or ()), *self.looks_at(frame)])
        first = frame.loc[offends, [name for name in names if name in frame]].head(
            wanted.get("partial_unexpected_count", 20)
        )
        return {
            "success": not offends.any(),
            "result": {
                "element_count": len(frame),
                "unexpected_count": int(offends.sum()),
                "partial_unexpected_index_list": first.to_dict("records"),
            },
        }
