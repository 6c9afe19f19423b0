"""The words of a request."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from drsr.features.lexical import identifiers, part_text, quotient, read_passages, share, together, words_of
from drsr.request.parts import Call, Opaque, PartRef, Result
from drsr.request.request import read_request


def test_a_call_says_its_name_keys_and_values() -> None:
    arguments = {"path": "a\nb", "options": {"deep": [1, 2.5, None, True]}, "empty": {}}
    call = Call("c", "read", arguments, ("tool_calls", 0))
    assert part_text(call).split("\n") == [
        "read",
        "path",
        "a",
        "b",
        "options",
        "deep",
        "1",
        "2.5",
        "None",
        "True",
        "empty",
    ]
    assert part_text(Call("c", "bash", "ls -la", ("tool_calls", 0))) == "bash\nls -la"


def test_opaque_parts_say_nothing() -> None:
    assert part_text(Opaque("image_url", ("content", 0))) == ""
    assert part_text(Result("c", "text beside an image", True, ("content",))) == "text beside an image"


def test_words_are_lower_case_runs_of_letters_digits_and_underscores() -> None:
    request = read_request([{"role": "user", "content": "Find ORDER_17, über/42.5!"}])
    passage = read_passages(request)[PartRef(0, 0)]
    assert passage.words == ["find", "order_17", "über", "42", "5"]


def test_anthropics_system_stands_first() -> None:
    request = read_request({"system": "be brief", "messages": [{"role": "user", "content": "hello"}]})
    passages = read_passages(request)
    assert list(passages) == [PartRef(-1, 0), PartRef(0, 0)]
    assert together(passages.values()).words == ["be", "brief", "hello"]


def test_identifiers_have_a_digit_or_an_underscore_and_three_characters() -> None:
    assert identifiers(["order", "order_17", "w2", "a_b", "2301", "x", "42"]) == {"order_17", "a_b", "2301"}


def test_shares_of_nothing_are_nothing() -> None:
    some, none = frozenset("ab"), frozenset[str]()
    assert share(some, none) == share(none, some) == share(none, none) == 0
    assert share({"a", "c"}, some) == 0.5
    assert quotient(1, 0) == 0


@given(text=st.text(alphabet=st.characters(max_codepoint=0x17F) | st.sampled_from("Σσς\n\u212a\u2028 "), max_size=40))
def test_words_are_runs_of_letters_digits_and_underscores(text: str) -> None:
    """By splitting where a text is ASCII, by the expression elsewhere: the same."""
    assert words_of(text) == re.findall(r"\w+", text.lower())
