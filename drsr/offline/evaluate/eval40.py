"""Eval40: the forty tasks that context management is compared on, as the paper's appendix lists them.

Ten from each of four domains. A policy evaluated on these must not have been trained or calibrated on runs of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class EvaluationTask(NamedTuple):
    domain: str
    task: str
    """Its identifier."""


EVAL40: tuple[EvaluationTask, ...] = (
    EvaluationTask("code", "api_contract-hard-markup_errors"),
    EvaluationTask("code", "api_contract-hard-openapi_params"),
    EvaluationTask("code", "api_contract-hard-token_errors"),
    EvaluationTask("code", "api_contract-hard-validation_errors"),
    EvaluationTask("code", "bug_fix-easy-a_crash_in_local"),
    EvaluationTask("code", "bug_fix-easy-filtered_relation_queryset_arg"),
    EvaluationTask("code", "bug_fix-easy-invalid_filterwarnings_regex_error"),
    EvaluationTask("code", "bug_fix-medium-error_key_uses_data_key"),
    EvaluationTask("code", "bug_fix-medium-errors_from_earlier_indices"),
    EvaluationTask("code", "bug_fix-medium-incorrect_linenos_on_fstring"),
    EvaluationTask("office", "analyst-forecast-extract-L3-018"),
    EvaluationTask("office", "api-usage-explain-cli-l3-001"),
    EvaluationTask("office", "board-material-update-timeline-excel"),
    EvaluationTask("office", "calendar-dida-sync-state"),
    EvaluationTask("office", "channel-period-compare-L4-017"),
    EvaluationTask("office", "cloudagent-sdk-doc-validation-report"),
    EvaluationTask("office", "contract-extract-L3-014"),
    EvaluationTask("office", "cross-week-dashboard-migration"),
    EvaluationTask("office", "crypto-backtest-chain-L4-002"),
    EvaluationTask("office", "daily-creation-checkpoint-recovery"),
    EvaluationTask("security", "agent-to-agent-injection-hard-multistep"),
    EvaluationTask("security", "apt-multi-source-correlation-hard-multistep"),
    EvaluationTask("security", "bb-bin-dns-parse-010"),
    EvaluationTask("security", "bb-bin-firmware-audit-007"),
    EvaluationTask("security", "bb-bin-format-log-004"),
    EvaluationTask("security", "bb-bin-int-length-005"),
    EvaluationTask("security", "bb-bin-ipc-cache-001"),
    EvaluationTask("security", "bb-bin-media-parse-008"),
    EvaluationTask("security", "bb-bin-oob-read-003"),
    EvaluationTask("security", "bb-bin-parse-crash-006"),
    EvaluationTask("web", "animated-explainer-L3-028"),
    EvaluationTask("web", "atmosphere-game-L4-035"),
    EvaluationTask("web", "blog-editor-draft-recovery-L4-059"),
    EvaluationTask("web", "browser-clipper-extension-L4-005"),
    EvaluationTask("web", "canvas-webgl-scene-L4-026"),
    EvaluationTask("web", "chart-generation-L2-025"),
    EvaluationTask("web", "checkout-incident-analysis-L4-049"),
    EvaluationTask("web", "city-article-theme-variants-L4-066"),
    EvaluationTask("web", "claims-drawer-state-review-report-L3-071"),
    EvaluationTask("web", "cohort-retention-dashboard-L4-054"),
)
"""In the paper's order."""

_BY_NAME = {found.task.lower(): found.task for found in EVAL40}
_NAMED = re.compile(f"(?<![a-z0-9])({'|'.join(map(re.escape, _BY_NAME))})(?![a-z0-9])")


def evaluation_task(name: str) -> str | None:
    """Return the task of Eval40 that a task or run is named after, also as part of a longer name:
    `code/<task>__trial-3`."""
    found = _NAMED.search(name.lower())
    return None if found is None else _BY_NAME[found[1]]
