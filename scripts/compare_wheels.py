"""Compare a wheel that was made here with the released one: by bytes, and where these differ, by what they decide.

    python -m scripts.compare_wheels MADE RELEASED

The same corpus, parameters and code give the same bytes on the same kind of processor. Another kind rounds otherwise:
then both decide the released policy's golden requests, and their scores are compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from drsr.policy.description import LINEAGE_FILE
from drsr.policy.folder import PolicyFiles
from drsr.policy.golden import read_golden, verify
from drsr.policy.loading import policy_of
from drsr.policy.location import read_found


def compared(made: Path, released: Path) -> str:
    """Return one sentence, or a table of golden requests."""
    if made.read_bytes() == released.read_bytes():
        return f"{made} has the same bytes as {released}"
    ours, theirs = read_found(str(made)), read_found(str(released))
    found = verify(policy_of(ours), read_golden(theirs, str(released)))
    agreeing = sum(not result.problems for result in found.results)
    largest = max((result.score_difference for result in found.results), default=0.0)
    lines = [
        f"{made} has other bytes than {released}",
        f"of {len(found.results)} golden requests of the released policy it decides {agreeing} alike; the largest "
        f"difference of a score is {largest:.1%} of what is tolerated",
    ]
    parting = (here["link"] for here, there in zip(_links(ours), _links(theirs), strict=False) if here != there)
    if first := next(parting, ""):
        lines.append(f"their lineages part at the link {first!r}")
    return "\n".join(lines)


def _links(files: PolicyFiles) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(files.others[LINEAGE_FILE])["links"]
    return links


def main() -> int:
    made, released = map(Path, sys.argv[1:3])
    print(compared(made, released))
    return 0


if __name__ == "__main__":
    sys.exit(main())
