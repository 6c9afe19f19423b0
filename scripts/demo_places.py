"""Where `make demo` leaves what people look at, below the working directory."""

from pathlib import Path

INDEX = Path("var", "index")
DOCS = Path("var", "data-docs")
AUDIT = Path("var", "audit.html")
REQUEST = Path("var", "demo", "request.json")
ENDING = Path("var", "demo", "ending.txt")
FINISHED = Path("var", "demo", "finished.json")
