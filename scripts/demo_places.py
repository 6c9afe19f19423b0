"""The places below the working directory where `make demo` leaves what people look at."""

from pathlib import Path

INDEX = Path("var", "index")
DOCS = Path("var", "data-docs")
AUDIT = Path("var", "audit.html")
REPORT = Path("var", "demo", "report")
REQUEST = Path("var", "demo", "request.json")
ENDING = Path("var", "demo", "ending.txt")
FINISHED = Path("var", "demo", "finished.json")


def replay_of(wheel: Path, folder: Path) -> Path:
    """A replay is of one policy, so its file is named by it."""
    return folder / f"replay-{wheel.stem}.jsonl"
