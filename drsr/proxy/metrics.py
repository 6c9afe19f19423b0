"""Counters, gauges and histograms in Prometheus' text format (version 0.0.4), in so far as the proxy needs them.

pruned = Counter("drsr_decisions_total", "Requests by what came of them.", "endpoint", "reason")
pruned.add("messages", "pruned")
exposition([pruned])
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Upper edges for durations from a quick decision to a model that thinks for minutes."""


class Metric(Protocol):
    """Something that writes lines."""

    name: str

    def lines(self) -> Iterator[str]: ...


class Counter:
    """Only grows. Safe to use from several threads."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name = name
        self._help = help
        self._labels = labels
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        """`values` of the labels, in their order."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self.name} has the labels {self._labels}, given {values}")
        with self._lock:
            self._values[values] = self._values.get(values, 0) + by

    def value(self, *values: str) -> float:
        """0 for what was never counted."""
        return self._values.get(values, 0)

    def items(self) -> list[tuple[tuple[str, ...], float]]:
        with self._lock:
            return sorted(self._values.items())

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "counter")
        for values, number in self.items():
            yield _line(self.name, zip(self._labels, values, strict=True), number)


class Gauge:
    """A metric whose value is asked for at the moment of reading."""

    def __init__(self, name: str, help: str, read: Callable[[], float], labels: Sequence[tuple[str, str]] = ()) -> None:
        self.name = name
        self._help = help
        self._read = read
        self._labels = labels

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "gauge")
        yield _line(self.name, self._labels, self._read())


class Histogram:
    """A metric that counts observations up to each of several sizes."""

    def __init__(self, name: str, help: str, edges: Sequence[float] = SECONDS) -> None:
        self.name = name
        self._help = help
        self._edges = edges
        self._lock = threading.Lock()
        self._counts = [0] * (len(edges) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        with self._lock:
            self._counts[bisect_left(self._edges, value)] += 1
            self._sum += value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "histogram")
        with self._lock:
            counts, total = list(self._counts), self._sum
        so_far = 0
        for edge, count in zip([*map(_number, self._edges), "+Inf"], counts, strict=True):
            so_far += count
            yield _line(f"{self.name}_bucket", [("le", edge)], so_far)
        yield _line(f"{self.name}_sum", (), total)
        yield _line(f"{self.name}_count", (), so_far)


def exposition(metrics: Iterable[Metric]) -> str:
    """The text that a Prometheus server reads."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
