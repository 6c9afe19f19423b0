"""The hash of a frame: every value counts, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from drsr.offline.train.checkpoints import fingerprint_of, frame_hash
from drsr.offline.train.examples import ExampleFrame
from tests.offline.frames import make_frame, make_test_frame

FRAME = make_test_frame(4)


def changed(name: str) -> ExampleFrame:
    """The same frame with one value of one field a little different."""
    values: dict[str, Any] = {
        "split": "train",
        "layout_hash": "another",
        "labeler": "another",
        "state_ids": ("another", *FRAME.state_ids[1:]),
        "trajectory_ids": ("another", *FRAME.trajectory_ids[1:]),
        "group_ids": ("another", *FRAME.group_ids[1:]),
    }
    if name not in values:
        array = getattr(FRAME, name).copy()
        place = (0,) * array.ndim
        if array.dtype == np.bool_:
            array[place] = not array[place]
        else:
            array[place] = np.nextafter(array[place], 9) if array.dtype.kind == "f" else array[place] + 1
        values[name] = array
    frame = replace(FRAME)
    object.__setattr__(frame, name, values[name])  # past the checks: only the hash is looked at
    return frame


def test_every_field_counts() -> None:
    names = [field.name for field in fields(ExampleFrame)]
    hashes = {name: frame_hash(changed(name)) for name in names}
    assert len({*hashes.values(), frame_hash(FRAME)}) == len(hashes) + 1


def test_the_same_values_have_the_same_hash() -> None:
    assert frame_hash(FRAME) == frame_hash(make_test_frame(4))
    strided = replace(FRAME, features=np.asfortranarray(FRAME.features))
    assert frame_hash(strided) == frame_hash(FRAME)


def test_a_row_more_or_the_order_counts() -> None:
    columns = ("state", "mask", "direct_saving", "protocol_safe", "harm", "unsafe")
    turned = replace(FRAME, **{name: getattr(FRAME, name)[::-1] for name in columns})
    fewer = replace(FRAME, **{name: getattr(FRAME, name)[:-1] for name in columns})
    assert len({frame_hash(frame) for frame in (FRAME, turned, fewer)}) == 3


def test_a_fingerprint_tells_frames_and_configuration_apart() -> None:
    one, other = make_frame("train", 3), make_frame("validation", 3)
    found = [
        fingerprint_of({"train": one, "validation": other}, "a"),
        fingerprint_of({"train": other, "validation": one}, "a"),
        fingerprint_of({"train": one, "validation": other}, "b"),
    ]
    assert len(set(found)) == 3
