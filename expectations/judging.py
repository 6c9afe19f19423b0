"""The door: judge datasets of a catalog by their suites, and stop where one is broken.

    verdicts = judge(catalog, artifacts, AFTER["label"])     one verdict per rule
    require(verdicts)                                        ExpectationFailed names rule, items and what to do

Nothing is written but the site, if one is asked for. Frames are read once per call, with only the columns that rules
look at; the cost is linear in what the catalog holds, and each file under `frames/` says what it grows with. A night
keeps what it judged (`store/kept.py`), and judges only what changed since; by hand and in an audit all is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from drsr.errors import ExpectationFailed, SettingsError
from drsr.offline.stages import STAGES
from drsr.offline.verdicts import Severity, Verdict

if TYPE_CHECKING:
    from drsr.expectations.evaluation import Finding
    from drsr.expectations.inputs import Fingerprints
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.offline.store.kept import Kept

DATASETS = ("trajectories", "states", "labels", "features", "splits", "calibration", "policy")

AFTER = {stage.name: stage.judged for stage in STAGES}
"""Datasets, or parts of one such as `splits.reads`, that each stage changes and that are judged after it."""


_APART = "splits"
"""The dataset whose parts are read and judged one by one."""
_CRITICAL = frozenset({"splits", "labels", "features", "calibration"})
"""Datasets whose rules are about leaks and about numbers; those of the others are about order and completeness, but
for these:"""
CRITICAL_RULES = frozenset(
    {
        ("trajectories", "no near-duplicates across splits"),
        ("policy", "the policy's numbers are those of its calibration"),
        ("policy", "a policy is made of train and validation only"),
        ("policy", "a policy is made of no evaluation task"),
    }
)


def judge(
    catalog: Catalog,
    artifacts: ArtifactStore,
    datasets: Sequence[str] = DATASETS,
    docs: Path | None = None,
    kept: Kept | None = None,
) -> list[Verdict]:
    """Judge datasets, in the order given; `docs` is a folder for the site of what was found.

    A dataset that is empty breaks its first rule: what was asked for must be there. `present` says what is.
    """
    from drsr.offline.ingest.absent_texts import absent_texts

    findings = find(catalog, artifacts, datasets, kept)
    if docs is not None:
        write_pages(docs, findings, catalog.location)
    with catalog.reading() as connection:
        absent = absent_texts(connection)
    by_text = judged_by_text() if absent else frozenset()
    return [
        verdict(finding, f"{absent.runs:,} of {absent.of:,} runs" if (finding.dataset, finding.rule) in by_text else "")
        for finding in findings
    ]


def write_pages(docs: Path, findings: Sequence[Finding], location: str) -> None:
    """The site of what was found."""
    from drsr.expectations.data_docs import write_docs  # it needs what `find` has imported

    write_docs(docs, findings, location)


def find(
    catalog: Catalog, artifacts: ArtifactStore, datasets: Sequence[str] = DATASETS, kept: Kept | None = None
) -> list[Finding]:
    """Return the same with all that is known of each rule: parameters, rows, the first rows that break it.

    `splits.reads` names a part of a dataset: its rules alone are judged, and its frame alone is read. With `kept`, what
    passed before is not judged again while the rows it is read from and the code are the same to the byte.
    """
    for dataset in whole(datasets):
        if dataset not in DATASETS:
            raise SettingsError(f"{dataset!r} is not a dataset", hint=f"one of {', '.join(DATASETS)}")
    # Great Expectations takes seconds to import; whoever only reads names from here does not pay for it.
    import drsr.expectations.library  # noqa: F401 - says first what to install
    from drsr.expectations.inputs import Fingerprints
    from drsr.expectations.suites import SUITES

    findings: list[Finding] = []
    now = Fingerprints(catalog)
    for dataset in whole(datasets):
        parts = [part.name for part in SUITES[dataset].parts]
        if dataset not in datasets:
            parts = _parts_asked(dataset, parts, datasets)
        for some in [[part] for part in parts] if dataset == _APART else [parts]:
            findings += _find(catalog, artifacts, dataset, some, now, kept)
    return list({(finding.dataset, finding.rule): finding for finding in reversed(findings)}.values())[::-1]


def judged_by_text() -> frozenset[tuple[str, str]]:
    """Return the rules that look at the texts of runs, as dataset and rule."""
    from drsr.expectations.suites import SUITES

    rules = ((suite.dataset, rule) for suite in SUITES.values() for part in suite.parts for rule in part.rules)
    return frozenset((dataset, rule.name) for dataset, rule in rules if rule.needs_text)


def _find(
    catalog: Catalog,
    artifacts: ArtifactStore,
    dataset: str,
    parts: Sequence[str],
    now: Fingerprints,
    kept: Kept | None,
) -> list[Finding]:
    """Judge the parts of a dataset that are read together, or find what was found before."""
    from drsr.expectations.evaluation import Finding, evaluate, required_of
    from drsr.expectations.frames import frames_of
    from drsr.expectations.suites import SUITES

    name = f"{dataset}.{parts[0]}" if dataset == _APART else dataset
    question, content = f"verdicts on {name}", "" if kept is None else now.of(name)
    known = {} if kept is None else kept.find(question, [content])
    if content in known:
        return [Finding(**found | {"offending": ()}) for found in orjson.loads(known[content])]  # all of these passed
    suite = SUITES[dataset]
    asked = suite._replace(parts=tuple(part for part in suite.parts if part.name in parts))
    found = evaluate(asked, frames_of(dataset, catalog, artifacts, parts, kept), required_of(suite, parts))
    if kept is not None and all(finding.passed for finding in found):
        kept.keep(question, {content: orjson.dumps([finding._asdict() for finding in found])}, alone=True)
    return found


def whole(names: Sequence[str]) -> list[str]:
    """Return the datasets that are named, each once, whether they or parts of them are."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _parts_asked(dataset: str, parts: Sequence[str], names: Sequence[str]) -> list[str]:
    asked = [part for name in names for of, _, part in [name.partition(".")] if of == dataset]
    for part in asked:
        if part not in parts:
            raise SettingsError(f"{dataset!r} has no part {part!r}", hint=f"one of {', '.join(parts)}")
    return asked


