"""A second opinion on labels: the same states measured by another language model.

    DRSR_CATALOG_URL=... python -m benchmarks.second_opinion --backbone qwen2.5-coder-0.5b --kept FILE --minutes 25

Takes labelled states of train and validation, one of each task, that the first language model read whole: sources and
domains by turns, so that it can be stopped at any time, the shortest of each first. The candidates stay those that were
frozen; only the reader changes, and with it the tokens. Reports how often the two agree on what is unsafe, on the order
of the sets of a state, and on what would have been deleted. Intervals are drawn by task. Nothing is written to the
catalog, and nothing of the test split is read. `--kept FILE` holds a line of numbers for every state, without any text:
states in it are not measured again, and `--minutes 0` shows it without a language model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import select

from drsr.backbone.catalogue import load_backbone, load_tokenizer
from drsr.decide.candidates import Candidate, DecisionState
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import DecisionState as StateOfCatalog
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.evaluate.second_opinion import SecondOpinion
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE, measure_states
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Tokenizer
from drsr.request.history import removal
from drsr.request.rendering import render, render_output
from drsr.request.view import Caps, caps_for, find_view
from drsr.settings import Settings, load_settings

MEANINGFUL_GAP = 0.02
REMOVAL_CAP = 0.20
REPLICATES = 2_000
SPLITS = ("train", "validation")
"""Splits to read. Never test, so that nothing can be tuned to it."""


class LabelledState(NamedTuple):
    task: str
    kind: tuple[str, str | None]
    """Its source and its domain."""
    split: str
    decision: int
    blob: str
    context_tokens: int
    harms: dict[int, float]
    """H(A) by mask, as the first language model measured it."""


class Opinions(NamedTuple):
    """One state, measured twice."""

    task: str
    context_tokens: int
    savings: dict[int, float]
    """Share of the request, by mask, that deleting the set removes, in the first model's tokens."""
    first: dict[int, float]
    second: dict[int, float]

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Opinions:
        """JSON has no numbers for names."""
        numbers = (
            {int(mask): number for mask, number in value[name].items()} for name in ("savings", "first", "second")
        )
        return cls(value["task"], value["context_tokens"], *numbers)


class Agreement(NamedTuple):
    """Of some states; every count is of sets, of pairs of sets of one state, or of states."""

    states: int
    sets: int
    same_verdict: float
    kappa: float
    """Agreement on unsafe beyond what two judges would have by chance who find as many sets unsafe as these do."""
    unsafe: tuple[float, float]
    """Part of the sets that each finds unsafe."""
    safe_then_unsafe: float
    """Share of the sets safe to the first model that are also safe to the second."""
    pairs: int
    same_order: float
    """Of pairs whose harms differ by a meaningful gap for the first."""
    same_order_at_cardinality: float
    both_meaningful: float
    """The same order, if the harms differ that much for both."""
    choices: int
    """States in which the first would allow a deletion under the cap."""
    choice_is_safe: float
    """Share of the largest sets safe to the first model that are also safe to the second."""


