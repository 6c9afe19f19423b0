"""Content indicators: how much of a Block mentions errors, success, paths, numbers and failed commands.

Densities are per word, so that a long Block and a short one compare; 0 if there are no words. English words only:
agents' tools speak English, and a word list that misses a language is a weak column, not a wrong one.
"""

from __future__ import annotations

import re

from drsr.features.lexical import Passage, quotient

_ERROR_WORDS = frozenset({
    "abort", "aborted", "cannot", "conflict", "crash", "crashed", "denied", "exception", "expired", "fail", "failed",
    "failing", "fails", "failure", "failures", "fatal", "forbidden", "illegal", "invalid", "missing", "panic",
    "refused", "rejected", "segfault", "timeout", "traceback", "unable", "undefined", "unexpected", "unknown",
    "unresolved", "unsupported", "warning", "wrong",
})  # fmt: skip
_ERROR_ENDINGS = ("error", "errors", "exception")
"""Also `FileNotFoundError`, which is one word."""
_SUCCESS_WORDS = frozenset({
    "accepted", "complete", "completed", "confirmed", "created", "done", "finished", "fixed", "ok", "okay", "pass",
    "passed", "passes", "passing", "ready", "resolved", "saved", "solved", "succeed", "succeeded", "succeeds",
    "success", "successful", "successfully", "updated", "valid", "verified",
})  # fmt: skip
# Repetitions are bounded or cannot overlap: each expression is linear in the text, whatever a tool printed.
_SYMBOL = re.compile(r"[^\w\s]")
_ASCII_SYMBOLS = bytes(code for code in range(128) if _SYMBOL.match(chr(code)))
_RUN = re.compile(r"[^\s\"'`<>|,;()\[\]{}=]+")
_PATH_START = re.compile(r"(?:\.{0,2}|~)/[^/]|[A-Za-z]:[/\\]")
_PATH_END = re.compile(r"[/\\][^/\\]*\.\w{1,5}(?::\d{1,7}){0,2}[:.]?$")
_NONZERO_EXIT = re.compile(
    r"""\b(?:exit(?:ed)?(?:[ _-]with)?[ _-]?(?:code|status)|exited[ ]with|return[ _-]?code)  # exit code, returncode
        ["']?\s{0,3}[:=]?\s{0,3}-?0{0,9}[1-9]""",
    re.IGNORECASE | re.VERBOSE,
)

_EXIT_WORD = re.compile("exit|return")


def content_indicators(passage: Passage) -> dict[str, float]:
    """Return the seven indicators that text alone gives, by column name."""
    text, counts, count = passage.text, passage.counts, len(passage.words)
    return {
        "error_density": quotient(sum(counts[word] for word in filter(is_error, counts)), count),
        "success_density": quotient(sum(counts[word] for word in _SUCCESS_WORDS), count),
        "path_density": quotient(len(paths_in(text)), count),
        "numeric_density": quotient(sum(counts[word] for word in filter(str.isdecimal, counts)), count),
        "nonzero_exit_density": quotient(nonzero_exits(text), count),
        "symbol_density": quotient(symbols(text), len(text)),
        "distinct_share": quotient(len(counts), count),
    }


def nonzero_exits(text: str) -> int:
    """Return how often a text reports that a command failed. ASCII text is searched only if it contains one of the two
    words that begin every such report."""
    if not text.isascii():
        return len(_NONZERO_EXIT.findall(text))
    count = end = 0
    for word in _EXIT_WORD.finditer(text.lower()):
        report = _NONZERO_EXIT.match(text, word.start()) if word.start() >= end else None
        if report is not None:
            count, end = count + 1, report.end()
    return count


def symbols(text: str) -> int:
    """Return how many characters are neither part of a word nor space."""
    if text.isascii():
        return len(text) - len(text.encode("ascii").translate(None, _ASCII_SYMBOLS))
    return len(_SYMBOL.findall(text))


def paths_in(text: str) -> list[str]:
    """Return the paths that a text names, in order, with repetitions."""
    if "/" not in text and "\\" not in text:
        return []
    # Most of a text has no separator: only what has one is taken apart.
    lines = [line for line in text.split("\n") if "/" in line or "\\" in line]
    separated = [piece for piece in " ".join(lines).split() if "/" in piece or "\\" in piece]
    return list(filter(_is_path, _RUN.findall("\n".join(separated))))


def is_error(word: str) -> bool:
    """Return whether a word, in lower case, speaks of an error."""
    return word in _ERROR_WORDS or word.endswith(_ERROR_ENDINGS)


def _is_path(run: str) -> bool:
    """Return whether a word begins like a path, or ends in a file with an extension after a separator. `and/or` and
    `12/05` do neither."""
    if "/" not in run and "\\" not in run:
        return False
    return bool(_PATH_START.match(run) or _PATH_END.search(run))
