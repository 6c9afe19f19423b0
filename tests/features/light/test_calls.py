"""What a call does, and on which object."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.features.light.calls import Doing, doing_of, object_of
from drsr.request.parts import Call


def call(name: str, arguments: Any) -> Call:
    return Call("c", name, arguments, ())


@pytest.mark.parametrize(
    ("name", "arguments", "doing"),
    [
        ("read_file", {"path": "a"}, Doing.READ),
        ("getUserDetails", {}, Doing.READ),
        ("search_direct_flight", {}, Doing.SEARCH),
        ("str_replace_editor", {"command": "create"}, Doing.WRITE),
        ("cancel_pending_order", {"order_id": "#W1"}, Doing.WRITE),
        ("bash", {"command": "cat /etc/hosts | head"}, Doing.RUN | Doing.READ),
        ("bash", {"command": "  grep -r x ."}, Doing.RUN | Doing.SEARCH),
        ("run", {"command": "make"}, Doing.RUN),
        ("run", {}, Doing.RUN),
        ("think", {"thought": "read it"}, Doing.NOTHING_KNOWN),
    ],
)
def test_what_a_call_does(name: str, arguments: Any, doing: Doing) -> None:
    assert doing_of(call(name, arguments)) == doing


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"file_path": "src/app/main.py", "old_str": "user_id"}, "src/app/main.py"),
        ({"command": "sed -n 1,20p /var/log/syslog"}, "/var/log/syslog"),
        ({"order_id": "#W2301", "reason": "no longer needed"}, "w2301"),
        ({"user_id": "mia_garcia_4516"}, "mia_garcia_4516"),
        ({"query": "Blue Shoes "}, "blue shoes"),
        ({"nested": [{"deep": 42}]}, "42"),
        ("plain text", "plain text"),
        ({}, ""),
    ],
)
def test_the_object_of_a_call(arguments: Any, found: str) -> None:
    assert object_of(call("tool", arguments)) == found


def test_keys_are_not_objects() -> None:
    """They are the same in every call of a tool."""
    assert object_of(call("get", {"order_id": "alpha"})) == "alpha"


def test_an_object_is_looked_for_at_the_beginning_only() -> None:
    long = {"content": "word " * 100_000 + "/etc/passwd"}
    assert object_of(call("write", long)).startswith("word word")
    assert len(object_of(call("write", long))) <= 2_000
