"""Every code point has the class that the library gives it."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from numpy.typing import NDArray
from tokenizers import normalizers, pre_tokenizers

from drsr.backbone.byte_level.characters import _stand_ins

BEYOND_ASCII = [point for point in range(0x80, 0x110000) if not 0xD800 <= point <= 0xDFFF]


def points_of(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def ours(stand_in: str) -> NDArray[np.intp]:
    found = np.flatnonzero(_stand_ins() == ord(stand_in))
    return found[found >= 0x80]


@pytest.mark.parametrize(("stand_in", "pattern"), [("a", r"\p{L}"), ("\t", r"\s")])
def test_letters_and_white_space_are_the_librarys(stand_in: str, pattern: str) -> None:
    every = "".join(map(chr, BEYOND_ASCII))
    others = normalizers.Replace(tokenizers.Regex(pattern), "").normalize_str(every)
    found = np.setdiff1d(BEYOND_ASCII, points_of(others), assume_unique=True)
    assert found.size
    assert np.array_equal(found, ours(stand_in))


def test_digits_are_the_librarys() -> None:
    digits = pre_tokenizers.Digits(individual_digits=True)
    alone = [piece for piece, _ in digits.pre_tokenize_str("".join(map(chr, BEYOND_ASCII))) if len(piece) == 1]
    found = [ord(piece) for piece in alone if len(digits.pre_tokenize_str(f"a{piece}")) == 2]  # not between two digits
    assert found == ours("0").tolist()
