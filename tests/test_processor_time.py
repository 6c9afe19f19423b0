from __future__ import annotations

import pytest

from tests.processor_time import LISTED, PROPERTY, ProcessorTime, listing

COMPUTES = """
import time

def test_computes():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass

def test_waits():
    time.sleep(0.3)
"""
STARTS_A_PROCESS = """
import subprocess, sys

def test_starts_a_process():
    code = "import time; until = time.process_time() + 0.3\\nwhile time.process_time() < until: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_computing_counts_and_waiting_does_not(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_here=COMPUTES, test_child=STARTS_A_PROCESS)
    times = ProcessorTime()
    seen: dict[str, float] = {}

    class Reports:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            (took,) = [value for name, value in report.user_properties if name == PROPERTY and isinstance(value, float)]
            seen[report.nodeid] = seen.get(report.nodeid, 0.0) + took

    pytester.inline_run("-n", "0", "-p", "no:cacheprovider", plugins=[times, Reports()])
    assert set(times.by_file) == {"test_here.py", "test_child.py"}
    least = 0.3 - 1e-9  # sums and differences of seconds are rounded
    assert times.by_file["test_child.py"] >= least
    assert seen["test_here.py::test_computes"] >= least > seen["test_here.py::test_waits"]
    assert times.by_file["test_here.py"] == pytest.approx(
        seen["test_here.py::test_computes"] + seen["test_here.py::test_waits"]
    )


def test_the_longest_come_first_and_all_are_counted() -> None:
    said = listing({f"test_{number:02}.py": float(number) for number in range(30)})
    assert said[0] == f"  435.0 s in 30 files, {sum(range(30 - LISTED, 30)):.1f} s in these:"
    assert said[1] == "   29.0 s test_29.py"
    assert len(said) == 1 + LISTED
