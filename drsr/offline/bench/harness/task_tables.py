"""A run of tasks as tables: reward and tokens, what the tokens are made of, how the tasks went, and by domain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.offline.bench.analyses.analysis import Analysis, Cell, Section
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.bench.harness.manifest import Weighting
from drsr.offline.bench.harness.results_file import TaskResults
from drsr.offline.bench.harness.shared_runs import Shared
from drsr.offline.bench.harness.summary import MethodResult, Summary, summarise
from drsr.offline.bench.report import paper_tables
from drsr.offline.evaluate.cells import cell
from drsr.offline.train.ablations import method_name
from drsr.offline.train.metrics import Bootstrap, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTICE = {
    "scripted": "The agent is a scripted double that knows only what is in its request: evidence that was deleted is "
    "fetched again, or the task fails. It is not a language model and is never distracted, and its cache counts come "
    "from a model of a prompt cache. Methods that write summaries are as good as who writes them.",
}
OTHER: Mapping[Weighting, Weighting] = {"tasks": "domains", "domains": "tasks"}
OURS_NAME = "drsr"
LINEAR_TO = 10
"""Per cent: larger changes are drawn by their logarithm."""
_FIGURE = (
    f" In the figure left and high is good; changes beyond {LINEAR_TO} % are drawn by their logarithm, and numbers are "
    "those of the table."
)
_SPOKEN: Mapping[Weighting, str] = {"tasks": "task-weighted", "domains": "equal-domain"}


class Reference(NamedTuple):
    """The paper's numbers for a method."""

    reward: float
    tokens_millions: float
    """Per task."""
    change: float | None
    """In percent, as the paper states it or as its totals give it; not from means that are rounded."""


def task_tables(about: Mapping[str, Any], found: Summary, *, drawn: bool) -> list[Analysis]:
    """Return the tables, in order; `about` is the head of the results file, `drawn` asks for the figure too."""
    methods = found.methods
    tables = [_results(about, methods, _words(found.shared), drawn=drawn), _components(methods), _paths(methods)]
    return [*tables, _by_domain(found.domains)] if len(found.domains) > 1 else tables


def task_section(results: TaskResults | None, bootstrap: Bootstrap) -> Section:
    """Return a file of results as a section of the report; of a method that was fitted again the version asked for
    last."""
    title = "End to end"
    if results is None or not results.latest:
        return Section(title, [], {"tasks": "no tasks were run: drsr evaluate --tasks sandbox"})
    found = summarise(results.latest, bootstrap)
    return Section(title, task_tables(results.about, found, drawn=True), found.shared.left_out | results.not_run)


def notice(about: Mapping[str, Any]) -> str:
    """Return what the numbers are of, and what they are not."""
    who = NOTICE.get(about["agent"], f"The agent is {about['agent']}.")
    return (
        f"Tasks of {about['manifest']}, at most {about['step_limit']} requests each; a window of {about['window']:,} "
        f"tokens for methods that wait for pressure; summaries by {about['summariser']}. {who}"
    )


def references(manifest: str) -> dict[str, Reference]:
    """Return the paper's overall values by method: of Full260 for that manifest, else of Eval40."""
    if manifest == "full260":
        overall = [row for row in paper_tables.full260() if row.domain == paper_tables.OVERALL]
        return {row.method: Reference(row.reward, row.tokens_millions, row.change_percent) for row in overall}
    methods = {
        row.method: Reference(row.reward, row.tokens_millions, paper_tables.eval40_change(row.method))
        for row in paper_tables.eval40()
        if row.domain == paper_tables.OVERALL
    }
    ablations = {
        method_name(row.variant): Reference(row.reward, row.tokens_millions, None)
        for row in paper_tables.eval40_ablations()
        if row.domain == paper_tables.OVERALL and row.variant != OURS_NAME
    }
    return methods | ablations


