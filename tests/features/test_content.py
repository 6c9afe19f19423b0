"""Content indicators: what counts as an error, a path, a failed command."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.features.content import (
    _NONZERO_EXIT,
    _RUN,
    _is_path,
    content_indicators,
    nonzero_exits,
    paths_in,
    symbols,
)
from drsr.features.lexical import read_passages
from drsr.request.request import read_request


def indicators(text: str) -> dict[str, float]:
    (passage,) = read_passages(read_request([{"role": "user", "content": text}])).values()
    return content_indicators(passage)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("error_density", "Traceback: FileNotFoundError was raised", 2 / 4),
        ("error_density", "terror errorless", 1 / 2),  # only endings count
        ("error_density", "all is fine", 0),
        ("success_density", "Tests PASSED, ok", 2 / 3),
        ("path_density", "see /usr/lib and ./a", 2 / 5),
        ("path_density", "src/main.py:12:", 1 / 4),
        ("path_density", r"C:\temp x", 1 / 3),
        ("path_density", "and/or 12/05 // comment", 0),
        ("path_density", "~/notes ../up", 2 / 2),
        ("numeric_density", "17 of 42 a1", 2 / 4),
        ("nonzero_exit_density", "exit code 1", 1 / 3),
        ("nonzero_exit_density", "Exit status: 127", 1 / 3),
        ("nonzero_exit_density", "exited with code -9", 1 / 4),
        ("nonzero_exit_density", '"exit_code": 2', 1 / 2),
        ("nonzero_exit_density", "returncode=1", 1 / 2),
        ("nonzero_exit_density", "exit code 0, exit 1", 0),  # `exit 1` is a line of a script
        ("symbol_density", "a{};", 3 / 4),
        ("distinct_share", "a a a b", 2 / 4),
    ],
)
def test_indicators(column: str, text: str, expected: float) -> None:
    assert indicators(text)[column] == pytest.approx(expected)


@given(
    st.lists(
        st.sampled_from(("exit", "Exited", " with ", " code", "status: ", "return", "code", "=", "1", "0", "x", "\n"))
        | st.text(alphabet=st.characters(max_codepoint=0x17F), max_size=3),
        max_size=12,
    ).map("".join)
)
def test_symbols_and_failed_commands_are_what_the_expressions_find(text: str) -> None:
    """ASCII text is counted by a table and by looking only at two words."""
    assert symbols(text) == len(re.findall(r"[^\w\s]", text))
    assert nonzero_exits(text) == len(_NONZERO_EXIT.findall(text))


@given(st.text(alphabet=st.sampled_from("ab./\\~ \n\t\r\x0b\x1c\u2028:(,1"), max_size=40))
def test_paths_are_looked_for_in_lines_that_have_a_separator(text: str) -> None:
    assert paths_in(text) == [run for run in _RUN.findall(text) if _is_path(run)]


def test_nothing_said() -> None:
    assert set(indicators("").values()) == {0.0}
    assert set(indicators(" \n ").values()) == {0.0}


@pytest.mark.parametrize("text", ["a" * 10**6, "/" * 10**6, "exit " * 10**5, "a/" * 10**5, ".1" * 10**5, "0" * 10**6])
def test_cost_is_linear_whatever_a_tool_printed(text: str) -> None:
    start = time.process_time()
    indicators(text)
    assert time.process_time() - start < 5  # a quadratic expression would take hours
