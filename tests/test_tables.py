"""Tables a person can read."""

from __future__ import annotations

from drsr.tables import excerpt, plain_cell, printable, table


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


def test_a_cell_cannot_reach_the_terminal() -> None:
    shown = table(("file", "runs"), [("a\x1b[2Jb\nc\u202ed.json", 1), ("plain é 猫.json", 2)], indent="")
    assert shown.splitlines()[2:] == ["a?[2Jb?c?d.json     1", "plain é 猫.json      2"]


def test_printable_text_stays_as_it_is() -> None:
    assert printable("one two é 猫") == "one two é 猫"
    assert printable("one\ntwo\r\x1b]0;title\x07\x9b", keep="\n") == "one\ntwo??]0;title??"


def test_text_from_strangers_begins_no_formula_in_a_sheet() -> None:
    for text in ("=HYPERLINK(1)", "@SUM(A1)", "+A1", "-A1", "\t=1", "\r=1"):
        assert plain_cell(text) == f"'{text}"
    assert [plain_cell(value) for value in ("-33.3 [-47.7, +10.0]", "+2.5%")] == ["-33.3 [-47.7, +10.0]", "+2.5%"]
    assert plain_cell("-2+3+cmd|x") == "'-2+3+cmd|x"
    assert [plain_cell(value) for value in ("gpt-4o", "", -1, -1.5, None)] == ["gpt-4o", "", -1, -1.5, None]