def _words(shared: Shared) -> str:
    """Return the part of a file that is missing from its table; empty if none is."""
    runs = f" {shared.runs_left_out:,} runs that not all of them have are left out." if shared.runs_left_out else ""
    few = f" Left out because they have too few runs: {', '.join(shared.left_out)}." if shared.left_out else ""
    return runs + few


def _results(about: Mapping[str, Any], found: Sequence[MethodResult], left_out: str, *, drawn: bool) -> Analysis:
    first: Weighting = about["weighting"]
    second = OTHER[first]
    paper = references(about["manifest"])
    of = "Full260" if about["manifest"] == "full260" else "Eval40"

    numbered = list(enumerate(found, start=1))

    def cells(number: int, one: MethodResult) -> tuple[Cell, ...]:
        reference = paper.get(one.method)
        return (
            *(number, one.title, one.tasks, cell(one.reward[first]), cell(one.reward[second])),
            *(round(one.total[first].value), _percent(one, first), _percent(one, second)),
            *(_paper_cells(reference) if reference else (None, None, None)),
        )

    def draw(axes: Axes) -> None:
        axes.set_xscale("symlog", linthresh=LINEAR_TO)  # the worst would press all others together
        axes.xaxis.set_major_formatter("{x:+.0f}")
        for neighbours in _neighbours(numbered, first):
            for x, y, _, one in neighbours:
                ours = one.method == OURS_NAME
                axes.plot([x], [y], "D" if ours else "o", color=PAPER if ours else OURS, markersize=5)
            x, y, *_ = neighbours[-1]
            place = {"xytext": (5, 5), "textcoords": "offset points", "fontsize": 6.5}
            axes.annotate(_label(neighbours), (x, y), **place)  # type: ignore[arg-type]
        axes.margins(x=0.12, y=0.15)
        axes.set(xlabel="change of tokens against the baseline, %", ylabel="reward")

    return Analysis(
        "tasks",
        "Whole tasks with every method in between",
        f"{notice(about)} All methods are on the same tasks and seeds.{left_out} Reward and change are "
        f"{_SPOKEN[first]}, and {_SPOKEN[second]} beside it; 95 % intervals in brackets resample whole tasks. Tokens "
        "are input and output of the acting model and of the method's own, per task; a negative change is a decrease. "
        f"The last three columns are {paper_tables.SOURCE} for {of}, with "
        "another agent and other tasks." + (_FIGURE if drawn else ""),
        (
            *("no", "method", "tasks", "reward", f"{_SPOKEN[second]} reward", "tokens", "change %"),
            *(
                f"{_SPOKEN[second]} change %",
                f"paper's reward ({of})",
                f"paper's million tokens ({of})",
                f"paper's change % ({of})",
            ),
        ),
        tuple(cells(number, one) for number, one in numbered),
        figure(draw, width=7.5, height=4.2) if drawn else b"",
    )


class _Point(NamedTuple):
    """A method in the figure."""

    change: float
    reward: float
    number: int
    """Number of the method in the table."""
    result: MethodResult


def _neighbours(numbered: Sequence[tuple[int, MethodResult]], weighting: Weighting) -> list[list[_Point]]:
    """Points so near to each other that their labels would cover each other: they share one."""
    near: dict[tuple[int, int], list[_Point]] = {}
    for number, one in numbered:
        if one.change is not None:
            change, reward = one.change[weighting].value, one.reward[weighting].value
            where = round(4 * math.copysign(math.log1p(abs(change) / LINEAR_TO), change)), round(20 * reward)
            near.setdefault(where, []).append(_Point(change, reward, number, one))
    return [sorted(points, key=lambda point: point.change) for points in near.values()]


def _label(points: Sequence[_Point]) -> str:
    """Return the numbers in order, eight per line; ours by name."""
    ordered = sorted(points, key=lambda point: point.number)
    words = [f"{point.number} DRSR" if point.result.method == OURS_NAME else str(point.number) for point in ordered]
    return "\n".join(", ".join(words[first : first + 8]) for first in range(0, len(words), 8))


