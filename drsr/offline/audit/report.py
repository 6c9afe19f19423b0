"""An audit as one HTML file that can be handed to a third party: what was checked, how, what came of it, and with what.

One file, no script, nothing loaded from elsewhere (its content security policy forbids it), light, dark and on paper.
It holds hashes, names of runs and numbers, and no text of any recorded run.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
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

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_MEANING = {
    Severity.CRITICAL: "information may have leaked, or a number is not what it is said to be: do not use the policy",
    Severity.MAJOR: "something cannot be traced or computed again: find out why before the policy is used",
}
_NOT_TRAINED_AGAIN = (
    "The scorer was not trained again. The recorded keys and hashes show what it was to be trained on, and that the "
    "shipped weights are the recorded ones and do on validation what was recorded; that these weights follow from "
    "those frames, they do not show. drsr audit --retrain does."
)
_LIMITS = (
    "Features and labels were computed again for a sample of the states that the policy was made from. What a sample "
    "of this size would have missed is said above; --sample all leaves none of them out, and --seed draws another "
    "sample. States that were added since are judged by the expectations alone.",
    "The log of split reads is written by the code that hands out labels. Somebody who reads the database by hand "
    "is not in it; that such a reader changed nothing is what the repeated calibration and the hash chain show.",
    "Whether the recorded runs are what the agents really did is outside of what any of this can show. The chain "
    "begins with the bytes that were ingested.",
)


def write_report(path: Path, audit: Audit) -> None:
    """Write the report, whole or not at all."""
    text = page(audit)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot be written: {error.strerror}", where=str(path)) from None


def check_writable(path: Path) -> None:
    """SettingsError where the report could not be written: better now than after the checks."""
    if path.is_dir():
        raise SettingsError("is a folder; name a file", where=str(path))
    there = path if path.exists() else next((parent for parent in path.parents if parent.exists()), Path())
    if not os.access(there, os.W_OK) or (there != path and not there.is_dir()):
        raise SettingsError("cannot be written", where=str(path))


def page(audit: Audit) -> str:
    """The whole document."""
    style = files("drsr.offline.audit").joinpath("report.css").read_text(encoding="utf-8")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Audit of {escape(audit.about['audited'])}</title>",
        f"<style>{style}</style></head><body>",
        *_head(audit),
        "<h2>Verdicts</h2>",
        _severities(audit),
        "<h2>What was audited</h2>",
        _pairs(audit.about),
        "<h2>What was asked, how it was answered, what was found</h2>",
        *(_check(section) for section in audit.sections),
        "<h2>What a sample can miss</h2>",
        *_power(audit),
        "<h2>What this audit does not show</h2>",
        "<ul>" + "".join(f"<li><p>{escape(limit)}</p></li>" for limit in _limits(audit)) + "</ul>",
        "<h2>Do it again</h2>",
        *_commands(audit),
        "<h2>Versions</h2>",
        _pairs(audit.versions),
        f"<footer>Written by drsr {escape(audit.versions['drsr'])} on {audit.finished_at:%Y-%m-%d %H:%M:%S} UTC. This "
        "file is complete in itself; nothing in it was loaded from elsewhere.</footer>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _limits(audit: Audit) -> tuple[str, ...]:
    is_trained_again = any(section.check.name == retrained_scorer.CHECK.name for section in audit.sections)
    return _LIMITS if is_trained_again else (_NOT_TRAINED_AGAIN, *_LIMITS)


def _head(audit: Audit) -> Iterator[str]:
    total, wrong = len(audit.verdicts), len(audit.failures)
    yield f"<h1>Audit of {escape(audit.about['audited'])}</h1>"
    yield f'<p class="dim">{audit.finished_at:%Y-%m-%d %H:%M} UTC, drsr {escape(audit.versions["drsr"])}</p>'
    if wrong == 0:
        yield f'<div class="banner passed"><strong>Passed</strong> <span>All {total} checks passed.</span></div>'
        return
    critical = sum(verdict.severity is Severity.CRITICAL for verdict in audit.failures)
    worst = f", {critical} of them critical" if critical else ""
    said = f"{wrong} of {total} checks failed{worst}. First: {audit.failures[0].check}."
    yield f'<div class="banner failed"><strong>Failed</strong> <span>{escape(said)}</span></div>'


def _severities(audit: Audit) -> str:
    rows = [
        f'<tr><td class="severity {verdict.severity}">{verdict.severity}</td>'
        f'<td class="check">{escape(verdict.check)}</td><td class="verdict {_word(verdict)}">{_word(verdict)}</td>'
        f"<td>{escape(verdict.detail)}</td></tr>"
        for verdict in audit.summary
    ]
    legend = "".join(f"<li><b>{severity}</b>: {meaning}</li>" for severity, meaning in _MEANING.items())
    head = "<tr><th>severity if it fails</th><th>check</th><th>verdict</th><th>found</th></tr>"
    return f'<table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table><ul class="dim">{legend}</ul>'


def _check(section: Section[Subject]) -> str:
    check, verdicts = section.check, section.verdicts
    wrong = [verdict for verdict in verdicts if not verdict.passed]
    word = "failed" if wrong else "passed"
    shown = [f"<dt>found</dt><dd>{escape(verdict.detail)}{_items(verdict)}</dd>" for verdict in verdicts]
    if len(verdicts) > 1:
        shown = [f"<dt>found</dt><dd>{len(verdicts) - len(wrong)} of {len(verdicts)} rules hold</dd>"]
    hints = dict.fromkeys(verdict.hint for verdict in wrong if verdict.hint)
    shown += [f"<dt>to do</dt><dd>{escape(hint)}</dd>" for hint in hints]
    return (
        f'<section class="check"><header><h3>{escape(check.name)}</h3><span class="verdict {word}">{word}</span>'
        f'<span class="dim">{check.severity}, {section.seconds:.1f} s</span></header>'
        f"<dl><dt>asked</dt><dd>{escape(check.asks)}</dd><dt>how</dt><dd>{escape(check.how)}</dd>{''.join(shown)}</dl>"
        f"{_evidence(section)}</section>"
    )


def _items(verdict: Verdict) -> str:
    if not verdict.items:
        return ""
    return "<ul>" + "".join(f'<li class="hash">{escape(item)}</li>' for item in verdict.items) + "</ul>"


def _evidence(section: Section[Subject]) -> str:
    """The plot or table of a check, where it got as far as having numbers."""
    if len(section.verdicts) > 1:
        return _rules(section.verdicts)
    evidence: Mapping[str, Any] = section.verdicts[0].evidence
    if not evidence:
        return ""
    name = section.check.name
    if name == chain.CHECK.name:
        return _chain(evidence["links"])
    if name == weight_files.CHECK.name:
        return _files(evidence["files"])
    plot: tuple[str, str] | None = None
    if name == labels.CHECK.name and evidence["recorded"]:
        plot = report_plots.harms(evidence)
    elif name == future.CHECK.name and evidence["differences"]:
        plot = report_plots.feature_differences(evidence, future.AGREEMENT)
    elif name == calibration.CHECK.name:
        plot = report_plots.operating_curve(evidence)
    elif name == splits.CHECK.name:
        plot = report_plots.split_sizes(evidence)
    elif name == split_reads.CHECK.name:
        plot = report_plots.reads(evidence)
    return "" if plot is None else f"<figure>{plot[0]}<figcaption>{escape(plot[1])}</figcaption></figure>"


def _rules(verdicts: Sequence[Verdict]) -> str:
    """Every rule, one by one."""
    rows = [
        f'<tr><td class="check">{escape(verdict.check)}</td><td class="severity">{verdict.severity}</td>'
        f'<td class="verdict {_word(verdict)}">{_word(verdict)}</td><td>{escape(verdict.detail)}</td></tr>'
        for verdict in verdicts
    ]
    head = "<tr><th>rule</th><th>severity</th><th>verdict</th><th>judged</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _chain(links: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for link in links:
        shipped, computed = link["shipped"], link["computed"]
        verdict = "not shipped" if shipped is None else "same" if shipped == computed else "DIFFERENT"
        tone = "failed" if verdict == "DIFFERENT" else "passed" if verdict == "same" else "dim"
        other = f'<br><span class="failed">shipped: {escape(str(shipped))}</span>' if verdict == "DIFFERENT" else ""
        rows.append(
            f'<tr><td>{escape(link["link"])}</td><td class="number">{link["items"]:,}</td>'
            f"<td>{escape(', '.join(link['made_from']))}</td>"
            f'<td class="hash">{escape(computed)}{other}</td><td class="verdict {tone}">{verdict}</td></tr>'
        )
    head = "<tr><th>link</th><th>items</th><th>made from</th><th>SHA-256, computed again</th><th>as shipped</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _files(compared: Sequence[Mapping[str, str]]) -> str:
    rows = []
    for file in compared:
        same = file["expected"] == file["found"]
        other = "" if same else f'<br><span class="failed">expected: {escape(file["expected"])}</span>'
        word, tone = ("same", "passed") if same else ("DIFFERENT", "failed")
        rows.append(
            f'<tr><td>{escape(file["file"])}</td><td class="hash">{escape(file["found"])}{other}</td>'
            f'<td class="verdict {tone}">{word}</td></tr>'
        )
    head = "<tr><th>file</th><th>SHA-256</th><th>as recorded</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _power(audit: Audit) -> Iterator[str]:
    """Yield how likely a sample of this size is to find wrong states, by their share."""
    rows = []
    for section in audit.sections:
        evidence = section.verdicts[0].evidence
        if "states" in evidence and "of" in evidence and evidence["of"]:
            drawn, total = evidence["states"], evidence["of"]
            chances = "".join(f'<td class="number">{seen(total, share, drawn):.1%}</td>' for share in _SHARES)
            name = escape(section.check.name)
            rows.append(f'<tr><td>{name}</td><td class="number">{drawn:,} of {total:,}</td>{chances}</tr>')
    if not rows:
        yield "<p>No sample could be drawn.</p>"
        return
    yield "<p>Had this share of all states been wrong, the sample would have held one with this probability:</p>"
    heads = "".join(f'<th class="number">{share:.0%} wrong</th>' for share in _SHARES)
    head = f'<tr><th>check</th><th class="number">states drawn</th>{heads}</tr>'
    yield f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    yield f"<p>Drawn with seed {audit.seed}. The hash chain covers every state and label, whatever the sample.</p>"


_SHARES = (0.01, 0.05, 0.20)


def seen(total: int, share: float, drawn: int) -> float:
    """Probability that a sample without replacement holds at least one of the wrong states."""
    wrong = max(1, round(share * total))
    missed = 1.0
    for number in range(min(drawn, total)):
        missed *= max(0, total - wrong - number) / (total - number)
    return 1.0 - missed


def _commands(audit: Audit) -> Iterator[str]:
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
    yield f"<pre>{escape(chr(10).join(lines))}</pre>"
    yield "<p>A seed of your own draws a sample that nobody could prepare for.</p>"


def _pairs(values: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="hash">{escape(str(value))}</td></tr>' for name, value in values.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _word(verdict: Verdict) -> str:
    return "passed" if verdict.passed else "failed"
