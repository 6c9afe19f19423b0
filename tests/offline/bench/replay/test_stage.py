"""Replay against the slow obvious way: render each rewrite, compute its NLL by one forward of its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

from drsr.backbone.catalogue import load_tokenizer
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.tokenizer import HfTokenizer
from drsr.errors import ArtifactCorrupt
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.contract import Comparator, Keep, Rewrite, Trained
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.openai_agents_trimmer import OpenAiAgentsTrimmer
from drsr.offline.bench.comparators.periodic_summary import PeriodicSummary
from drsr.offline.bench.comparators.sliding_window import SlidingWindow
from drsr.offline.bench.replay.file import MethodNote, ReplayFile, note_of, read_replay
from drsr.offline.bench.replay.method_version import version_with
from drsr.offline.bench.replay.stage import RecordedRun, Replayed, replay
from drsr.offline.bench.replay.summary import compare
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.offline.freeze.rows import StateRow
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.target_nll import TargetNll, direct_nll
from drsr.offline.train.metrics import Bootstrap
from drsr.policy.scripted import scripted_policy
from drsr.request.rendering import render, render_output
from drsr.request.request import Request, read_request
from drsr.request.view import caps_for
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.offline.chat_files import chat
from tests.tiny_backbones import small_backbone, tiny_backbone

BACKBONE = tiny_backbone("llama")


def recorded_run(
    seed: int = 1, steps: int = 7, shown: Sequence[dict[str, Any]] = (), backbone: FrozenLM = BACKBONE
) -> RecordedRun:
    """A made-up run; `shown` is a demonstration before its task."""
    recorded = chat(seed, steps)
    recorded["messages"][1:1] = shown
    trajectory = Trajectory(recorded["id"], "openai", {"messages": recorded["messages"]}, "test/1")
    frozen = freeze_trajectory(trajectory, backbone.tokenizer, caps_for(backbone.window))
    assert frozen.states
    states = [StateRow(number, f"{seed}-{number}", state) for number, state in enumerate(frozen.states)]
    return RecordedRun(f"test/{recorded['id']}", f"task {seed}", "code", states)


class OrphaningComparator:
    """A double that drops the call of a kept result: what the protocol check is there for."""

    name = title = "orphaning"
    assumptions: tuple[str, ...] = ()
    trained: Trained = "no"
    asks = False
    keeps: frozenset[Keep] = frozenset()

    def begin(self) -> None:
        return None

    def rewrite(self, request: Request, state: Any, summariser: Summariser) -> Rewrite:
        first_call = next(index for index, message in enumerate(request.messages) if message.role == "assistant")
        kept = [message for index, message in enumerate(request.messages) if index != first_call]
        return Rewrite(request.with_messages(kept))


def run_all(run: RecordedRun, *methods: Comparator) -> list[Replayed]:
    return replay(run, methods, ScriptedSummariser(BACKBONE.tokenizer), TargetNll(BACKBONE))


def test_equals_one_forward_per_rewrite() -> None:
    run = recorded_run(steps=5)
    window = SlidingWindow(2)
    rows = run_all(run, Baseline(), window)
    assert len(rows) == 2 * len(run.states)
    whole = run.states[-1].frozen.state.history.request
    for row in rows:
        number = next(number for number, state in enumerate(run.states) if state.state_key == row.state_key)
        decision = run.states[number].frozen.decision
        request = whole.with_messages(whole.messages[:decision])
        target = render_output(run.states[number].frozen.next_output, BACKBONE.tokenizer)
        intact = render(request, BACKBONE.tokenizer).token_ids
        assert len(intact) <= caps_for(BACKBONE.window).context  # so that the whole request is the view
        assert row.intact_nll == pytest.approx(direct_nll(BACKBONE, intact, target), abs=1e-5)
        if row.method == "baseline":
            assert (row.changed, row.harm, row.unsafe, row.removed_tokens) == (False, 0.0, False, 0)
            continue
        rewrite = window.rewrite(request, None, ScriptedSummariser(BACKBONE.tokenizer)).request
        shorter = render(rewrite, BACKBONE.tokenizer).token_ids
        assert row.changed
        assert row.removed_tokens == len(intact) - len(shorter) > 0
        assert row.rewritten_nll == pytest.approx(direct_nll(BACKBONE, shorter, target), abs=1e-5)


def test_what_remembers_sees_every_decision_and_pays_for_all_of_them() -> None:
    run = recorded_run(steps=9)
    summary = PeriodicSummary(3)
    rows = run_all(run, summary)
    whole = read_request({"messages": chat(1, 9)["messages"]})
    summariser, memory = ScriptedSummariser(BACKBONE.tokenizer), summary.begin()
    spent = decisions = 0
    for decision, message in enumerate(whole.messages[: run.states[-1].frozen.decision + 1]):
        if message.role == "assistant":
            rewrite = summary.rewrite(whole.with_messages(whole.messages[:decision]), memory, summariser)
            spent += rewrite.auxiliary_input_tokens + rewrite.auxiliary_output_tokens
            decisions += 1
    assert spent > 0
    assert sum(row.auxiliary_input_tokens + row.auxiliary_output_tokens for row in rows) == spent
    assert sum(row.requests for row in rows) == decisions


class CountingComparator(OrphaningComparator):
    """A double that remembers how many messages each request had, and changes nothing."""

    def __init__(self) -> None:
        self.memories: list[list[int]] = []

    def begin(self) -> Any:
        self.memories.append([])
        return self.memories[-1]

    def rewrite(self, request: Request, state: Any, summariser: Summariser) -> Rewrite:
        state.append(len(request.messages))
        return Rewrite(request)


def test_memory_runs_from_the_first_decision_also_where_only_the_last_is_scored() -> None:
    run = recorded_run(steps=9)
    counting = CountingComparator()
    run_all(run, counting)
    every = [step.message for step in run.states[-1].frozen.state.history.steps] + [run.states[-1].frozen.decision]
    assert counting.memories == [every]
    (row,) = run_all(run._replace(states=run.states[-1:]), counting)
    assert counting.memories == [every, every]
    assert row.requests == len(every)


def test_demonstrations_are_no_decisions_of_the_run() -> None:
    shown = [
        {"role": "user", "content": "Another task.", "is_demo": True},
        {"role": "assistant", "content": "Another answer.", "is_demo": True},
    ]
    run, counting = recorded_run(shown=shown), CountingComparator()
    run_all(run, counting)
    first = run.states[-1].frozen.state.history.prefix_length
    assert first == 4  # instructions, demonstration, task
    assert counting.memories[0][0] == first


def test_an_invalid_rewrite_is_counted_and_not_sent() -> None:
    for row in run_all(recorded_run(steps=5), OrphaningComparator()):
        assert row.fell_back
        assert row.why_fell_back == "result_without_call"
        assert row.violations > 0
        assert (row.changed, row.removed_tokens, row.harm) == (False, 0, 0.0)


def test_a_summary_that_the_tokenizer_cannot_represent_is_not_sent() -> None:
    """The embedded model has no piece for the byte 0x04, which a real summariser may copy from a tool's output."""
    tokenizer = load_tokenizer("smollm2-135m").tokenizer
    assert isinstance(tokenizer, HfTokenizer)
    model = small_backbone(LlamaConfig, vocab_size=49_152).model  # small, with room for all of its tokens
    backbone = FrozenLM(model, tokenizer, name="small", identity="small", window=BACKBONE.window)
    run = recorded_run(backbone=backbone)
    run = run._replace(states=run.states[-1:])
    summariser = RecordingSummariser(lambda ask: "the end\x04")
    summary, window = replay(run, [PeriodicSummary(3), SlidingWindow(2)], summariser, TargetNll(backbone))
    assert summary.why_fell_back == "the language model's tokenizer cannot represent the rewrite"
    assert (summary.changed, summary.removed_tokens, summary.harm, summary.violations) == (False, 0, 0.0, 0)
    assert (summary.auxiliary_input_tokens, summary.auxiliary_output_tokens) == (100, 10)  # it was paid for
    assert (window.changed, window.why_fell_back) == (True, "")
    assert window.harm is not None


