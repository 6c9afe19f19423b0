"""An audit as one HTML file that can be handed to a third party: what was checked, how, what came of it, and with what.

One file, no script, nothing loaded from elsewhere (its content security policy forbids it), light, dark and on paper.
It holds hashes, names of runs and numbers, and no text of any recorded run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drsr.errors import SettingsError
from drsr.offline.audit import report_plots
from drsr.offline.audit.checks import (
    calibration,
    chain,
    future,
    labels,
    retrained_scorer,
    split_reads,
    splits,
    weight_files,
)
from drsr.offline.audit.running import Audit
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Section, Severity, Verdict
from drsr.pages import Cell, Markup, document, element, items, table, together, verdict, write_page

_MEANING = {
    Severity.CRITICAL: "information may have leaked, or a number is not what it is said to be: do not use the policy",
    Severity.MAJOR: "something cannot be traced or computed again: find out why before the policy is used",
}
_NOT_TRAINED_AGAIN = (
    "The scorer was not trained again. The recorded keys and hashes show what it was to be trained on, and that the "
    "shipped weights are the recorded ones and do on validation what was recorded. They do not show that these weights "
    "follow from those frames; drsr audit --retrain does."
)
_LIMITS = (
    "Features and labels were computed again for a sample of the states that the policy was made from. What a sample "
    "of this size would have missed is shown above; --sample all leaves none of them out, and --seed draws another "
    "sample. States that were added since are judged by the expectations alone.",
    "The log of split reads is written by the code that hands out labels. It does not show somebody who reads the "
    "database by hand; the repeated calibration and the hash chain show that such a reader changed nothing.",
    "No audit can show whether the recorded runs are what the agents really did. The chain begins with the bytes that "
    "were ingested.",
)


def write_report(path: Path, audit: Audit) -> None:
    """Write the report, whole or not at all."""
    text = page(audit)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, text)
    except OSError as error:
        raise SettingsError(f"cannot be written: {error.strerror}", where=str(path)) from None


def check_writable(path: Path) -> None:
    """Raise SettingsError if the report could not be written: better now than after the checks."""
    if path.is_dir():
        raise SettingsError("is a folder; name a file", where=str(path))
    there = path if path.exists() else next((parent for parent in path.parents if parent.exists()), Path())
    if not os.access(there, os.W_OK) or (there != path and not there.is_dir()):
        raise SettingsError("cannot be written", where=str(path))


def page(audit: Audit) -> str:
    """Return the whole document."""
    drsr = audit.versions["drsr"]
    return document(
        f"Audit of {audit.about['audited']}",
        *_head(audit),
        element("h2", "Verdicts"),
        _severities(audit),
        element("h2", "What was audited"),
        _pairs(audit.about),
        element("h2", "Each check: question, method, finding"),
        *map(_check, audit.sections),
        element("h2", "What a sample can miss"),
        *_power(audit),
        element("h2", "What this audit does not show"),
        items(element("p", limit) for limit in _limits(audit)),
        element("h2", "Repeat this audit"),
        *_commands(audit),
        element("h2", "Versions"),
        _pairs(audit.versions),
        element(
            "footer",
            f"Written by drsr {drsr} on {audit.finished_at:%Y-%m-%d %H:%M:%S} UTC. This file is complete and "
            "loads nothing from elsewhere.",
        ),
    )


def _limits(audit: Audit) -> tuple[str, ...]:
    is_trained_again = any(section.check.name == retrained_scorer.CHECK.name for section in audit.sections)
    return _LIMITS if is_trained_again else (_NOT_TRAINED_AGAIN, *_LIMITS)


def _head(audit: Audit) -> Iterator[Markup]:
    total, wrong = len(audit.verdicts), len(audit.failures)
    yield element("h1", f"Audit of {audit.about['audited']}")
    yield element("p", f"{audit.finished_at:%Y-%m-%d %H:%M} UTC, drsr {audit.versions['drsr']}", class_="dim")
    yield from (element("p", line) for line in audit.first_lines if line not in audit.without_texts)
    if audit.without_texts:
        first, *more, last = audit.without_texts
        yield together(element("p", first), items(more), element("p", last))
    in_part = f" {len(audit.in_part)} of them in part: texts of runs are missing." if audit.in_part else ""
    word, tone, said = "Passed", "passed", f"All {total} checks passed.{in_part}"
    if wrong:
        critical = sum(verdict.severity is Severity.CRITICAL for verdict in audit.failures)
        worst = f", {critical} of them critical" if critical else ""
        word, tone = "Failed", "failed"
        said = f"{wrong} of {total} checks failed{worst}. First: {audit.failures[0].check}."
    yield element("div", element("strong", word), " ", element("span", said), class_=f"banner {tone}")


def _severities(audit: Audit) -> Markup:
    rows = [
        (
            Cell(found.severity, f"severity {found.severity}"),
            Cell(found.check, "check"),
            _judged(found),
            Cell(found.detail, "found"),
        )
        for found in audit.summary
    ]
    legend = items(
        (together(element("b", severity), f": {meaning}") for severity, meaning in _MEANING.items()), class_="dim"
    )
    return together(table(("severity if it fails", "check", "verdict", "found"), rows), legend)


def _check(section: Section[Subject]) -> Markup:
    check, verdicts = section.check, section.verdicts
    wrong = [found for found in verdicts if not found.passed]
    word = "failed" if wrong else "passed"
    said = [("asked", check.asks), ("how", check.how)]
    if len(verdicts) > 1:
        said.append(("found", f"{len(verdicts) - len(wrong)} of {len(verdicts)} rules hold"))
    else:
        said += [("found", together(found.detail, _items(found))) for found in verdicts]
    said += [("to do", hint) for hint in dict.fromkeys(found.hint for found in wrong if found.hint)]
    header = element(
        "header",
        element("h3", check.name),
        element("span", word, class_=f"verdict {word}"),
        element("span", f"{check.severity}, {section.seconds:.1f} s", class_="dim"),
    )
    terms = [part for term, text in said for part in (element("dt", term), element("dd", text))]
    return element("section", header, element("dl", *terms), _evidence(section), class_="check")


def _items(found: Verdict) -> Markup | None:
    return items(element("span", item, class_="hash") for item in found.items) if found.items else None


def _evidence(section: Section[Subject]) -> Markup | None:
    """The plot or table of a check, where it got as far as having numbers."""
    if len(section.verdicts) > 1:
        return _rules(section.verdicts)
    evidence: Mapping[str, Any] = section.verdicts[0].evidence
    if not evidence:
        return None
    name = section.check.name
    if name == chain.CHECK.name:
        return _chain(evidence["links"])
    if name == weight_files.CHECK.name:
        return _files(evidence["files"])
    plot: tuple[str, str] | None = None
    if name == labels.CHECK.name and evidence.get("recorded"):
        plot = report_plots.harms(evidence)
    elif name == future.CHECK.name and evidence["differences"]:
        plot = report_plots.feature_differences(evidence, evidence["allowed"])
    elif name == calibration.CHECK.name:
        plot = report_plots.operating_curve(evidence)
    elif name == splits.CHECK.name:
        plot = report_plots.split_sizes(evidence)
    elif name == split_reads.CHECK.name:
        plot = report_plots.reads(evidence)
    return None if plot is None else element("figure", Markup(plot[0]), element("figcaption", plot[1]))


def _rules(verdicts: Sequence[Verdict]) -> Markup:
    """Every rule, one by one."""
    rows = [
        (
            Cell(found.check, "rule"),
            Cell(found.severity, "severity"),
            _judged(found),
            Cell(found.detail, "found"),
        )
        for found in verdicts
    ]
    return table(("rule", "severity", "verdict", "judged"), rows)


def _chain(links: Sequence[Mapping[str, Any]]) -> Markup:
    rows = []
    for link in links:
        shipped, computed = link["shipped"], link["computed"]
        same = Cell("not shipped", "verdict dim") if shipped is None else _same(shipped == computed)
        made_from, items = ", ".join(link["made_from"]), Cell(f"{link['items']:,}", "number")
        rows.append((link["link"], items, made_from, _hash(computed, "shipped", shipped or computed), same))
    return table(("link", "items", "made from", "SHA-256, computed again", "as shipped"), rows)


def _files(compared: Sequence[Mapping[str, str]]) -> Markup:
    rows = [
        (file["file"], _hash(file["found"], "expected", file["expected"]), _same(file["expected"] == file["found"]))
        for file in compared
    ]
    return table(("file", "SHA-256", "as recorded"), rows)


def _hash(found: str, what: str, other: str) -> Cell:
    """A hash, and below it the hash that it should have been."""
    differs = together(Markup("<br>"), element("span", f"{what}: {other}", class_="failed"))
    return Cell(together(found, differs if found != other else None), "hash")


def _same(same: bool) -> Cell:
    return verdict(same, "same", "DIFFERENT")


def _power(audit: Audit) -> Iterator[Markup]:
    """Yield how likely a sample of this size is to find wrong states, by their share."""
    rows = []
    for section in audit.sections:
        evidence = section.verdicts[0].evidence
        if "states" in evidence and "of" in evidence and evidence["of"]:
            drawn, total = evidence["states"], evidence["of"]
            numbers = [f"{drawn:,} of {total:,}", *(f"{seen(total, share, drawn):.1%}" for share in _SHARES)]
            rows.append((section.check.name, *(Cell(number, "number") for number in numbers)))
    if not rows:
        yield element("p", "No sample could be drawn.")
        return
    yield element("p", "Had this share of all states been wrong, the sample would have held one with this probability:")
    yield table(("check", "states drawn", *(f"{share:.0%} wrong" for share in _SHARES)), rows)
    yield element(
        "p", f"Drawn with seed {audit.seed}. The hash chain covers every state and label, whatever the sample."
    )


_SHARES = (0.01, 0.05, 0.20)


def seen(total: int, share: float, drawn: int) -> float:
    """Probability that a sample without replacement holds at least one of the wrong states."""
    wrong = max(1, round(share * total))
    missed = 1.0
    for number in range(min(drawn, total)):
        missed *= max(0, total - wrong - number) / (total - number)
    return 1.0 - missed


def _commands(audit: Audit) -> Iterator[Markup]:
    sample = "all" if audit.sample is None else str(audit.sample)
    options = f"--sample {sample} --seed {audit.seed} --html audit.html"
    named = audit.about["audited"]
    policy = (
        f"--policy {shlex.quote(named)} " if "policy version" in audit.about or "not readable" in audit.about else ""
    )
    lines = [
        f"pip install 'drsr[flows]=={audit.versions['drsr']}'",
        "export DRSR_CATALOG_URL=...       # the catalog, or a copy of it: nothing is written to it",
        "export DRSR_ARTIFACT_ROOT=...     # the artifact store, or a copy of it",
        f"drsr backbone fetch {shlex.quote(audit.about.get('language model', 'NAME'))}",
        f"drsr audit {policy}{options}",
    ]
    if policy:
        lines += [f"sha256sum {shlex.quote(named)}", f"drsr policy verify {shlex.quote(named)}"]
    yield element("pre", "\n".join(lines))
    yield element("p", "A seed of your own draws a sample that nobody could prepare for.")


def _pairs(values: Mapping[str, str]) -> Markup:
    return table((), [(name, Cell(value, "hash")) for name, value in values.items()])


def _judged(found: Verdict) -> Cell:
    return Cell(found.word, "verdict dim") if found.word == "in part" else verdict(found.passed)
