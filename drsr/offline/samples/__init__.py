"""Bundled sample data, recorded by `drsr sandbox record` from scripted agents with real tools."""

from pathlib import Path

_FOLDER = Path(__file__).parent

REQUEST = _FOLDER / "request.json"
"""One request at a decision, and ..."""
NEXT_OUTPUT = _FOLDER / "next_output.json"
"""... the assistant message that was recorded next."""
CORPUS = _FOLDER / "sandbox.jsonl.gz"
"""The sample corpus: one trajectory per line."""
