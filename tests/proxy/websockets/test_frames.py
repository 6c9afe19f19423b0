"""Frames of a WebSocket: the same bytes go out as came in, however they are cut, and whole texts are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame as Theirs
from websockets.frames import Opcode

from drsr.proxy.websockets.frames import Frame, Frames, masked

LARGEST = 70_000
SIZES = st.sampled_from((0, 1, 125, 126, 65_535, 65_536, LARGEST + 1))
BYTES = bytes(i % 251 for i in range(LARGEST + 1))
FRAMES = st.builds(
    lambda opcode, size, fin: Theirs(opcode, BYTES[:size], fin),
    st.sampled_from((Opcode.TEXT, Opcode.CONT, Opcode.BINARY)),
    SIZES,
    st.booleans(),
)
COMPRESSED = 0x40


@given(
    st.lists(st.tuples(FRAMES, st.booleans()), max_size=4),
    st.booleans(),
    st.lists(st.sampled_from((1, 2, 13, 9_000)), max_size=5),
)
def test_nothing_is_lost_and_whole_texts_are_read(
    sent: list[tuple[Theirs, bool]], mask: bool, sizes: list[int]
) -> None:
    raw = [(bytearray(frame.serialize(mask=mask)), compressed) for frame, compressed in sent]
    for one, compressed in raw:
        one[0] |= COMPRESSED if compressed else 0
    frames, data, cuts = Frames(lambda size: size <= LARGEST), b"".join(one for one, _ in raw), [*sizes, 50_000]
    found, place, turn = list[Frame](), 0, 0
    while place < len(data):
        piece = data[place : place + cuts[turn % len(cuts)]]
        place, turn = place + len(piece), turn + 1
        found += frames.feed(piece)
    assert b"".join(frame.raw for frame in found) == data
    texts = [one for one, compressed in sent if one.opcode is Opcode.TEXT and one.fin and not compressed]
    whole = [bytes(one.data) for one in texts]
    assert [frame.text for frame in found if frame.text is not None] == [text for text in whole if len(text) <= LARGEST]


@given(SIZES)
def test_a_text_that_we_write_is_read_by_others(size: int) -> None:
    text = bytes(97 + i % 26 for i in range(size))
    raw = masked(text)
    (frame,) = Frames(lambda _: True).feed(raw)
    assert frame.text == text
    assert raw[1] & 0x80
    theirs = Theirs(Opcode.TEXT, text).serialize(mask=False)
    assert len(raw) == len(theirs) + 4
    assert raw[0] == theirs[0]
    assert raw[1] & 0x7F == theirs[1]
