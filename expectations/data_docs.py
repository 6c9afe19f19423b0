"""Data Docs: the findings as a static site, one page per dataset and an index, that opens without a network.

    <folder>/index.html              every dataset with its latest verdict
    <folder>/<dataset>.html          every rule, what it asks, what was found, the first rows that break it
    <folder>/<dataset>.json          the same for programs

Our own rendering: the library's pages load their styles from elsewhere and tell somebody that they were opened. A page
holds all it needs, and its security policy lets it load nothing. Judging one dataset replaces its page and keeps the
others.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.errors import SettingsError
from drsr.expectations.judging import DATASETS
from drsr.expectations.suites import SUITES
from drsr.pages import Cell, Markup, document, element, table, together, verdict, write_page

if TYPE_CHECKING:
    from drsr.expectations.evaluation import Finding

INDEX = "index.html"
FORMAT = "drsr-data-docs/1"
"""Changed whenever older pages cannot be shown along with newer ones."""

Page = dict[str, Any]
"""A dataset's findings as they are kept, in JSON."""


def write_docs(
    folder: Path, findings: Sequence[Finding], catalog: str, judged_at: datetime.datetime | None = None
) -> Path:
    """Write the pages of the datasets that were judged, and the index of all; returns the index."""
    moment = (judged_at or datetime.datetime.now(datetime.UTC)).isoformat(sep=" ", timespec="seconds")
    judged = {finding.dataset for finding in findings}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = _pages(folder, without=judged)
        known |= {
            dataset: _page(dataset, [finding for finding in findings if finding.dataset == dataset], catalog, moment)
            for dataset in judged
        }
        pages = {dataset: known[dataset] for dataset in DATASETS if dataset in known}
        for dataset, page in pages.items():
            write_page(folder / f"{dataset}.json", json.dumps(page, indent=1) + "\n")
            write_page(folder / f"{dataset}.html", dataset_html(page, tuple(pages)))
        write_page(folder / INDEX, index_html(pages))
    except OSError as error:
        raise SettingsError(f"cannot be written to: {error.strerror}", where=str(folder)) from None
    return folder / INDEX


def index_html(pages: Mapping[str, Page]) -> str:
    """Return the index: what was judged, when, and how it came out."""
    rows = []
    for dataset, page in pages.items():
        broken = sum(not rule["passed"] for rule in page["rules"])
        name = element("a", dataset, href=f"{dataset}.html")
        about = element("div", SUITES[dataset].about, class_="dim")
        judged_at = Cell(page["judged_at"], "number")
        rows.append((_verdict(not broken), together(name, about), len(page["rules"]), broken, judged_at))
    absent = [dataset for dataset in DATASETS if dataset not in pages]
    kept = bool(pages) and all(rule["passed"] for page in pages.values() for rule in page["rules"])
    catalogs = sorted({str(page["catalog"]) for page in pages.values()})
    return _html(
        "Data Docs",
        tuple(pages),
        None,
        _heading("Data Docs", kept, f"The rules for the data, and whether they hold. Catalog: {', '.join(catalogs)}"),
        table(("verdict", "dataset", "rules", "broken", "judged (UTC)"), rows),
        element("p", f"Not judged yet: {', '.join(absent)}.", class_="dim") if absent else None,
    )


def dataset_html(page: Page, datasets: Sequence[str]) -> str:
    """Return the page of a dataset: part by part, rule by rule."""
    dataset = page["dataset"]
    sections = []
    for part in page["parts"]:
        mine = [rule for rule in page["rules"] if rule["part"] == part["name"]]
        grain = element("p", f"{part['grain']} Here: {part['rows']:,}.", class_="dim")
        sections.append(element("section", element("h2", part["name"].replace("_", " ")), grain, _rules(mine)))
    lost = [rule for rule in page["rules"] if not rule["part"]]
    if lost:
        sections.insert(0, element("section", element("h2", "rules that were lost"), _rules(lost)))
    kept = all(rule["passed"] for rule in page["rules"])
    about = f"{SUITES[dataset].about} Judged {page['judged_at']} UTC. Catalog: {page['catalog']}"
    return _html(f"{dataset} - Data Docs", datasets, dataset, _heading(dataset, kept, about), *sections)


