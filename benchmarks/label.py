"""The price of labels: `python -m benchmarks.label`.

For trajectories drawn by a seed, all deletion sets of all states are measured by the engine and by the loop a user
would write, `model(input_ids, labels=...)` for each context, in turn, on one thread, by process CPU time. In addition
to the speed-up it reports:
- what the counts of tokens and floating-point operations allow, and which share of that was reached;
- which share of this machine's matrix-multiplication peak the engine reached, measured in the same run;
- the engine while it also collects the intact features;
- peak memory of both above the loaded model, each in a process of its own;
- the largest difference between the two in H.

The loop takes minutes per trajectory. `--contexts 12` times that many of a trajectory's contexts, drawn by the seed,
and scales by operations. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.operations import Geometry, gemm_peak
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.continuation import layer_types
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.features.vectors import FeatureWatch
from drsr.offline import samples
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import MeasuredStates, StateHarms, contexts_of, measure_states
from drsr.offline.label.prefix_tree import build_tree, total_tokens
from drsr.offline.label.target_nll import Pair, TargetNll
from drsr.offline.store.locations import open_location
from drsr.request.contracts import TokenIds
from drsr.request.rendering import render_output
from drsr.request.view import caps_for

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "trajectories" / "tau-bench"
"""Real recorded runs, if this machine has them."""
CONTEXT_TOKENS = range(1_500, 4_001)
"""Intact contexts of the real runs that are measured."""
SPEED_TARGET, ALLOWED_TARGET, PEAK_TARGET, FEATURES_TARGET = 3.0, 0.9, 0.6, 1.05
EXACT_TARGET, HYBRID_EXACT_TARGET = 1e-5, 1e-4
"""In H, in fp32; the second for models with recurrent layers."""


class Work(NamedTuple):
    """One trajectory's states to measure."""

    source: str
    name: str
    states: list[tuple[DecisionState, TokenIds]]
    pairs: list[Pair]
    """Every context with its target, state by state, the intact one first."""


class Row(NamedTuple):
    """The measurements of one trajectory."""

    source: str
    trajectory: str
    states: int
    contexts: int
    context_tokens: int
    """The longest intact context."""
    naive_tokens: int
    tree_tokens: int
    processed_tokens: int
    naive_s: float
    engine_s: float
    features_s: float
    speedup: float
    allowed: float
    """The speed-up that the counts of operations allow."""
    of_allowed: float
    of_peak: float
    """Operations per second of the engine over the matrix-multiplication peak."""
    largest_difference: float
    """In H, between the engine and the timed part of the loop."""


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    backbone = load_backbone(options.backbone)
    assert isinstance(backbone, FrozenLM)
    if options.peak:
        way, number = options.peak
        work = list(choose_work(backbone, options.trajectories, options.seed))[int(number)]
        print(json.dumps(peak_megabytes(backbone, way, work)))
        return 0
    chosen = list(choose_work(backbone, options.trajectories, options.seed))
    print(f"{options.backbone} in fp32, one thread of {processor()}; seed {options.seed}, CPU seconds", flush=True)
    scorer = TargetNll(backbone)
    scorer.verify(np.concatenate(chosen[0].pairs[0]))
    print(f"{scorer.method}: {scorer.why}", flush=True)
    rows = []
    for work in chosen:
        rows.append(measure(scorer, work, options.contexts, options.seed))
        print("; ".join(f"{name} {_short(value)}" for name, value in rows[-1]._asdict().items()), flush=True)
    exact = EXACT_TARGET if set(layer_types(backbone.model)) == {"full_attention"} else HYBRID_EXACT_TARGET
    met = []
    for source in dict.fromkeys(row.source for row in rows):
        met.append(summarise(source, [row for row in rows if row.source == source], exact))
    longest = max(range(len(chosen)), key=lambda number: max(len(pair.context) for pair in chosen[number].pairs))
    met.append(report_memory(options, longest))
    if options.json:
        Path(options.json).write_text(json.dumps([row._asdict() for row in rows], indent=2))
    return 0 if all(met) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--trajectories", type=int, default=3, help="of each source (default 3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--contexts", type=int, default=0, help="contexts of each trajectory in the timed loop (0: all)"
    )
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "NUMBER"), help="print one peak in MB and end")
    return parser.parse_args()


