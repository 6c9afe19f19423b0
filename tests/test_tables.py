"""Tables a person can read."""

from __future__ import annotations

from drsr.tables import excerpt, table


def test_numbers_stand_right_and_text_left() -> None:
    shown = table(("name", "tokens", "share"), [("a", 1234, 0.5), ("bcd", 7, None)], indent="")
    assert shown.splitlines() == [
        "name  tokens   share",
        "----  ------  ------",
        "a      1,234  0.5000",
        "bcd        7",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(("a", "b"), [], indent="").splitlines() == ["a  b", "-  -"]


def test_an_excerpt_is_one_short_printable_line() -> None:
    assert excerpt("one\ntwo\tthree  four") == "one two three four"
    assert excerpt("x" * 60, length=10) == "xxxxxxxxx…"
    assert excerpt("a\x1b[31mb\x00") == "a?[31mb?"
