"""The project's own corpus."""

from __future__ import annotations

from drsr.offline import samples
from drsr.offline.ingest.formats import read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.sandbox.corpus import read_lines
from drsr.offline.store.locations import open_location
from tests.offline.ingest.formats.files import history, one, only_problem, read_value
from tests.offline.ingest.formats.miniatures import SANDBOX


def test_a_line_is_read_back_as_it_was_recorded() -> None:
    trajectory = one(read_value(SANDBOX))
    assert trajectory.request == SANDBOX["request"]
    assert (trajectory.external_id, trajectory.task) == ("sandbox-1-0000", "code/chain/1")
    assert (trajectory.domain, trajectory.reward) == ("code", 1.0)


def test_a_line_of_a_later_version() -> None:
    assert only_problem(read_value({**SANDBOX, "drsr_sandbox": 99})).reason == "unknown_version"


def test_the_bundled_corpus() -> None:
    (file,) = open_location(str(samples.CORPUS))
    items = [item for item in read(file) if isinstance(item, Trajectory)]
    assert len(items) == len(read_lines(samples.CORPUS)) >= 48
    assert {item.domain for item in items} == {"code", "office", "security", "web"}
    assert all(step.complete for item in items for step in history(item).steps)
