"""Great Expectations, imported late and quietly, in a context that contacts nobody.

Importing it takes seconds, so only what judges does. Whoever needs a name of the library takes it from here: its own
imports warn, and warnings are errors to us.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from drsr.errors import MissingExtra

# Read when the library is imported. It would send events about its use.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations as gx
        import great_expectations.expectations as gxe
        from great_expectations.core.metric_domain_types import MetricDomainTypes
        from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults
        from great_expectations.execution_engine import PandasExecutionEngine
        from great_expectations.expectations.expectation import BatchExpectation
        from great_expectations.expectations.metrics.metric_provider import metric_value
        from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "great_expectations":
        raise
    raise MissingExtra("great_expectations", "flows", needed_for="judging the data") from None

if TYPE_CHECKING:
    from great_expectations.data_context import EphemeralDataContext

__all__ = [
    "BatchExpectation",
    "MetricDomainTypes",
    "PandasExecutionEngine",
    "TableMetricProvider",
    "gx",
    "gxe",
    "metric_value",
    "quiet_context",
]


def quiet_context() -> EphemeralDataContext:
    """Return a context in memory, without files, pages, progress bars or events."""
    stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    context = gx.get_context(mode="ephemeral", project_config=DataContextConfig(store_backend_defaults=stores))
    context.variables.progress_bars = {"globally": False}
    return context
