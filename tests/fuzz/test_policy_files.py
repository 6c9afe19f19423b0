"""Mutated policies: whatever a file says, loading answers quickly, with a policy or with an error that has a name.

A forger computes the hashes anew, so the manifest lists what is there. Beside the cases found by hand, `make fuzz`
tries ten thousand mutations of each kind and `make test` a hundred fixed ones.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drsr.errors import DrsrError, PolicyCorrupt
from drsr.policy.folder import MANIFEST_FILE, POLICY_FILE, manifest_bytes, read_contents, read_policy
from drsr.policy.golden import GOLDEN_FILE, read_golden
from drsr.policy.location import read_wheel_policy
from drsr.scorer.weights import FILE_NAME as SCORER_FILE
from tests.policy_wheels import package_of, versioned

EXAMPLES = int(os.environ.get("DRSR_FUZZ_EXAMPLES", "100"))
PACKAGE = package_of(versioned("1.0"))


def _contents() -> dict[str, bytes]:
    from drsr.policy.wheel_file import read_wheel

    files = read_wheel(PACKAGE.data, "")
    return {name.removeprefix("drsr_policy/"): data for name, data in files.items() if name.startswith("drsr_policy/")}


CONTENTS = _contents()
NUMBERS: dict[str, Any] = json.loads(CONTENTS[POLICY_FILE])
PATHS = [*((key,) for key in NUMBERS), *(("backbone", key) for key in NUMBERS["backbone"])]
GEOMETRY = {"layers": 30, "heads": 9, "full_attention": [1, 2]}
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from([10**7, -1, 0, 1e400, [], {}, [[]], {"": None}, "1\nimport os", [1] * 1000, GEOMETRY]),
    st.fixed_dictionaries(
        {
            "layers": st.integers(-1, 10**9),
            "heads": st.integers(),
            "full_attention": st.lists(st.integers(), max_size=4),
        }
    ),
    st.recursive(
        st.integers(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner)
    ),
)


def read(changed: dict[str, bytes]) -> None:
    """Load it with every hash in order; only an error of drsr's own may come out."""
    contents = {name: data for name, data in (CONTENTS | changed).items() if name != MANIFEST_FILE}
    contents[MANIFEST_FILE] = changed.get(MANIFEST_FILE, manifest_bytes(contents))
    with contextlib.suppress(DrsrError):
        read_golden(read_contents(contents, "here"), "here")


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(PATHS), odd)
@example(("backbone", "geometry"), {"layers": 10**7, "heads": 10**7, "full_attention": [1]})
@example(("uncertainty_coefficient",), float("inf"))
@example(("harm_tolerance",), float("nan"))
@example(("seeds",), [1] * 10**6)
def test_other_values(path: tuple[str, ...], value: Any) -> None:
    numbers = json.loads(CONTENTS[POLICY_FILE])
    inner = numbers
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    read({POLICY_FILE: json.dumps(numbers).encode()})


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.sampled_from([POLICY_FILE, MANIFEST_FILE, GOLDEN_FILE, SCORER_FILE]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_other_bytes(name: str, places: list[tuple[int, int]]) -> None:
    data = bytearray(CONTENTS[name])
    for place, value in places:
        data[place % len(data)] = value
    read({name: bytes(data)})


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=3))
def test_other_bytes_of_the_wheel(places: list[tuple[int, int]]) -> None:
    """Of a wheel no hash is in order then, and all are refused."""
    data = bytearray(PACKAGE.data)
    for place, flip in {place % len(data): flip for place, flip in places}.items():
        data[place] ^= flip
    with pytest.raises(DrsrError):
        read_wheel_policy(bytes(data), "here")


@pytest.mark.parametrize("name", [POLICY_FILE, MANIFEST_FILE, GOLDEN_FILE])
@pytest.mark.parametrize(
    "text", [b"[" * 200_000, b'{"a":' * 100_000, b"NaN", b"null", b"[]", b'"x"', b"", b"\xff", b"1e999"]
)
def test_hostile_documents(name: str, text: bytes) -> None:
    read({name: text})


@pytest.mark.parametrize("files", [[], [1], "x", {"policy.json": 1}, {"policy.json": []}, {"../x": {}}, {1: {}}])
def test_hostile_manifests(files: Any) -> None:
    document = {"format": "drsr-policy-manifest/1", "files": files}
    with pytest.raises(PolicyCorrupt):
        read_contents(
            CONTENTS | {MANIFEST_FILE: (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()}, "here"
        )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("name", [MANIFEST_FILE, POLICY_FILE])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_files_that_never_end(tmp_path: Path, name: str, kind: str) -> None:
    for other, data in CONTENTS.items():
        if other != name:
            (tmp_path / other).write_bytes(data)
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(PolicyCorrupt, match="not a regular file"):
        read_policy(tmp_path)


def test_the_policy_itself_is_read() -> None:
    assert read_contents(CONTENTS, "here").numbers.version == "1.0"
