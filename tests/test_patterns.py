"""No regular expression takes more than linear time, whatever is repeated in the text it is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pattern_steps import MOST, Steps, TooManySteps

ROOT = Path(__file__).resolve().parents[1]
_ANCHORED = frozenset({"match", "fullmatch"})
_USES = frozenset({*_ANCHORED, "search", "finditer", "findall", "sub", "subn", "split"})
_SIZES = (8, 16, 32)
"""Repetitions; what each doubling adds may double, and not quadruple."""
_ALWAYS = ("a", "1", " ", "\n", "_", "-", ".", "/", "a-")
MADE_LATER = "drsr/offline/sandbox/agent.py"
"""Its patterns are those of our own scripted agents."""
GIVEN = {
    "drsr/offline/ingest/feeds/redaction.py": "pattern",
    "drsr/backbone/byte_level/tokenizer.py": "'|'.join(map(re.escape, longest_first)) or '(?!)'",
}
"""By file what it compiles from what it is given: a user's own settings, which are theirs to keep quick, or escaped
texts of which one is looked for."""
SLOW = {
    "drsr/offline/bench/comparators/identifiers.py",
    "drsr/offline/bench/summarisers/scripted.py",
}
"""Files with a pattern that is worse than linear: comparators, which a researcher runs and no stage does."""


class Found(NamedTuple):
    """A pattern in the source, and how it is used."""

    place: str
    pattern: str
    flags: int
    uses: frozenset[str]


@cache
def patterns() -> tuple[Found, ...]:
    return tuple(found for path in sorted((ROOT / "drsr").rglob("*.py")) for found in _in_file(path))


def _in_file(path: Path) -> Iterator[Found]:
    text = path.read_text()
    name = str(path.relative_to(ROOT))
    if "re." not in text or name == MADE_LATER:
        return
    tree = ast.parse(text)
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    names = {id(node.value): to.id for node in assigned for to in node.targets if isinstance(to, ast.Name)}
    bound = {id(node.value): frozenset({node.attr}) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _is_re(node.func) and node.args):
            continue
        assert isinstance(node.func, ast.Attribute)
        called = node.func.attr
        if called not in {*_USES, "compile"}:
            continue
        if GIVEN.get(name) == ast.unparse(node.args[0]):
            continue
        place = f"{name}:{node.lineno}"
        uses = frozenset({called}) if called != "compile" else bound.get(id(node)) or _uses(tree, names.get(id(node)))
        module = import_module(name.removesuffix(".py").replace("/", ".")) if _is_made(node) else None
        scope = {"re": re, **(vars(module) if module else {})}
        made = eval(compile(ast.Expression(node.args[0]), place, "eval"), scope)  # noqa: S307  # our own source
        flags = [argument for argument in node.args[1:] if "re." in ast.unparse(argument)]
        flags += [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
        flag = eval(compile(ast.Expression(flags[0]), place, "eval"), scope) if flags else 0  # noqa: S307
        yield Found(place, made.decode("latin-1") if isinstance(made, bytes) else made, int(flag), uses)


def _is_re(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"


def _is_made(call: ast.Call) -> bool:
    return not isinstance(call.args[0], ast.Constant)


def _uses(tree: ast.AST, name: str | None) -> frozenset[str]:
    """How a compiled pattern is used; nothing where its file does not show it, which counts as every way."""
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
    return frozenset(found & _USES)


def pieces(pattern: str, flags: int) -> list[str]:
    """What to repeat: the literal texts of a pattern, the ends of its ranges, and some letters of every kind."""
    found: set[str] = set()

    def walk(items: Any) -> None:
        run = ""
        for kind, value in items:
            if kind is sre.LITERAL:
                run += chr(value)
                continue
            if run:
                found.add(run)
            run = ""
            if kind is sre.IN:
                found.update(chr(inner) for one, inner in value if one is sre.LITERAL)
            elif kind is sre.BRANCH:
                for branch in value[1][:3]:
                    walk(branch)
            elif kind is sre.SUBPATTERN:
                walk(value[3])
            elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                walk(value[2])
        if run:
            found.add(run)

    walk(_parser.parse(pattern, flags))
    return sorted(found, key=lambda piece: (len(piece), piece))


def steps(found: Found, text: str) -> int:
    counter = Steps(found.pattern, found.flags, text)
    with suppress(TooManySteps):  # which ends one count above all others
        if found.uses and found.uses <= _ANCHORED:
            counter.match(0, full="fullmatch" in found.uses)
        else:
            counter.find_all()
    return counter.count


def _repeats(value: Any) -> bool:
    """Return whether anything in a parsed pattern may be repeated without end."""
    if isinstance(value, tuple | list | _parser.SubPattern):
        return any(part is sre.MAXREPEAT or _repeats(part) for part in value)
    return False


def growth(found: Found, before: str, piece: str, behind: str) -> tuple[int, int]:
    """Return what the first and the second doubling of a text's repeated part add to the steps."""
    small, middle, large = (steps(found, before + piece * size + behind) for size in _SIZES)
    return middle - small, large - middle


def worst(found: Found) -> str | None:
    """Return a text on which the steps of a pattern grow faster than the text, if one is found."""
    if not _repeats(_parser.parse(found.pattern, found.flags)):
        return None  # from every place so many steps and no more
    own = pieces(found.pattern, found.flags)
    starts = ["", *own[-1:], "".join(own[-2:])]
    for before, piece in product(dict.fromkeys(starts), dict.fromkeys([*own[:8], *_ALWAYS])):
        first, second = growth(found, before, piece, "\x00")  # no pattern ends like this: every way is tried
        if second > 2.9 * max(first, 40) or steps(found, before + piece * _SIZES[-1] + "\x00") > MOST:
            return f"{before!r} + {piece!r} * n: {first} steps more, then {second}"
    return None


@pytest.mark.parametrize("found", patterns(), ids=lambda found: found.place)
def test_a_pattern_grows_with_its_text(found: Found) -> None:
    if found.place.partition(":")[0] not in SLOW:
        assert worst(found) is None, found.pattern


def test_the_list_of_slow_patterns_only_shrinks() -> None:
    found = {one.place.partition(":")[0] for one in patterns() if one.place.partition(":")[0] in SLOW and worst(one)}
    assert found == SLOW


@pytest.mark.parametrize(
    ("pattern", "uses"),
    [
        (r"<tool_response>\s*(.*?)\s*</tool_response>", "findall"),
        (r"[\w.~-]*[/\\][\w.-]", "search"),
        (r"(a+)+b", "match"),
        (r"\s+$", "search"),
    ],
)
def test_a_pattern_that_does_not_is_found(pattern: str, uses: str) -> None:
    assert worst(Found("here", pattern, re.S, frozenset({uses}))) is not None


@given(st.sampled_from(patterns()), st.data())
def test_the_count_is_of_what_the_engine_does(found: Found, data: st.DataObject) -> None:
    """The twin: the interpreter finds the same matches as `re`."""
    alphabet = [*pieces(found.pattern, found.flags)[:12], *_ALWAYS]
    text = "".join(data.draw(st.lists(st.sampled_from(alphabet), max_size=12)))
    counter, compiled = Steps(found.pattern, found.flags, text), re.compile(found.pattern, found.flags)
    expected = compiled.match(text)
    assert counter.match(0) == (None if expected is None else expected.end())
    assert (counter.match(0, full=True) is None) is (compiled.fullmatch(text) is None)
