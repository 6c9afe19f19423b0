"""`python -m drsr.expectations [DATASET ...]`: judge the configured catalog. Exit code 1 if a rule is broken."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.errors import DrsrError
from drsr.expectations.judging import DATASETS, find, present, verdict, write_pages

if TYPE_CHECKING:
    from drsr.expectations.evaluation import Finding


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, call, print; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except DrsrError as error:
        print(f"expectations: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drsr.expectations",
        description="Judges datasets by their suites of expectations. By default every dataset that holds anything.",
    )
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"one of {', '.join(DATASETS)}")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the findings as a site that opens offline")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _run(options: argparse.Namespace) -> int:
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.settings import load_settings

    settings = load_settings()
    with open_catalog(settings.catalog_url) as catalog:
        datasets = options.datasets or present(catalog)
        absent = [] if options.datasets else [name for name in DATASETS if name not in datasets]
        findings = find(catalog, ArtifactStore(settings.artifact_root), datasets)
        if options.docs is not None:
            write_pages(options.docs, findings, catalog.location)
    passed = bool(findings) and all(finding.passed for finding in findings)
    if options.json:
        verdicts = [
            {"dataset": found.dataset, "rule": found.rule, "passed": found.passed, "detail": verdict(found).detail}
            for found in findings
        ]
        print(json.dumps({"passed": passed, "not_there_yet": absent, "verdicts": verdicts}))
    else:
        print(_text(findings, absent, options.docs))
    return 0 if passed else 1


def _text(findings: Sequence[Finding], absent: Sequence[str], docs: Path | None) -> str:
    from drsr.tables import table

    rows = []
    for dataset in dict.fromkeys(finding.dataset for finding in findings):
        mine = [finding for finding in findings if finding.dataset == dataset]
        rows.append((dataset, len(mine), sum(not finding.passed for finding in mine)))
    lines = [table(("dataset", "rules", "broken"), rows)] if rows else ["there is nothing to judge yet"]
    lines += [
        f"BROKEN  {finding.dataset}: {finding.rule}\n        {verdict(finding).detail}"
        for finding in findings
        if not finding.passed
    ]
    if absent:
        lines.append(f"not there yet, and not judged: {', '.join(absent)}")
    if docs is not None:
        lines.append(f"every rule with what was found: {docs / 'index.html'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