class BoastingComparator(OrphaningComparator):
    """A double that keeps the newest message alone, and claims to keep everything."""

    keeps = frozenset(Keep)

    def rewrite(self, request: Request, state: Any, summariser: Summariser) -> Rewrite:
        last_call = max(index for index, message in enumerate(request.messages) if message.role == "assistant")
        return Rewrite(request.with_messages(request.messages[last_call:]))


def test_a_claim_that_is_broken_is_told_from_what_was_never_claimed() -> None:
    rows = run_all(recorded_run(steps=5), BoastingComparator(), PeriodicSummary(3))
    for row in rows:
        if row.method == "orphaning":
            assert (row.fell_back, row.claims_broken) == (False, ("prefix", "recent2", "task"))
        else:
            assert row.lost in ((), ("prefix",))  # which it does not claim
            assert row.claims_broken == ()
    boasting, honest = compare(rows, Bootstrap(5)).methods
    assert (boasting.claims_broken, boasting.lost_task) == (len(rows) // 2, len(rows) // 2)
    assert honest.claims_broken == 0


def test_of_a_request_that_does_not_fit_no_harm_is_measured_but_the_rest_is() -> None:
    run = recorded_run(steps=9)
    last = run.states[-1].frozen.state
    assert len(last.rendering) > caps_for(BACKBONE.window).context
    row = run_all(run, SlidingWindow(2))[-1]
    assert (row.harm, row.intact_nll, row.changed) == (None, None, True)
    assert row.removed_tokens > 0
    assert f"{len(last.rendering):,} tokens" in row.why_not_measured


def test_a_rewrite_that_does_not_fit_is_not_measured_and_says_why() -> None:
    run = recorded_run(steps=5)

    class LongWindedComparator(OrphaningComparator):
        """A double that makes a request longer than any window."""

        def rewrite(self, request: Request, state: Any, summariser: Summariser) -> Rewrite:
            body = request.to_wire()
            body["messages"][-1]["content"] = "more and more " * BACKBONE.window
            return Rewrite(read_request(body))

    for row in run_all(run, LongWindedComparator()):
        assert (row.harm, row.intact_nll is None) == (None, False)
        assert row.why_not_measured.startswith("context_too_long")
        assert row.removed_tokens < 0


class RenamedSummariser(ScriptedSummariser):
    """A double that says it is another."""

    name = "another at http://elsewhere/v1"


def test_a_row_says_which_version_of_the_method_made_it() -> None:
    """Who writes summaries matters to those alone who ask for some."""
    methods = (Baseline(), PeriodicSummary(3), OpenAiAgentsTrimmer(), DrsrPolicy(scripted_policy()))
    run = recorded_run(steps=5)
    scripted = {row.method: row.version for row in run_all(run._replace(states=run.states[:1]), *methods)}
    another = {method.name: version_with(method, RenamedSummariser(BACKBONE.tokenizer)) for method in methods}
    assert scripted == {
        "baseline": "",
        "periodic_summary_3": "summaries by scripted",
        "openai_agents_trimmer": f"openai-agents {version('openai-agents')}",
        "drsr": scripted_policy().identity,
    }
    assert another == {**scripted, "periodic_summary_3": "summaries by another at http://elsewhere/v1"}


def test_a_stopped_replay_goes_on(tmp_path: Path) -> None:
    run = recorded_run(steps=5)
    rows = run_all(run, Baseline(), SlidingWindow(2))
    keys = [state.state_key for state in run.states]
    path, versions = tmp_path / "replay.jsonl", {"baseline": "", "sliding_window_2": ""}
    with ReplayFile(path, {"split": "test"}) as file:
        assert file.missing(keys, versions) == ["baseline", "sliding_window_2"]
        file.add([row for row in rows if row.method == "baseline"])
        assert file.missing(keys, versions) == ["sliding_window_2"]
    with ReplayFile(path, {"split": "test"}) as again:
        assert again.missing(keys, versions) == ["sliding_window_2"]
        again.add(rows)
        again.add(rows)
        assert sorted(again.replayed) == sorted(rows)
    found = read_replay(path)
    assert found.about == {"format": "drsr replay/4", "split": "test"}
    assert (found.notes, found.decisions) == ({}, None)
    assert sorted(found.rows) == sorted(rows)


def test_a_new_version_of_a_method_is_measured_and_the_earlier_one_no_longer_shown(tmp_path: Path) -> None:
    run = recorded_run(steps=5)
    keys = [state.state_key for state in run.states]
    rows = run_all(run, Baseline(), SlidingWindow(2))
    window = note_of(SlidingWindow(2), ScriptedSummariser(BACKBONE.tokenizer))
    baseline = note_of(Baseline(), ScriptedSummariser(BACKBONE.tokenizer))
    newer = [row._replace(version="2", removed_tokens=1) for row in rows if row.method == window.name]
    path = tmp_path / "replay.jsonl"
    with ReplayFile(path, {}) as file:
        file.describe([baseline, window], keys)
        file.add(rows)
    assert sorted(read_replay(path).current) == sorted(rows)
    with ReplayFile(path, {}) as file:
        assert file.missing(keys, {"baseline": "", window.name: "2"}) == [window.name]
        file.describe([window._replace(version="2")], keys)
        file.add(newer)
    found = read_replay(path)
    assert found.current == [*[row for row in rows if row.method == "baseline"], *newer]
    assert found.earlier == {window.title: len(newer)}
    assert len(found.rows) == len(rows) + len(newer)
    with ReplayFile(path, {}) as file:  # back to the first: its rows are still good
        assert file.missing(keys, {window.name: ""}) == []
        file.describe([window], keys[:1])
    assert sorted(read_replay(path).current) == sorted(row for row in rows if row.state_key == keys[0])


def test_what_is_to_be_known_about_methods_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "replay.jsonl"
    window = note_of(SlidingWindow(2), ScriptedSummariser(BACKBONE.tokenizer))
    missing = MethodNote("peer", "Peer", left_out="not installed")
    with ReplayFile(path, {}) as file:
        file.describe([window, missing], ["a", "b"])
    written = path.read_bytes()
    with ReplayFile(path, {}) as file:
        file.describe([window], ["b", "a"])
    assert path.read_bytes() == written
    with ReplayFile(path, {}) as file:
        file.describe([missing._replace(left_out="too old")], ["a"])
    found = read_replay(path)
    assert found.notes == {window.name: window, "peer": missing._replace(left_out="too old")}
    assert found.decisions == frozenset({"a"})
    assert found.present == {window.name: ""}
    assert window.assumptions
    assert "pairs" in window.keeps


def test_every_summariser_is_named_with_its_methods(tmp_path: Path) -> None:
    """A later run may ask another one for some of them."""
    tokenizer, path = BACKBONE.tokenizer, tmp_path / "replay.jsonl"
    methods = (Baseline(), PeriodicSummary(3), PeriodicSummary(5))
    with ReplayFile(path, {}) as file:
        file.describe([note_of(method, ScriptedSummariser(tokenizer)) for method in methods], ["a"])
        file.describe([note_of(methods[2], RenamedSummariser(tokenizer))], ["a"])
    found = {name: [note.name for note in notes] for name, notes in read_replay(path).summarisers.items()}
    assert found == {"scripted": ["periodic_summary_3"], RenamedSummariser.name: ["periodic_summary_5"]}


def test_a_file_of_the_format_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "replay.jsonl"
    path.write_text('{"format": "drsr replay/3", "split": "test"}\n')
    with pytest.raises(ArtifactCorrupt, match="'drsr replay/3', not 'drsr replay/4'(?s:.*)remove it and run again"):
        ReplayFile(path, {"split": "test"})
