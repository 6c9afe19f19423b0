"""`python -m drsr.expectations [DATASET ...]`: judge the configured catalog. Exit code 1 if a rule is broken."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from drsr.errors import DrsrError
from drsr.expectations.judging import DATASETS, RuleVerdict, judge, present


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
        prog="python -m expectations",
        description="Judges datasets by their suites of expectations. By default all that hold anything yet.",
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
        verdicts = judge(catalog, ArtifactStore(settings.artifact_root), datasets, options.docs)
    passed = bool(verdicts) and all(verdict.passed for verdict in verdicts)
    if options.json:
        shown = {"passed": passed, "not_there_yet": absent, "verdicts": [verdict._asdict() for verdict in verdicts]}
        print(json.dumps(shown))
    else:
        print(_text(verdicts, absent, options.docs))
    return 0 if passed else 1


def _text(verdicts: Sequence[RuleVerdict], absent: Sequence[str], docs: Path | None) -> str:
    from drsr.tables import table

    rows = []
    for dataset in dict.fromkeys(verdict.dataset for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.dataset == dataset]
        rows.append((dataset, len(mine), sum(not verdict.passed for verdict in mine)))
    lines = [table(("dataset", "rules", "broken"), rows)] if rows else ["there is nothing to judge yet"]
    lines += [
        f"BROKEN  {verdict.dataset}: {verdict.rule}\n        {verdict.detail}"
        for verdict in verdicts
        if not verdict.passed
    ]
    if absent:
        lines.append(f"not there yet, and not judged: {', '.join(absent)}")
    if docs is not None:
        lines.append(f"every rule with what was found: {docs / 'index.html'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