def _paths(found: Sequence[MethodResult]) -> Analysis:
    return Analysis(
        "task_paths",
        "How the tasks went",
        "Requests, and calls with the tool and arguments of an earlier one, are means over tasks; the others are "
        "numbers of tasks (failed: reward 0; out of steps) and of requests. Invalid are rewrites that broke the "
        "protocol: they were not sent, and the request went on unchanged; that, and any other failure, counts as "
        "falling back. Task lost: the user's task was no longer in the request as the user put it.",
        (
            *("no", "method", "trained", "requests", "calls repeated", "failed", "out of steps", "invalid"),
            *("fell back", "task lost"),
        ),
        tuple(
            (
                *(number, one.title, one.trained, round(one.requests, 2), round(one.repeated_calls, 2), one.failed),
                *(one.out_of_steps, one.invalid, one.fell_back, one.lost_task),
            )
            for number, one in enumerate(found, start=1)
        ),
        b"",
    )


def _components(found: Sequence[MethodResult]) -> Analysis:
    def cells(one: MethodResult) -> tuple[Cell, ...]:
        tokens, split = one.tokens, one.decomposition
        parts = (tokens.input, tokens.uncached, tokens.cache_read, tokens.cache_creation, tokens.output)
        auxiliary = (tokens.auxiliary_input, tokens.auxiliary_output)
        shown: tuple[Cell, ...] = (
            one.title,
            *map(round, parts),
            *map(round, auxiliary),
            round(tokens.total),
            one.decomposed,
        )
        if split is None:
            return (*shown, None, None, None)
        saved, direct = round(split.saved), round(split.direct)
        return (*shown, saved, direct, saved - direct)  # so that the rounded numbers add up too

    return Analysis(
        "task_tokens",
        "What the tokens of a task are made of",
        "Means over tasks. Uncached, cache-read and cache-creation tokens are the parts of the input and are not added "
        "to it again. Saved is the baseline's total less the method's; direct removal is what was taken out of "
        "requests; the residual is the rest of the identity, saved = direct + residual: other paths, calls made again, "
        "auxiliary models. It does not name a cause. These three are means over the compared tasks: all but those in "
        "which the endpoint refused the baseline's first request, or our tokenizer cannot count what was removed.",
        (
            *("method", "input", "uncached", "cache read", "cache creation", "output", "auxiliary input"),
            *("auxiliary output", "total", "compared", "saved", "direct removal", "residual"),
        ),
        tuple(cells(one) for one in found),
        b"",
    )


def _by_domain(domains: Mapping[str, Sequence[MethodResult]]) -> Analysis:
    rows = [
        (
            *(domain, one.title, one.tasks, cell(one.reward["tasks"]), round(one.total["tasks"].value)),
            *(_percent(one, "tasks"), _rounded(one.direct), round(one.repeated_calls, 2), one.failed),
        )
        for domain, found in domains.items()
        for one in found
    ]
    return Analysis(
        "tasks_by_domain",
        "The same by domain",
        "Every task of a domain counts once.",
        ("domain", "method", "tasks", "reward", "tokens", "change %", "direct removal", "calls repeated", "failed"),
        tuple(rows),
        b"",
    )


def _rounded(tokens: float | None) -> int | None:
    return None if tokens is None else round(tokens)


def _paper_cells(reference: Reference) -> tuple[Cell, ...]:
    return reference.reward, reference.tokens_millions, _signed(reference.change)


def _signed(change: float | None) -> str | None:
    return None if change is None else f"{change:+.2f}"


def _percent(one: MethodResult, weighting: Weighting) -> str:
    """`-9.9 [-12.0, -7.8]`, with the paper's sign."""
    if one.change is None:
        return ""
    metric: Metric = one.change[weighting]
    bounds = "" if math.isnan(metric.low) else f" [{metric.low:+.1f}, {metric.high:+.1f}]"
    return f"{metric.value:+.1f}{bounds}"
