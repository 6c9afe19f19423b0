"""Outputs that a framework put into the assistant's mouth: part of the history, but not a model's decision."""

from __future__ import annotations

from typing import Any

_SAID = frozenset(
    {
        "Agent stopped due to iteration limit or time limit.",  # LangChain
        "Agent stopped due to max iterations.",
        "Sorry, need more steps to process this request.",  # LangGraph
        "No response requested.",  # Claude Code
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
    }
)
_OPENING = "Exit due to "
"""SWE-agent's words for giving up: `Exit due to cost limit`."""
_LONGEST = 300


def is_synthetic(text: Any) -> bool:
    """Return whether a text is a known one of a framework, said in full and nothing else."""
    if type(text) is not str or len(text) > _LONGEST:
        return False
    said = text.strip()
    return said in _SAID or (said.startswith(_OPENING) and "\n" not in said)
