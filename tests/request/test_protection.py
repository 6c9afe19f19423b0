"""What to keep, said in words."""

from __future__ import annotations

import pytest

from drsr.errors import SettingsError
from drsr.request.history import read_history
from drsr.request.protection import parse_protection
from drsr.request.request import read_request
from tests.features.states import call

MESSAGES = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [call(0, "read", path="a.py"), call(1, "bash", line="ls")],
    },
    {"role": "tool", "tool_call_id": "c0", "content": "print('seven')"},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "Done.", "reasoning_content": "seven it is"},
]


@pytest.mark.parametrize(
    ("rules", "pinned"),
    [
        (["0.1"], {"0.1"}),
        (["0"], {"0.0", "0.1", "0.2"}),
        (["tool=bash"], {"0.2"}),
        (["tool=ba"], set()),
        (["text=seven"], {"0.1", "1.0"}),
        (["text=a.py"], {"0.1", "0.2"}),
        (["1", "tool=read"], {"1.0", "0.1"}),
    ],
)
def test_rules(rules: list[str], pinned: set[str]) -> None:
    history = read_history(read_request(MESSAGES), parse_protection(rules))
    assert {block.name for step in history.steps for block in step.blocks if block.pinned} == pinned


def test_no_rules_protect_nothing() -> None:
    assert parse_protection([]) is None


@pytest.mark.parametrize("rule", ["", "x", "1.", "-1", "1.2.3", "tool=", "text=", "colour=red"])
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(SettingsError, match="is not a rule"):
        parse_protection([rule])