def verdict(finding: Finding, not_computed: str = "") -> Verdict:
    """Return the answer in the words that gates and audits use; `not_computed` are runs whose texts it lacked."""
    is_critical = finding.dataset in _CRITICAL or (finding.dataset, finding.rule) in CRITICAL_RULES
    advice = "" if finding.passed else f" ({finding.hint})"
    return Verdict(
        f"{finding.dataset}: {finding.rule}",
        Severity.CRITICAL if is_critical else Severity.MAJOR,
        finding.passed,
        finding.detail + advice,
        ""
        if finding.passed
        else f"python -m drsr.expectations {finding.dataset} shows the rule and the first rows that break it",
        not_computed=not_computed,
    )


def present(catalog: Catalog) -> tuple[str, ...]:
    """Return the datasets that hold anything yet."""
    from drsr.expectations.inputs import holds_any

    return tuple(dataset for dataset in DATASETS if holds_any(dataset, catalog))


def require(verdicts: Sequence[Verdict]) -> None:
    """Raise ExpectationFailed if a rule is broken, or if there is no verdict at all."""
    if not verdicts:
        raise ExpectationFailed("nothing was judged", hint=f"name a dataset: {', '.join(DATASETS)}")
    broken = [found for found in verdicts if not found.passed]
    if broken:
        dataset, _, rule = broken[0].check.partition(": ")
        more = f" (and {len(broken) - 1} more rules)" if len(broken) > 1 else ""
        raise ExpectationFailed(
            f"the rule {rule!r} is broken: {broken[0].detail}{more}",
            where=f"dataset {dataset}",
            hint="python -m drsr.expectations --docs FOLDER shows every rule with the rows that break it",
            verdicts=broken,
        )