def _page(dataset: str, findings: Sequence[Finding], catalog: str, moment: str) -> Page:
    rows = {finding.part: finding.rows for finding in findings}
    return {
        "format": FORMAT,
        "dataset": dataset,
        "catalog": catalog,
        "judged_at": moment.removesuffix("+00:00"),
        "passed": all(finding.passed for finding in findings),
        "parts": [
            {"name": part.name, "grain": part.grain, "rows": rows[part.name]}
            for part in SUITES[dataset].parts
            if part.name in rows
        ],
        "rules": [
            {
                "part": finding.part,
                "rule": finding.rule,
                "passed": finding.passed,
                "expectation": finding.expectation,
                "asked": {name: _plain(value) for name, value in finding.asked.items()},
                "found": finding.detail,
                "offending": [{name: _plain(value) for name, value in row.items()} for row in finding.offending],
                "hint": finding.hint,
            }
            for finding in findings
        ],
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no word for (NaN, moments, arrays' own numbers) as text."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, list | tuple):
        return [_plain(item) for item in plain]
    if isinstance(plain, dict):
        return {str(name): _plain(item) for name, item in plain.items()}
    is_number = isinstance(plain, int | float) and plain == plain and abs(plain) != float("inf")
    return plain if plain is None or is_number or isinstance(plain, bool | str) else str(plain)


def _pages(folder: Path, without: Container[str]) -> dict[str, Page]:
    """The other datasets, where they were judged into this folder before."""
    paths = {dataset: folder / f"{dataset}.json" for dataset in DATASETS if dataset not in without}
    return {dataset: _kept(path) for dataset, path in paths.items() if path.is_file()}


def _kept(path: Path) -> Page:
    try:
        page: Page = json.loads(path.read_text(encoding="utf-8"))
        if page["format"] == FORMAT:
            return page
    except (ValueError, KeyError, TypeError):
        pass
    raise SettingsError("is not a page of Data Docs", where=str(path), hint="remove it, or name another folder")


def _rules(rules: Iterable[Mapping[str, Any]]) -> Markup:
    return table(("verdict", "rule", "found"), map(_rule, rules))


def _rule(rule: Mapping[str, Any]) -> tuple[Cell, ...]:
    asked = ", ".join(f"{name}={json.dumps(value)}" for name, value in rule["asked"].items())
    stated = together(rule["rule"], element("div", f"{rule['expectation']}({asked})", class_="asked"))
    found = together(rule["found"])
    if not rule["passed"]:
        found = together(found, element("div", rule["hint"], class_="do"), _offending(rule["offending"]))
    return _verdict(rule["passed"]), Cell(stated, "rule"), Cell(found, "found")


def _offending(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return a table of the first rows that break a rule."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table(names, [[str(row.get(name, "")) for name in names] for row in rows]) if rows else None


def _verdict(kept: bool) -> Cell:
    return verdict(kept, "✓ kept", "✗ broken")


def _heading(title: str, kept: bool, about: str) -> Markup:
    word, tone = ("every rule is kept", "passed") if kept else ("broken", "failed")
    return element("header", element("h1", title), element("span", word, class_=f"badge {tone}"), element("p", about))


def _html(title: str, datasets: Sequence[str], current: str | None, *content: object) -> str:
    pages = {"Data Docs": INDEX} | {dataset: f"{dataset}.html" for dataset in datasets}
    links = [
        element("a", name, href=to, aria_current="page")
        if name == (current or "Data Docs")
        else element("a", name, href=to)
        for name, to in pages.items()
    ]
    closing = "Judged by Great Expectations, shown by DRSR. This page loads nothing from elsewhere."
    return document(title, element("nav", *links), element("main", *content), element("footer", closing))
