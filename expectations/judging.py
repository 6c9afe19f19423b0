"""The door: judge datasets of a catalog by their suites, and stop where one is broken.

    verdicts = judge(catalog, artifacts, AFTER["label"])     one verdict per rule
    require(verdicts)                                        ExpectationFailed names rule, items and what to do

Nothing is written but the site, if one is asked for. Frames are read once per call, with only the columns that rules
look at; the cost is linear in what the catalog holds, and each file under `frames/` says what it grows with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from drsr.errors import ExpectationFailed, SettingsError
from drsr.offline.stages import STAGES

if TYPE_CHECKING:
    from drsr.expectations.evaluation import Finding
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore

DATASETS = ("trajectories", "states", "labels", "features", "splits", "calibration", "policy")

AFTER = {stage.name: stage.judged for stage in STAGES}
"""What each stage changed and is judged after it: datasets, or parts of one such as `splits.reads`."""


class RuleVerdict(NamedTuple):
    """Whether a dataset keeps a rule."""

    dataset: str
    rule: str
    passed: bool
    detail: str
    """How many rows were judged; where it is broken, the first offending items and what to do."""


def judge(
    catalog: Catalog, artifacts: ArtifactStore, datasets: Sequence[str] = DATASETS, docs: Path | None = None
) -> list[RuleVerdict]:
    """Judge datasets, in the order given; `docs` is a folder for the site of what was found.

    A dataset that is empty breaks its first rule: what was asked for must be there. `present` says what is.
    """
    findings = find(catalog, artifacts, datasets)
    if docs is not None:
        write_pages(docs, findings, catalog.location)
    return [verdict(finding) for finding in findings]


def write_pages(docs: Path, findings: Sequence[Finding], location: str) -> None:
    """The site of what was found."""
    from drsr.expectations.data_docs import write_docs  # it needs what `find` has imported

    write_docs(docs, findings, location)


def find(catalog: Catalog, artifacts: ArtifactStore, datasets: Sequence[str] = DATASETS) -> list[Finding]:
    """The same with all that is known of each rule: parameters, rows, the first rows that break it.

    `splits.reads` names a part of a dataset: its rules alone are judged, and its frame alone is read.
    """
    for dataset in whole(datasets):
        if dataset not in DATASETS:
            raise SettingsError(f"{dataset!r} is no dataset", hint=f"one of {', '.join(DATASETS)}")
    # Great Expectations takes seconds to import; whoever only reads names from here does not pay for it.
    from drsr.expectations.evaluation import evaluate, required_of
    from drsr.expectations.frames import frames_of
    from drsr.expectations.suites import SUITES

    findings = []
    for dataset in whole(datasets):
        suite = SUITES[dataset]
        parts = [part.name for part in suite.parts]
        if dataset not in datasets:
            parts = _parts_asked(dataset, parts, datasets)
        asked = suite._replace(parts=tuple(part for part in suite.parts if part.name in parts))
        findings += evaluate(asked, frames_of(dataset, catalog, artifacts, parts), required_of(suite, parts))
    return findings


def whole(names: Sequence[str]) -> list[str]:
    """Return the datasets that are named, each once, whether they or parts of them are."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _parts_asked(dataset: str, parts: Sequence[str], names: Sequence[str]) -> list[str]:
    asked = [part for name in names for of, _, part in [name.partition(".")] if of == dataset]
    for part in asked:
        if part not in parts:
            raise SettingsError(f"{dataset!r} has no part {part!r}", hint=f"one of {', '.join(parts)}")
    return asked


def verdict(finding: Finding) -> RuleVerdict:
    advice = "" if finding.passed else f" ({finding.hint})"
    return RuleVerdict(finding.dataset, finding.rule, finding.passed, finding.detail + advice)


def present(catalog: Catalog) -> tuple[str, ...]:
    """The datasets that hold anything yet."""
    from drsr.expectations.presence import holds_any

    return tuple(dataset for dataset in DATASETS if holds_any(dataset, catalog))


def require(verdicts: Sequence[RuleVerdict]) -> None:
    """ExpectationFailed if a rule is broken, or if there is no verdict at all."""
    if not verdicts:
        raise ExpectationFailed("nothing was judged", hint=f"name a dataset: {', '.join(DATASETS)}")
    broken = [found for found in verdicts if not found.passed]
    if broken:
        first = broken[0]
        more = f" (and {len(broken) - 1} more rules)" if len(broken) > 1 else ""
        raise ExpectationFailed(
            f"the rule {first.rule!r} is broken: {first.detail}{more}",
            where=f"dataset {first.dataset}",
            hint="python -m drsr.expectations --docs FOLDER shows every rule with the rows that break it",
            verdicts=broken,
        )
