"""Every format that can be read, in the order in which they are tried."""

from __future__ import annotations

from importlib import import_module

from drsr.errors import InputError
from drsr.offline.ingest.formats.reader import Reader

_FORMATS = (
    "sandbox",
    "tau_bench",
    "tau2_bench",
    "agentdojo",
    "intercode",
    "autopenbench",
    "swe_agent",
    "mini_swe_agent",
    "moatless",
    "openhands_v0",
    "openhands_sdk",
    "inspect_log",
    "otel",
    "langfuse",
    "langsmith",
    "call_logs",
    "openai_responses",
    "gemini",
    "vercel_ui",
    "autogen",
    "smolagents",
    "pydantic_ai",
    "gemini_cli",
    "bedrock_converse",
    "sharegpt",
    "claude_code",
    "codex",
    "pi",
    "anthropic_messages",
    "openai_chat",
)
"""Modules of this package. A new format is one module with READERS, and one line here."""

READERS: tuple[Reader, ...] = tuple(
    reader for name in _FORMATS for reader in import_module(f"drsr.offline.ingest.formats.{name}").READERS
)
"""No record is recognised by two of them."""


def reader_named(name: str) -> Reader:
    """The reader of that name. Raises InputError."""
    found = next((reader for reader in READERS if reader.name == name), None)
    if found is None:
        known = ", ".join(reader.name for reader in READERS)
        raise InputError(f"no reader is called {name!r}", hint=f"one of {known}")
    return found
