"""The processor's time of each test file, at the end of a long run: what `make test` spends, as against waits for.

Children count when they have been waited for; a server that outlives its tests is in no file's time.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Mapping

import pytest

PROPERTY = "processor seconds"
LONG = 60.0
"""Seconds of a run from which on they are listed."""
LISTED = 25


def spent() -> float:
    """Return the seconds that this process and its ended children have computed."""
    return sum(os.times()[:4])


class ProcessorTime:
    """A plug-in of pytest, in every process of a run: workers measure, and their controller adds up."""

    def __init__(self) -> None:
        self.by_file: defaultdict[str, float] = defaultdict(float)
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what the phase took. The first of a process has importing in it, which belongs to no test."""
        report = yield
        now = spent()
        report.user_properties = [*report.user_properties, (PROPERTY, now - self._before)]
        self._before = now
        return report

    def pytest_collection_finish(self) -> None:
        self._before = spent()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, float):
                self.by_file[report.nodeid.partition("::")[0]] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(self.by_file.values()) >= LONG:
            terminalreporter.section("processor time")
            terminalreporter.write_line("\n".join(listing(self.by_file)))


def listing(by_file: Mapping[str, float]) -> list[str]:
    """Return the sum, then the files that took most."""
    files = sorted(by_file.items(), key=lambda item: (-item[1], item[0]))
    total = sum(by_file.values())
    shown = [f"{seconds:7.1f} s {file}" for file, seconds in files[:LISTED]]
    return [f"{total:7.1f} s in {len(files)} files, {sum(by for _, by in files[:LISTED]):.1f} s in these:", *shown]
