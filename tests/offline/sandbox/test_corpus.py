from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from drsr.backbone.catalogue import load_tokenizer
from drsr.errors import InputError
from drsr.offline import samples
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.near_duplicates import jaccard, shingles, text_of
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.prefix_tree import build_tree, total_tokens
from drsr.offline.sandbox.corpus import (
    COUNT,
    FAMILIES,
    compare_corpus,
    corpus_tasks,
    read_lines,
    record_corpus,
    to_line,
    write_corpus,
    write_sample,
)
from drsr.offline.sandbox.recorder import READER, record
from drsr.request.protocol import violations
from drsr.request.rendering import render_output
from drsr.request.request import read_request
from drsr.request.view import caps_for
from tests.offline.sandbox.conversations import Json, calls, corpus, decisions, steps


def test_the_corpus_has_four_domains_with_different_tasks() -> None:
    assert len(corpus()) == COUNT == 48
    assert Counter(line["domain"] for line in corpus()) == dict.fromkeys(("code", "office", "security", "web"), 12)
    assert Counter(family.domain for family in FAMILIES) == dict.fromkeys(("code", "office", "security", "web"), 5)
    assert [line["task"] for line in corpus()] == [task.identity for task in corpus_tasks()]
    for key in ("task", "id"):
        assert len({line[key] for line in corpus()}) == COUNT
    assert len({line["request"]["messages"][1]["content"] for line in corpus()}) == COUNT


@cache
def _frozen() -> dict[str, tuple[FrozenState, ...]]:
    """The decision states of each task, as the embedded language model's tokenizer counts."""
    tokenizer, window = load_tokenizer("smollm2-135m")
    return {
        line["task"]: freeze_trajectory(
            Trajectory(line["id"], "openai", line["request"], READER), tokenizer, caps_for(window)
        ).states
        for line in corpus()
    }


def test_lengths_suit_a_laptop() -> None:
    for line in corpus():
        assert 7 <= steps(line["request"]["messages"]) <= 14, line["task"]
    for task, states in _frozen().items():
        assert len(states) >= 2, task
        assert all(400 <= len(state.state.rendering) <= 1_200 for state in states), task


def test_two_cores_label_it_in_ten_minutes() -> None:
    """At 185 tokens a second and core ten minutes are 220,000 tokens; a quarter of that is kept in reserve."""
    tokenizer, _ = load_tokenizer("smollm2-135m")
    tokens = 0
    for states in _frozen().values():
        sequences = []
        for state in states:
            target = render_output(state.next_output, tokenizer)
            contexts = contexts_of(state.state)
            every = (contexts.intact, *(context for _, context in contexts.deleted))
            sequences += [np.concatenate([context, target]) for context in every]
        tokens += total_tokens(build_tree(dict(enumerate(sequences))))
    assert tokens <= 165_000


def test_two_or_three_candidates_together_stay_below_the_removal_cap() -> None:
    shares = [
        [candidate.direct_saving / len(state.state.rendering) for candidate in state.state.candidates]
        for states in _frozen().values()
        for state in states
    ]
    single = [share for state in shares for share in state]
    assert mean(0.03 <= share <= 0.15 for share in single) > 0.95
    assert mean(sum(sorted(state)[:2]) <= 0.20 for state in shares) > 0.95
    assert sum(sum(sorted(state)[:3]) <= 0.20 for state in shares) >= 5


def test_every_split_gets_trajectories_of_every_domain() -> None:
    domains = defaultdict(list)
    for line in corpus():
        domains[assign_split(group_key("sandbox", line["id"], line["task"]))].append(line["domain"])
    assert {split: len(set(found)) for split, found in domains.items()} == {"train": 4, "validation": 4, "test": 4}
    assert min(len(domains["validation"]), len(domains["test"])) >= 5


def test_every_run_did_its_task() -> None:
    assert {line["reward"] for line in corpus()} == {1.0}


def test_every_call_has_its_result_and_the_protocol_holds() -> None:
    for line in corpus():
        assert not violations(read_request(line["request"])), line["task"]
        offered = {tool["function"]["name"] for tool in line["request"]["tools"]}
        used = {made["name"] for message in line["request"]["messages"] for made in calls(message)}
        assert used <= offered, line["task"]


def test_messages_come_in_all_forms() -> None:
    forms: Counter[str] = Counter()
    for line in corpus():
        messages = line["request"]["messages"]
        forms["user follow-up"] += sum(message["role"] == "user" for message in messages) - 1
        for message in messages:
            if message["role"] == "assistant":
                made = len(message.get("tool_calls") or [])
                forms["text and call"] += bool(made and message["content"])
                forms["call only"] += bool(made and not message["content"])
                forms["text only"] += not made
                forms["parallel calls"] += made > 1
                forms["reasoning"] += "reasoning_content" in message
    assert all(
        forms[name] >= 10 for name in ("user follow-up", "call only", "text only", "parallel calls", "reasoning")
    )
    assert forms["text and call"] > sum(forms.values()) / 5


def test_nothing_of_the_machine_is_recorded() -> None:
    traces = re.compile(
        r"drsr-sandbox-|/tmp|/var/folders|127\.0\.0\.1|localhost|site-packages|0x[0-9a-f]{6}|in \d+\.\d+s"
    )
    for line in corpus():
        assert not traces.search(json.dumps(line["request"])), line["task"]


_WORD = re.compile(r"[\w.@/-]*\d(?:[\w.@/-]*\w)?|[A-Za-z]{4,}")


