"""What is shown of a run: the first call with the result that bears its id."""

from __future__ import annotations

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.ingest.understood import Samples, understood
from tests.offline.ingest.formats.files import read_bytes
from tests.offline.ingest.formats.miniatures import MINIATURES


@pytest.mark.parametrize("name", MINIATURES)
def test_every_format_can_be_shown(name: str) -> None:
    for item in read_bytes(MINIATURES[name].data):
        assert isinstance(item, Trajectory)
        shown = understood("source", item, item.task)
        assert shown.format == MINIATURES[name].reader
        assert shown.last
        assert not any("\n" in line for line in [*shown.lines(), shown.brief()])


def test_the_result_is_that_of_the_first_call() -> None:
    (item,) = read_bytes(MINIATURES["tau2_bench"].data)
    assert isinstance(item, Trajectory)
    shown = understood("source", item, "tau2/bikes/3")
    results = {
        message["tool_call_id"]: message["content"] for message in item.request["messages"] if message["role"] == "tool"
    }
    assert shown.call == 'find {"user":"Ann"}'
    assert shown.result == results["a1"]


def test_so_many_of_each_format() -> None:
    samples = Samples(2)
    for name in ("openai_lines", "tau_bench"):
        for item in read_bytes(MINIATURES[name].data):
            assert isinstance(item, Trajectory)
            samples("source", item, item.task)
    assert [sample.format for sample in samples.taken] == ["openai_chat"] * 2 + ["tau_bench"] * 2
