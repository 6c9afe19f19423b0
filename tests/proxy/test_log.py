"""The log stays small, whoever makes the proxy complain."""

from __future__ import annotations

import json
import logging

from drsr.proxy.log import AtMost, JsonLines, TextLines


def record(message: str, at: float, *arguments: object) -> logging.LogRecord:
    found = logging.LogRecord("drsr.proxy", logging.WARNING, "", 1, message, arguments, None)
    found.created = at
    return found


def test_lines_of_one_kind_are_bounded_per_second_and_the_rest_is_counted() -> None:
    kept = AtMost(3)
    assert [kept.filter(record("bad head from %s", 10.0 + number / 100, number)) for number in range(8)] == [
        *(True, True, True),
        *(False,) * 5,
    ]
    assert kept.filter(record("something else", 10.5))
    later = record("bad head from %s", 11.0, 9)
    assert kept.filter(later)
    assert TextLines().format(later).endswith("bad head from 9  (5 more like this were left out)")
    assert json.loads(JsonLines().format(later))["left_out"] == 5
    again = record("bad head from %s", 11.1, 10)
    assert kept.filter(again)
    assert TextLines().format(again).endswith("bad head from 10")


def test_the_kinds_themselves_are_bounded() -> None:
    kept = AtMost(3)
    for number in range(5_000):
        assert kept.filter(record(f"kind {number}", 10.0))
    assert len(kept._seen) <= 1_000
