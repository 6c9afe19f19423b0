"""A suite and its frames -> findings: one per rule that the suite must have, whether it was judged or not.

The library fails open in several ways. A rule counts as kept only if it was evaluated, did not raise, and found a value
in every row it looked at; the rules evaluated are compared with the list in `required.py`, by name and by type.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.expectations.library import gx, quiet_context
from drsr.expectations.required import REQUIRED
from drsr.expectations.rules import Frames, Part, Rule, Suite

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.datasource.fluent.interfaces import Batch

SHOWN = 20
"""Offending rows that a finding keeps; a verdict names the first few of them."""
NAMED = 3
_RULE = "rule"
_LONGEST = 120
"""Characters of a value in a verdict."""


class Finding(NamedTuple):
    """The result of judging a rule."""

    dataset: str
    part: str
    rule: str
    expectation: str
    """Its type in Great Expectations."""
    asked: Mapping[str, Any]
    """Its parameters."""
    passed: bool
    detail: str
    """Finding: how many rows, and the first that break it."""
    rows: int
    offending: tuple[Mapping[str, Any], ...]
    """The first rows that break it."""
    hint: str


def evaluate(suite: Suite, frames: Frames, required: Mapping[str, str] | None = None) -> list[Finding]:
    """Judge the frames by the suite, and the suite by what is required of it. Rule name -> expectation type."""
    context = quiet_context()
    source = context.data_sources.add_pandas("frames")
    findings = []
    for part in suite.parts:
        asset = source.add_dataframe_asset(part.name)
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frames[part.name]})
        findings += _judge_part(suite.dataset, part, batch, frames[part.name])
    return _against(REQUIRED[suite.dataset] if required is None else required, suite.dataset, findings)


def required_of(suite: Suite, parts: Collection[str]) -> dict[str, str]:
    """Return what is required where only some parts are judged: all but the rules of the other parts.

    A rule that no part of the suite has any more is required of each, and so fails wherever it is looked for.
    """
    elsewhere = {rule.name for part in suite.parts if part.name not in parts for rule in part.rules}
    return {rule: kind for rule, kind in REQUIRED[suite.dataset].items() if rule not in elsewhere}


def _judge_part(dataset: str, part: Part, batch: Batch, frame: pd.DataFrame) -> list[Finding]:
    rules = {rule.name: rule for rule in part.rules}
    expectations = [rule.expectation.copy(update={"meta": {_RULE: rule.name}}) for rule in part.rules]
    result = batch.validate(
        gx.ExpectationSuite(name=f"{dataset}.{part.name}", expectations=expectations),
        result_format={
            "result_format": "SUMMARY",
            "partial_unexpected_count": SHOWN,
            "unexpected_index_column_names": list(part.named_by),
        },
    )
    found = []
    for each in result.results:
        config = each.expectation_config
        rule = rules.get((config.meta or {}).get(_RULE, "")) if config is not None else None
        if config is not None and rule is not None:
            found.append(_finding(dataset, part, rule, config.type, dict(config.kwargs), each, frame))
    order = {rule.name: number for number, rule in enumerate(part.rules)}
    return sorted(found, key=lambda finding: order[finding.rule])


def _finding(
    dataset: str,
    part: Part,
    rule: Rule,
    expectation: str,
    asked: dict[str, Any],
    result: ExpectationValidationResult,
    frame: pd.DataFrame,
) -> Finding:
    rows = len(frame)
    asked.pop("batch_id", None)
    error = _raised(result.exception_info)
    numbers: Mapping[str, Any] = result.result or {}
    missing = numbers.get("missing_count") or 0
    records = tuple(numbers.get("partial_unexpected_index_list") or ())
    if error is not None:
        passed, detail = False, f"could not be judged: {error}"
    elif missing:
        # The built-in expectations pass over rows without a value.
        records = _without_value(frame, part.named_by, asked)
        passed, detail = False, f"{_named(missing, records, rows)} (no value to judge)"
    elif result.success:
        said = rule.says(frame) if rule.says is not None else ""
        passed, detail = True, f"{rows:,} {'row' if rows == 1 else 'rows'}" + (f", {said}" if said else "")
    else:
        passed, detail = False, _broken(numbers, records, rows)
    return Finding(
        dataset, part.name, rule.name, expectation, asked, passed, detail, rows, records, _filled(rule.hint, records)
    )


def _filled(hint: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The hint with the first offender's names in it, as a shell takes them, or as they are."""
    names = {name: str(value) for name, value in records[0].items()} if records else {}

    def said(found: re.Match[str]) -> str:
        value = names.get(found[2], "SOURCE/ID")
        return value if found[1] or found[2] not in names else shlex.quote(value)

    return re.sub(r"{(=?)(\w+)}", said, hint)


def _against(required: Mapping[str, str], dataset: str, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, and a failed one for every rule that is not what is required: lost, changed, twice or unknown."""
    evaluated = [finding.rule for finding in findings]
    judged = [_as_required(finding, required, evaluated.count(finding.rule)) for finding in findings]
    lost = [
        Finding(dataset, "", rule, kind, {}, False, "was not evaluated: the suite no longer has it", 0, (), _RESTORE)
        for rule, kind in required.items()
        if rule not in evaluated
    ]
    return judged + lost


_RESTORE = "restore the rule in expectations/suites, or take it off the list in expectations/required.py on purpose"


def _as_required(finding: Finding, required: Mapping[str, str], times: int) -> Finding:
    kind = required.get(finding.rule)
    if kind == finding.expectation and times == 1:
        return finding
    if kind is None:
        problem = "is not on the list of required rules"
    elif times > 1:
        problem = f"was evaluated {times} times"
    else:
        problem = f"was evaluated as {finding.expectation}, required is {kind}"
    return finding._replace(passed=False, detail=problem, hint=_RESTORE)


def _raised(info: Any) -> str | None:
    """Return the message of an exception inside the library, which reports them in two shapes."""
    if not info:
        return None
    if "raised_exception" in info:
        return str(info["exception_message"]) if info["raised_exception"] else None
    first = next(iter(info.values()))
    return str(first.get("exception_message") or first)


def _broken(numbers: Mapping[str, Any], records: Sequence[Mapping[str, Any]], rows: int) -> str:
    if "unexpected_count" not in numbers:
        return f"found {numbers.get('observed_value')}"
    return _named(numbers["unexpected_count"], records, rows)


def _without_value(
    frame: pd.DataFrame, named_by: Sequence[str], asked: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """The first rows that lack a value in a column which the rule looks at."""
    words = [word for value in asked.values() for word in (value if isinstance(value, list) else [value])]
    columns = [name for name in frame.columns if name in words]
    lacking = frame[frame[columns].isna().any(axis=1)]
    return tuple(lacking[list(dict.fromkeys([*named_by, *columns]))].head(SHOWN).to_dict("records"))


def _named(count: int, records: Sequence[Mapping[str, Any]], rows: int) -> str:
    named = "; ".join(_spoken(record) for record in records[:NAMED])
    more = count - min(len(records), NAMED)
    return f"{count:,} of {rows:,} rows: {named}" + (f"; and {more:,} more" if more > 0 else "")


def _spoken(record: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value_text(value)}" for name, value in record.items())


def value_text(value: Any) -> str:
    """Return a value of a frame, for people."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