def choose_work(backbone: FrozenLM, count: int, seed: int) -> Iterator[Work]:
    """Trajectories of each source as the seed draws them; of the real ones those with contexts of the right length."""
    caps = caps_for(backbone.window)
    sources = {"sample corpus": samples.CORPUS}
    if REAL.exists():
        sources = {"tau-bench": REAL} | sources
    for source, place in sources.items():
        runs = [run for file in gather(open_location(str(place))) for run in read(file) if isinstance(run, Trajectory)]
        random.Random(seed).shuffle(runs)
        found = 0
        for run in runs:
            if found == count:
                break
            frozen = freeze_trajectory(run, backbone.tokenizer, caps).states
            states = [(item.state, render_output(item.next_output, backbone.tokenizer)) for item in frozen]
            fits = all(len(contexts_of(state).intact) in CONTEXT_TOKENS for state, _ in states)
            if states and (source != "tau-bench" or fits):
                found += 1
                yield Work(source, run.external_id, states, _pairs(states))


def _pairs(states: list[tuple[DecisionState, TokenIds]]) -> list[Pair]:
    pairs = []
    for state, target in states:
        contexts = contexts_of(state)
        pairs += [Pair(context, target) for context in (contexts.intact, *(deleted for _, deleted in contexts.deleted))]
    return pairs


def measure(scorer: TargetNll, work: Work, contexts: int, seed: int) -> Row:
    """Measure the engine before and after the loop, so that both see the same load on a shared machine."""
    backbone = scorer.backbone
    assert isinstance(backbone, FrozenLM)
    geometry = Geometry.of(backbone.model)
    timed = sorted(random.Random(seed).sample(range(len(work.pairs)), contexts or len(work.pairs)))
    peaks = [gemm_peak()]
    engine, measured = cpu_seconds(lambda: measure_states(scorer, work.states))
    losses: dict[int, float] = {}
    loop = 0.0
    for index in timed:
        seconds, losses[index] = cpu_seconds(lambda index=index: naive(backbone, work.pairs[index]))  # type: ignore[misc]
        loop += seconds
    peaks.append(gemm_peak())
    watches = {number: FeatureWatch(backbone, state) for number, (state, _) in enumerate(work.states)}
    features, _ = cpu_seconds(lambda: measure_states(scorer, work.states, watches))
    again, _ = cpu_seconds(lambda: measure_states(scorer, work.states))
    operations = [geometry.forward(len(pair.context) + len(pair.target)) for pair in work.pairs]
    loop *= sum(operations) / sum(operations[index] for index in timed)
    tree = build_tree({i: np.concatenate([pair.context, pair.target[:-1]]) for i, pair in enumerate(work.pairs)})
    shared = sum(geometry.extension(len(node.tokens), node.start) for node in tree.walk())
    shared += geometry.head(sum(len(pair.target) for pair in work.pairs))
    seconds = (engine + again) / 2
    allowed = sum(operations) / shared
    assert measured.tokens_processed == total_tokens(tree)
    return Row(
        source=work.source,
        trajectory=work.name,
        states=len(work.states),
        contexts=len(work.pairs),
        context_tokens=max(len(pair.context) for pair in work.pairs),
        naive_tokens=measured.tokens_in_pairs,
        tree_tokens=total_tokens(tree),
        processed_tokens=measured.tokens_processed,
        naive_s=loop,
        engine_s=seconds,
        features_s=features,
        speedup=loop / seconds,
        allowed=allowed,
        of_allowed=loop / seconds / allowed,
        of_peak=shared / seconds / max(peaks),
        largest_difference=largest_difference(measured, losses),
    )


def naive(backbone: FrozenLM, pair: Pair) -> float:
    """Return the mean NLL of the target by the model's own loss, as a user would write it."""
    ids = torch.as_tensor(np.concatenate(pair)[None].astype(np.int64))
    labels = ids.clone()
    labels[:, : len(pair.context)] = -100
    with torch.inference_mode():
        return float(backbone.model(input_ids=ids, labels=labels).loss)