def compare(states: Sequence[Opinions]) -> Agreement:
    """Count agreements; NaN if there is nothing to count."""
    rows = [(one.first[mask], one.second[mask]) for one in states for mask in one.first.keys() & one.second.keys()]
    unsafe = np.array(rows).reshape(-1, 2) > HARM_TOLERANCE
    shares = unsafe.mean(axis=0) if len(rows) else np.full(2, np.nan)
    same = _share(unsafe[:, 0] == unsafe[:, 1])
    by_chance = float(shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1]))
    pairs = [pair for one in states for pair in _pairs(one)]
    chosen = [one.second[mask] <= HARM_TOLERANCE for one in states if (mask := _choice(one)) is not None]
    return Agreement(
        states=len(states),
        sets=len(rows),
        same_verdict=same,
        kappa=(same - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan"),
        unsafe=(float(shares[0]), float(shares[1])),
        safe_then_unsafe=_share(unsafe[~unsafe[:, 0], 1]),
        pairs=len(pairs),
        same_order=_share([pair.agrees for pair in pairs]),
        same_order_at_cardinality=_share([pair.agrees for pair in pairs if pair.same_cardinality]),
        both_meaningful=_share([pair.agrees for pair in pairs if pair.meaningful_to_both]),
        choices=len(chosen),
        choice_is_safe=_share(chosen),
    )


class _Pair(NamedTuple):
    agrees: bool
    same_cardinality: bool
    meaningful_to_both: bool


def _pairs(one: Opinions) -> Iterator[_Pair]:
    for left, right in combinations(sorted(one.first.keys() & one.second.keys()), 2):
        first, second = one.first[left] - one.first[right], one.second[left] - one.second[right]
        if abs(first) >= MEANINGFUL_GAP:
            same_size = left.bit_count() == right.bit_count()
            yield _Pair(first * second > 0, same_size, abs(second) >= MEANINGFUL_GAP)


def _choice(one: Opinions) -> int | None:
    """Return the largest set within the cap that the first finds safe."""
    allowed = [
        mask
        for mask, harm in one.first.items()
        if harm <= HARM_TOLERANCE and one.savings[mask] <= REMOVAL_CAP and mask in one.second
    ]
    return max(allowed, key=lambda mask: (one.savings[mask], -mask), default=None)


def intervals(states: Sequence[Opinions], seed: int = 0) -> dict[str, tuple[float, float]]:
    """Return, for every share, the interval that holds 95 % of resampled tasks."""
    by_task: dict[str, list[Opinions]] = {}
    for one in states:
        by_task.setdefault(one.task, []).append(one)
    draw, tasks = np.random.default_rng(seed), list(by_task.values())
    drawn = [
        compare([one for number in draw.integers(0, len(tasks), len(tasks)) for one in tasks[number]])
        for _ in range(REPLICATES if tasks else 0)
    ]
    names = [name for name, value in compare(states)._asdict().items() if isinstance(value, float)]
    found = {}
    for name in names:
        low, high = np.nanquantile([getattr(one, name) for one in drawn], [0.025, 0.975])
        found[name] = (float(low), float(high))
    return found


def read_by(state: DecisionState, tokenizer: Tokenizer, context_cap: int) -> DecisionState | None:
    """Return the same request with the same candidates in another tokenizer's tokens; None if it does not fit whole."""
    rendering = render(state.history.request, tokenizer)
    view = find_view(state.history, rendering, len(tokenizer.lead), context_cap)
    if view is None or view.start:
        return None
    blocks = [candidate.block for candidate in state.candidates]
    candidates = tuple(
        Candidate(block, rendering.direct_saving(removal(state.history, [block])), rendering.token_spans(block))
        for block in blocks
    )
    return DecisionState(state.history, rendering, view, candidates, state.violations)


def labelled_states(catalog: Catalog, labeler: str) -> list[LabelledState]:
    """Return the shortest state of each task; kinds by turns, of each kind the shortest first."""
    query = (
        select(
            Trajectory.group_key,
            Source.name,
            Trajectory.domain,
            Trajectory.split,
            StateOfCatalog.id,
            StateOfCatalog.decision_index,
            Trajectory.blob,
            StateMeasurement.context_tokens,
            Labeler.id,
        )
        .join(Source, Source.id == Trajectory.source_id)
        .join(StateOfCatalog, StateOfCatalog.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == StateOfCatalog.id)
        .join(Labeler, Labeler.id == StateMeasurement.labeler_id)
        .where(Labeler.name == labeler, StateMeasurement.outcome == "labelled")
        .where(Trajectory.is_current(), Trajectory.split.in_(SPLITS))
        .order_by(StateMeasurement.context_tokens, StateOfCatalog.state_key)
    )
    found: dict[str, LabelledState] = {}
    with catalog.reading() as connection:
        for task, source, domain, split, state_id, decision, blob, tokens, labeler_id in connection.execute(query):
            if task not in found:
                mine = select(Label.mask, Label.harm).where(Label.state_id == state_id, Label.labeler_id == labeler_id)
                harms = dict(connection.execute(mine).tuples().all())
                found[task] = LabelledState(task, (source, domain), split, decision, blob, tokens, harms)
    return by_turns(list(found.values()))


def by_turns(states: Sequence[LabelledState]) -> list[LabelledState]:
    """Return the first of every kind, then the second of every kind, and so on."""
    taken: Counter[tuple[str, str | None]] = Counter()
    turns = []
    for state in states:
        turns.append((taken[state.kind], state))
        taken[state.kind] += 1
    return [state for _, state in sorted(turns, key=lambda turn: turn[0])]


def measure_again(
    scorer: TargetNll, labelled: LabelledState, run: RecordedRun, first: Tokenizer, first_caps: Caps
) -> Opinions | None:
    """Return the second opinion on one state; None if either language model cannot read all of it."""
    frozen: FrozenState = next(
        state for state in freeze_trajectory(run, first, first_caps).states if state.decision == labelled.decision
    )
    if frozen.state.view.start:
        return None
    tokenizer, caps = scorer.backbone.tokenizer, caps_for(scorer.backbone.window)
    state = read_by(frozen.state, tokenizer, caps.context)
    if state is None:
        return None
    (result,) = measure_states(scorer, [(state, render_output(frozen.next_output, tokenizer))]).results
    if isinstance(result, Exclusion):
        return None
    request = len(frozen.state.rendering)
    savings = {
        harm.deletion_set.mask: frozen.state.rendering.direct_saving(harm.deletion_set.removal) / request
        for harm in result.harms
    }
    second = {harm.deletion_set.mask: harm.harm for harm in result.harms}
    return Opinions(labelled.task, labelled.context_tokens, savings, labelled.harms, second)


def read_kept(path: Path | None, backbone: str, waiting: Sequence[LabelledState]) -> list[Opinions]:
    """The opinions of a backbone that a file keeps, of states that still have these labels."""
    if path is None or not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [Opinions.from_json(line) for line in lines if line["backbone"] == backbone]
    present = {labelled.task: labelled.harms for labelled in waiting}
    return [one for one in kept if present.get(one.task) == one.first]


def keep(path: Path, backbone: str, opinions: Opinions) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"backbone": backbone, **opinions.to_json()}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="qwen2.5-coder-0.5b", help="the second language model")
    parser.add_argument("--states", type=int, default=60, help="most states to have (default: 60)")
    parser.add_argument("--minutes", type=float, default=25.0, help="after which no state is begun (default: 25)")
    parser.add_argument("--labeler", default="default")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="every state as soon as it is measured; goes on with it"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="what drsr publish --second-opinion takes")
    options = parser.parse_args()
    settings = load_settings()
    artifacts = ArtifactStore(settings.artifact_root)
    with open_catalog(settings.catalog_url) as catalog:
        waiting = labelled_states(catalog, options.labeler)
    found = read_kept(options.kept, options.backbone, waiting)
    computed = time.process_time()
    done = {one.task for one in found}
    missing = [labelled for labelled in waiting if labelled.task not in done]
    for opinions in islice(measured(settings, options, artifacts, missing), max(0, options.states - len(found))):
        found.append(opinions)
        if options.kept is not None:
            keep(options.kept, options.backbone, opinions)
    if not found:
        raise SystemExit("not one state could be measured: label some of train or validation first")
    lengths = [one.context_tokens for one in found]
    print(f"{settings.backbone} and {options.backbone}: {len(found)} of {len(waiting)} tasks, one state of each")
    print(f"contexts of {min(lengths):,} to {max(lengths):,} tokens, {time.process_time() - computed:,.0f} s of CPU")
    edges, agreed = intervals(found), compare(found)
    if options.output is not None:
        said = SecondOpinion(
            *(settings.backbone, options.backbone, agreed.states, len({one.task for one in found})),
            *(agreed.sets, agreed.pairs, agreed.same_verdict, agreed.same_order),
        )
        options.output.write_text(json.dumps(said.to_json(), indent=1) + "\n", encoding="utf-8")
    for name, value in agreed._asdict().items():
        low, high = edges.get(name, (float("nan"),) * 2)
        print(f"{name:28} {f'{value:.3f} [{low:.3f}, {high:.3f}]' if isinstance(value, float) else value}")


def measured(
    settings: Settings, options: argparse.Namespace, artifacts: ArtifactStore, waiting: Sequence[LabelledState]
) -> Iterator[Opinions]:
    """The second opinion of one task after another, until the time is over."""
    import torch

    started = time.monotonic()
    if not waiting or not options.minutes:
        return
    torch.set_num_threads(1)
    first, window = load_tokenizer(settings.backbone)
    scorer = TargetNll(load_backbone(options.backbone, device=settings.device, dtype=settings.dtype))
    for labelled in waiting:
        if time.monotonic() - started > 60 * options.minutes:
            return
        run = RecordedRun.from_json(artifacts.get(labelled.blob))
        opinions = measure_again(scorer, labelled, run, first, caps_for(window))
        if opinions is not None:
            yield opinions


def _share(flags: Sequence[bool] | np.ndarray) -> float:
    return float(np.mean(flags)) if len(flags) else float("nan")


if __name__ == "__main__":
    main()
