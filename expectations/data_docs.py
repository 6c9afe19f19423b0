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
import os
import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.errors import SettingsError
from drsr.expectations.judging import DATASETS
from drsr.expectations.suites import SUITES

if TYPE_CHECKING:
    from drsr.expectations.evaluation import Finding

INDEX = "index.html"
FORMAT = "drsr-data-docs/1"
"""Changes whenever an older page could not be shown beside newer ones."""
_STYLE = Path(__file__).with_suffix(".css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

Page = dict[str, Any]
"""What is kept of a dataset's findings, as JSON."""


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
            _write(folder / f"{dataset}.json", json.dumps(page, indent=1) + "\n")
            _write(folder / f"{dataset}.html", dataset_html(page, tuple(pages)))
        _write(folder / INDEX, index_html(pages))
    except OSError as error:
        raise SettingsError(f"cannot be written to: {error.strerror}", where=str(folder)) from None
    return folder / INDEX


def index_html(pages: Mapping[str, Page]) -> str:
    """The index: what was judged, when, and how it came out."""
    rows = []
    for dataset, page in pages.items():
        broken = sum(not rule["passed"] for rule in page["rules"])
        rows.append(
            f'<tr><td class="verdict {_class(not broken)}">{_word(not broken)}</td>'
            f'<td><a href="{dataset}.html">{dataset}</a><div class="dim">{escape(SUITES[dataset].about)}</div></td>'
            f'<td class="number">{len(page["rules"])}</td><td class="number">{broken}</td>'
            f'<td class="number">{escape(page["judged_at"])}</td></tr>'
        )
    absent = [dataset for dataset in DATASETS if dataset not in pages]
    note = f'<p class="dim">Not judged yet: {", ".join(absent)}.</p>' if absent else ""
    head = "<tr><th>verdict</th><th>dataset</th><th class=number>rules</th><th class=number>broken</th>"
    head += "<th class=number>judged (UTC)</th></tr>"
    kept = bool(pages) and all(rule["passed"] for page in pages.values() for rule in page["rules"])
    catalogs = sorted({str(page["catalog"]) for page in pages.values()})
    about = f"What is expected of the data, and whether it holds. Catalog: {', '.join(catalogs)}"
    return _html(
        "Data Docs",
        _heading("Data Docs", kept, about)
        + f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{note}",
        tuple(pages),
        None,
    )


def dataset_html(page: Page, datasets: Sequence[str]) -> str:
    """The page of a dataset: part by part, rule by rule."""
    dataset = page["dataset"]
    sections = []
    for part in page["parts"]:
        mine = [rule for rule in page["rules"] if rule["part"] == part["name"]]
        sections.append(
            f"<section><h2>{escape(part['name'].replace('_', ' '))}</h2>"
            f'<p class="dim">{escape(part["grain"])} Here: {part["rows"]:,}.</p>{_rules(mine)}</section>'
        )
    lost = [rule for rule in page["rules"] if not rule["part"]]
    if lost:
        sections.insert(0, f"<section><h2>rules that were lost</h2>{_rules(lost)}</section>")
    kept = all(rule["passed"] for rule in page["rules"])
    about = f"{SUITES[dataset].about} Judged {page['judged_at']} UTC. Catalog: {page['catalog']}"
    return _html(f"{dataset} - Data Docs", _heading(dataset, kept, about) + "".join(sections), datasets, dataset)


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
    raise SettingsError("is no page of Data Docs", where=str(path), hint="remove it, or name another folder")


def _rules(rules: Iterable[Mapping[str, Any]]) -> str:
    head = "<tr><th>verdict</th><th>rule</th><th>found</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(map(_rule, rules))}</tbody></table>"


def _rule(rule: Mapping[str, Any]) -> str:
    asked = ", ".join(f"{name}={json.dumps(value)}" for name, value in rule["asked"].items())
    found = escape(str(rule["found"]))
    if not rule["passed"]:
        found += f'<div class="do">{escape(rule["hint"])}</div>{_offending(rule["offending"])}'
    return (
        f'<tr><td class="verdict {_class(rule["passed"])}">{_word(rule["passed"])}</td>'
        f'<td class="rule">{escape(rule["rule"])}'
        f'<div class="asked">{escape(rule["expectation"])}({escape(asked)})</div></td>'
        f'<td class="found">{found}</td></tr>'
    )


def _offending(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first rows that break a rule, as a table of their own."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row.get(name, '')))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _heading(title: str, kept: bool, about: str) -> str:
    badge = f'<span class="badge {_class(kept)}">{"every rule is kept" if kept else "broken"}</span>'
    return f"<header><h1>{escape(title)}</h1>{badge}<p>{escape(about)}</p></header>"


def _class(kept: bool) -> str:
    return "kept" if kept else "broken"


def _word(kept: bool) -> str:
    """Not by colour alone."""
    return "✓ kept" if kept else "✗ broken"


def _html(title: str, body: str, datasets: Sequence[str], current: str | None) -> str:
    links = [("Data Docs", INDEX, current is None)]
    links += [(dataset, f"{dataset}.html", dataset == current) for dataset in datasets]
    shown = "".join(f'<a href="{to}"{" aria-current=page" if here else ""}>{name}</a>' for name, to, here in links)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><nav>{shown}</nav><main>{body}</main>"
        "<footer>Judged by Great Expectations, shown by DRSR. This page loads nothing and calls nobody.</footer>"
        "</body></html>\n"
    )


def _write(path: Path, text: str) -> None:
    """Whoever reads the page meanwhile sees the old one or the new one."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
