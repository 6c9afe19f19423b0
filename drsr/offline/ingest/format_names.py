"""The names of all formats that can be read, in the order in which they are tried. Light: `drsr --help` shows them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

PLUG_INS = "drsr.formats"
"""The group of entry points under which other packages bring readers."""

READERS_OF = {
    "sandbox": ("sandbox",),
    "tau_bench": ("tau_bench",),
    "tau2_bench": ("tau2_bench", "tau2_solo"),
    "agentdojo": ("agentdojo",),
    "intercode": ("intercode",),
    "autopenbench": ("autopenbench",),
    "swe_agent": ("swe_agent",),
    "mini_swe_agent": ("mini_swe_agent",),
    "moatless": ("moatless",),
    "openhands_v0": ("openhands_v0", "openhands_v0_events"),
    "openhands_sdk": ("openhands_sdk",),
    "inspect_log": ("inspect_log",),
    "otel": ("otel",),
    "langfuse": ("langfuse",),
    "langsmith": ("langsmith",),
    "call_logs": ("litellm", "request_response"),
    "openai_responses": ("openai_responses",),
    "gemini": ("gemini", "gemini_contents"),
    "vercel_ui": ("vercel_ui", "vercel_ui_messages"),
    "autogen": ("autogen", "autogen_messages"),
    "smolagents": ("smolagents", "smolagents_steps"),
    "pydantic_ai": ("pydantic_ai", "pydantic_ai_messages"),
    "gemini_cli": ("gemini_cli",),
    "bedrock_converse": ("bedrock_converse",),
    "sharegpt": ("sharegpt",),
    "claude_code": ("claude_code",),
    "codex": ("codex",),
    "pi": ("pi",),
    "anthropic_messages": ("anthropic_messages",),
    "openai_chat": ("openai_chat",),
}
"""The readers of every module of `formats`. A new format is one module with READERS, and one line here."""
FORMATS = tuple(name for names in READERS_OF.values() for name in names)


def plug_in_entries() -> list[EntryPoint]:
    """Readers of other packages as their metadata name them, by name; nothing of theirs is imported."""
    return sorted(entry_points(group=PLUG_INS), key=lambda entry: (entry.name, entry.value))


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that brings a reader."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "of no name"


def known_formats() -> tuple[str, ...]:
    """Return every format that can be read here, with those of other packages."""
    return (*FORMATS, *dict.fromkeys(entry.name for entry in plug_in_entries()))