def largest_difference(measured: MeasuredStates, losses: dict[int, float]) -> float:
    """Return the largest difference in H, over all sets that the loop measured together with their state's intact
    context; else in NLL."""
    worst, start = 0.0, 0
    for result in measured.results:
        assert isinstance(result, StateHarms)
        ours = [result.intact_nll, *(harm.deleted_nll for harm in result.harms)]
        theirs = [losses.get(start + offset) for offset in range(len(ours))]
        base = (ours[0], theirs[0]) if theirs[0] is not None else (0.0, 0.0)
        known = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if other is not None]
        worst = max([worst, *(abs((mine - base[0]) - (other - base[1])) for mine, other in known)])
        start += len(ours)
    return worst


def summarise(source: str, rows: list[Row], exact: float) -> bool:
    """Prints what came out, each number that has a target with a verdict; whether all were met."""

    def median(of: Callable[[Row], float]) -> float:
        return statistics.median(of(row) for row in rows)

    met = []

    def judged(passed: bool) -> str:
        met.append(passed)
        return verdict(passed)

    speedup, share = median(lambda row: row.speedup), median(lambda row: row.of_allowed)
    peak, features = median(lambda row: row.of_peak), median(lambda row: row.features_s / row.engine_s)
    print(f"\n{source}: medians over {len(rows)} trajectories")
    print(f"  speed-up {speedup:.2f} (at least {SPEED_TARGET}): {judged(speedup >= SPEED_TARGET)}")
    print(f"  of what operations allow ({median(lambda row: row.allowed):.2f}): ", end="")
    print(f"{share:.2f} (at least {ALLOWED_TARGET}): {judged(share >= ALLOWED_TARGET)}")
    print(f"  of the matrix-multiplication peak: {peak:.2f} (at least {PEAK_TARGET}): {judged(peak >= PEAK_TARGET)}")
    print(f"  with features {features:.3f} (at most {FEATURES_TARGET}): {judged(features <= FEATURES_TARGET)}")
    naive_tokens, tree = sum(row.naive_tokens for row in rows), sum(row.tree_tokens for row in rows)
    processed = sum(row.processed_tokens for row in rows)
    print(
        f"  tokens: {naive_tokens:,} by the loop, {tree:,} in the trees, {processed:,} processed (as in the trees): "
        f"{judged(processed == tree)}"
    )
    largest = max(row.largest_difference for row in rows)
    print(
        f"  largest difference in H: {largest:.1e} nats per token (at most {exact:.0e}): {judged(largest <= exact)}",
        flush=True,
    )
    return all(met)


def verdict(passed: bool) -> str:
    return "met" if passed else "NOT MET"


def report_memory(options: argparse.Namespace, number: int) -> bool:
    """On the longest context, and on the state it belongs to. Whether the engine keeps to the loop's peak."""
    peaks = {}
    for way in ("loop", "engine"):
        command = [
            sys.executable,
            "-m",
            "benchmarks.label",
            "--backbone",
            options.backbone,
            "--seed",
            str(options.seed),
        ]
        command += ["--trajectories", str(options.trajectories), "--peak", way, str(number)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        peaks[way] = float(done.stdout)
    less = peaks["engine"] <= peaks["loop"]
    shown = f"loop {peaks['loop']:.0f} MB, engine {peaks['engine']:.0f} MB (at most the loop's)"
    print(f"\npeak memory above the loaded model: {shown}: {verdict(less)}")
    return less


def peak_megabytes(backbone: FrozenLM, way: str, work: Work) -> float:
    """Return the largest resident memory while working, above what is resident before."""
    short = Pair(work.pairs[0].context[:64], work.pairs[0].target[:8])
    naive(backbone, short)  # weights are read from disk when they are first used
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak of loading the model is not of interest
    if way == "loop":
        naive(backbone, max(work.pairs, key=lambda pair: sum(map(len, pair))))  # each forward stands alone
    else:  # the buffers are as long as the longest state's context, with however many states
        measure_states(TargetNll(backbone), [max(work.states, key=lambda item: len(item[0].rendering) + len(item[1]))])
    return (_status("VmHWM") - before) / 1e3


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def _status(field: str) -> int:
    """Return a line of the kernel's account of this process, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    sys.exit(main())