def _reuse(messages: list[Json]) -> float:
    """Share of the words in calls that stood in an earlier output and not in the task."""
    task = set(_WORD.findall(messages[0]["content"] + " " + messages[1]["content"]))
    seen: set[str] = set()
    words = reused = 0
    for message in messages[2:]:
        if message["role"] == "tool":
            seen.update(_WORD.findall(message["content"]))
        for made in calls(message):
            for word in _WORD.findall(" ".join(map(str, made["arguments"].values()))):
                words += 1
                reused += word in seen and word not in task
    return reused / words


def test_later_calls_use_what_earlier_outputs_revealed() -> None:
    shares = defaultdict(list)
    for line in corpus():
        shares[line["domain"]].append(_reuse(line["request"]["messages"]))
    assert {domain: mean(found) > 0.15 for domain, found in shares.items()} == dict.fromkeys(shares, True)


def test_the_last_answer_names_facts_that_outputs_revealed() -> None:
    for line in corpus():
        *before, answer = line["request"]["messages"]
        task = set(_WORD.findall(before[1]["content"]))
        seen = {word for message in before if message["role"] == "tool" for word in _WORD.findall(message["content"])}
        assert not answer.get("tool_calls")
        assert (set(_WORD.findall(answer["content"])) & seen) - task, line["task"]


def test_what_is_needed_lies_at_all_distances() -> None:
    needed: Counter[int] = Counter()
    needless = jointly = 0
    for line in corpus()[:20]:
        for decision in decisions(line, at_least_older=3):
            blocks = decision.older_blocks
            free = [block for block in blocks if decision.next_without(block) == decision.next_output]
            needed.update(decision.distance(block) for block in blocks if block not in free)
            needless += len(free)
            jointly += sum(decision.next_without(*pair) != decision.next_output for pair in combinations(free, 2))
    assert sum(count for distance, count in needed.items() if distance <= 4) >= 10
    assert sum(count for distance, count in needed.items() if distance >= 5) >= 10
    assert needless > sum(needed.values()), "most of a history is never needed again"
    assert jointly >= 10, "some facts stand in two Blocks: either may go, not both"


def test_instances_of_a_family_are_no_near_duplicates() -> None:
    of_family = defaultdict(list)
    for line in corpus():
        trajectory = Trajectory(line["id"], "openai", line["request"], READER)
        of_family[line["task"].rsplit("/", 1)[0]].append(shingles(text_of(trajectory)))
    for family, found in of_family.items():
        assert max(jaccard(first, second) for first, second in combinations(found, 2)) < 0.6, family


@pytest.mark.parametrize("number", [0, 5, 11, 14, 18, 21, 27, 33, 40, 47])
def test_the_committed_file_is_what_recording_gives(number: int) -> None:
    task = corpus_tasks()[number]
    assert to_line(record(task, number)) == read_lines(samples.CORPUS)[number]


def test_recording_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl.gz"
    written = write_corpus(record_corpus(seed=5, count=4), first)
    assert write_corpus(record_corpus(seed=5, count=4), second) == written
    assert first.read_bytes() == second.read_bytes()
    data = b"".join(line + b"\n" for line in read_lines(first))
    assert (written.trajectories, written.bytes) == (4, len(data))
    assert written.sha256 == hashlib.sha256(data).hexdigest()


def test_another_seed_is_another_corpus() -> None:
    (one,), (other,) = record_corpus(seed=5, count=1), record_corpus(seed=6, count=1)
    assert one.task != other.task
    assert one.request["messages"][1] != other.request["messages"][1]


def test_comparing_finds_the_first_difference(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    recorded = list(record_corpus(seed=5, count=3))
    write_corpus(recorded, path)
    assert compare_corpus(recorded, path) is None
    changed = compare_corpus([recorded[0], recorded[2]], path)
    assert changed is not None
    assert (changed.line, changed.recorded) == (2, to_line(recorded[2]).decode())
    shorter = compare_corpus(recorded[:2], path)
    assert shorter is not None
    assert (shorter.line, shorter.recorded) == (3, None)
    longer = compare_corpus([*recorded, recorded[0]], path)
    assert longer is not None
    assert (longer.line, longer.committed) == (4, None)


def test_a_file_that_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_lines(tmp_path / "absent.gz")
    (tmp_path / "text.gz").write_text("not gzip")
    with pytest.raises(InputError, match="not a gzipped corpus"):
        read_lines(tmp_path / "text.gz")
    (tmp_path / "cut.gz").write_bytes(samples.CORPUS.read_bytes()[:1_000])
    with pytest.raises(InputError, match="not a gzipped corpus"):
        read_lines(tmp_path / "cut.gz")


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_corpus([], tmp_path / "absent" / "corpus.jsonl.gz")
    assert list(tmp_path.iterdir()) == []


def test_the_bundled_request_is_rewritten_with_the_corpus(tmp_path: Path) -> None:
    write_sample(samples.CORPUS, tmp_path / "request.json", tmp_path / "next_output.json")
    assert (tmp_path / "request.json").read_bytes() == samples.REQUEST.read_bytes()
    assert (tmp_path / "next_output.json").read_bytes() == samples.NEXT_OUTPUT.read_bytes()


def test_the_bundled_request_is_a_decision_of_the_corpus() -> None:
    request, output = json.loads(samples.REQUEST.read_text()), json.loads(samples.NEXT_OUTPUT.read_text())
    length = len(request["messages"])
    (line,) = [line for line in corpus() if line["request"]["messages"][:length] == request["messages"]]
    assert line["request"]["messages"][length] == output
    assert line["request"]["tools"] == request["tools"]
    *_, decision = (found for found in decisions(line, 4) if found.next_output == output)
    needed = [block for block in decision.older_blocks if decision.next_without(block) != output]
    assert needed
    assert len(needed) < len(decision.older_blocks)
