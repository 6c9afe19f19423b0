"""The order in which a run with several processes takes the tests: the files that take longest come first.

pytest-xdist gives each process an equal part of the tests in their order, and a process that has none left takes some
from the end of another's part. What begins last should be short, then: otherwise one process works alone in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

SECONDS = {
    "tests/flows/test_team.py": 220,
    "tests/offline/test_crashes.py": 120,
    "tests/flows/test_schedule.py": 130,
    "tests/test_consumer.py": 65,
    "tests/flows/test_one_machine.py": 60,
    "tests/test_readme.py": 45,
    "tests/flows/test_dask.py": 35,
    "tests/offline/label/test_harm.py": 30,
    "tests/flows/test_outages.py": 30,
    "tests/test_floors.py": 25,
    "tests/offline/test_guide_reproduce_the_paper.py": 25,
    "tests/proxy/test_page.py": 20,
    "tests/flows/test_reproduction.py": 20,
    "tests/flows/test_backfill.py": 20,
    "tests/offline/test_guide_use_a_policy.py": 15,
    "tests/offline/commands/test_run.py": 15,
    "tests/offline/label/test_measured_corpus.py": 15,
}
"""About, by the clock of a whole run on two cores. A file stays in one process, since its tests share fixtures."""


def longest_first(files: Sequence[str], processes: int) -> list[int]:
    """Return the numbers of the tests in a good order; `files` has the file of each, in the order they were found."""
    loads, heads = [0] * processes, [list[int]() for _ in range(processes)]
    for file, seconds in SECONDS.items():
        process = loads.index(min(loads))
        loads[process] += seconds
        heads[process] += [number for number, found in enumerate(files) if found == file]
    rest = iter(number for number, file in enumerate(files) if file not in SECONDS)
    order: list[int] = []
    for process, head in enumerate(heads):
        # As large as pytest-xdist makes the part of this process.
        size = (len(files) - len(order)) // (processes - process)
        order += [*head, *islice(rest, max(0, size - len(head)))]
    return order
