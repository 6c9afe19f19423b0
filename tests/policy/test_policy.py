"""A frozen policy: its folder, what it refuses at load, and what `prune` gives for good and bad requests."""

from __future__ import annotations

import copy
import json
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drsr import load_policy
from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.candidates import IneligibleReason
from drsr.decide.decision import Reason
from drsr.decide.numbers import PolicyNumbers
from drsr.decide.selection import AbstentionReason
from drsr.errors import BackboneNotFetched, DrsrError, InputError, PolicyCorrupt, PolicyMismatch
from drsr.offline import samples
from drsr.policy.answer import Decision
from drsr.policy.folder import MANIFEST_FILE, manifest_bytes, read_policy
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.history import Block
from drsr.request.request import Request, read_request
from drsr.scorer.scripted import ScriptedScorer
from drsr.sessions.prices import Prices
from tests.messages import answers, asks

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scripted_policy().save(tmp_path / "policy", {"card.md": b"a double\n", "golden/one.json": b"{}\n"})
    return tmp_path / "policy"


def test_a_saved_policy_decides_like_the_one_it_was_saved_from(folder: Path) -> None:
    policy, loaded = scripted_policy(), load_policy(folder)
    assert loaded.identity == policy.identity
    assert loaded.numbers == policy.numbers
    one, other = policy.prune(request=BODY, session=None), loaded.prune(request=BODY, session=None)
    assert one.pruned
    assert one.request == other.request
    differ = {"id", "time", "milliseconds"}
    assert {key: value for key, value in one.receipt.items() if key not in differ} == {
        key: value for key, value in other.receipt.items() if key not in differ
    }


def test_saving_gives_the_same_bytes_and_never_writes_over(folder: Path, tmp_path: Path) -> None:
    load_policy(folder).save(tmp_path / "again", {"card.md": b"a double\n", "golden/one.json": b"{}\n"})
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    with pytest.raises(InputError, match="is not empty"):
        scripted_policy().save(folder)
    with pytest.raises(InputError, match="cannot be the name"):
        scripted_policy().save(tmp_path / "third", {"../outside": b""})
    with pytest.raises(InputError, match="no weights to save"):
        scripted_policy(scorer=ScriptedScorer(scripted_policy().numbers.layout_hash)).save(tmp_path / "fourth")


def test_every_flipped_byte_is_a_named_error(folder: Path) -> None:
    """Every byte of the small files, and many of the large one."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert len(paths) == 5
    for path in paths:
        data = path.read_bytes()
        for place in range(0, len(data), max(1, len(data) // 400)):
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            with pytest.raises(PolicyCorrupt) as caught:
                read_policy(folder)
            assert str(folder) in str(caught.value)
        path.write_bytes(data)
    read_policy(folder)


def test_a_missing_or_shortened_file_is_a_named_error(folder: Path) -> None:
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        with pytest.raises(PolicyCorrupt):
            read_policy(folder)
        path.unlink()
        with pytest.raises(PolicyCorrupt):
            read_policy(folder)
        path.write_bytes(data)
    with pytest.raises(InputError, match="no such folder"):
        load_policy(folder / "nowhere")


def rewritten(folder: Path, **changes: Any) -> None:
    """Change keys of policy.json and make the manifest fit again, as somebody with intent would."""
    values = json.loads((folder / "policy.json").read_text()) | changes
    (folder / "policy.json").write_text(json.dumps(values))
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    contents = {name: (folder / name).read_bytes() for name in names if name != MANIFEST_FILE}
    (folder / MANIFEST_FILE).write_bytes(manifest_bytes(contents))


@pytest.mark.parametrize(
    ("changes", "error", "what"),
    [
        ({"renderer_version": "chatml/0"}, PolicyMismatch, "renderer_version"),
        ({"rule_version": "recent3"}, PolicyMismatch, "rule_version"),
        ({"features_version": "features/0"}, PolicyMismatch, "features_version"),
        ({"recent_steps": 3}, PolicyMismatch, "recent_steps"),
        ({"bins": 5}, PolicyMismatch, "bins"),
        ({"layout_hash": "0" * 64}, PolicyMismatch, "layout"),
        ({"seeds": [1, 2, 3]}, PolicyCorrupt, "members"),
        ({"max_cardinality": 5}, PolicyCorrupt, "max_cardinality must be from 1 to 4"),
        ({"max_cardinality": "3"}, PolicyCorrupt, "max_cardinality must be of type int"),
        ({"removal_cap": 1.5}, PolicyCorrupt, "removal_cap"),
        ({"risk_threshold": None}, PolicyCorrupt, "always_abstains contradicts"),
        ({"risk_threshold": "low"}, PolicyCorrupt, "risk_threshold"),
        ({"colour": "red"}, PolicyCorrupt, "an object with the keys"),
        ({"backbone": {"name": "scripted"}}, PolicyCorrupt, "backbone must be"),
        ({"format": "drsr-policy/2"}, PolicyCorrupt, "format"),
        ({"calibration": []}, PolicyCorrupt, "calibration"),
    ],
)
def test_what_does_not_fit_is_refused_at_load(
    folder: Path, changes: dict[str, Any], error: type[DrsrError], what: str
) -> None:
    rewritten(folder, **changes)
    with pytest.raises(error, match=what):
        load_policy(folder)


def test_a_wrong_or_missing_backbone_is_refused_at_load(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = json.loads((folder / "policy.json").read_text())["backbone"]
    rewritten(folder, backbone={**scripted, "identity": "0" * 64})
    with pytest.raises(PolicyMismatch, match="made with the backbone 000"):
        load_policy(folder)
    with pytest.raises(PolicyMismatch):
        load_policy(folder, backbone=ScriptedBackbone())
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "empty"))
    rewritten(folder, backbone={**scripted, "name": "smollm2-135m"})
    with pytest.raises(BackboneNotFetched, match="drsr backbone fetch smollm2-135m"):
        load_policy(folder)


def test_numbers_come_back_to_the_bit() -> None:
    numbers = replace(scripted_policy().numbers, risk_threshold=0.0740822119017442, uncertainty_coefficient=0.1 + 0.2)
    again = PolicyNumbers.from_json(json.loads(numbers.to_bytes()))
    assert again == numbers
    assert again.risk_threshold == 0.0740822119017442
    assert not again.always_abstains
    never = PolicyNumbers.from_json(replace(numbers, risk_threshold=None).to_json())
    assert never.always_abstains
    assert never.rule.risk_threshold == -math.inf


def test_prune_takes_messages_or_a_request_and_changes_neither() -> None:
    policy = scripted_policy()
    before = copy.deepcopy(BODY)
    whole = policy.prune(request=BODY)
    parts = policy.prune(BODY["messages"], tools=BODY.get("tools"))
    assert before == BODY
    assert whole.pruned
    assert parts.pruned
    assert whole.messages == parts.messages == whole.request["messages"]
    assert len(whole.messages) < len(BODY["messages"])
    assert {key: value for key, value in whole.request.items() if key != "messages"} == {
        key: value for key, value in BODY.items() if key != "messages"
    }
    whole.messages[0]["content"] = "changed by the caller"
    assert before == BODY


def test_what_is_sent_is_counted() -> None:
    decision = scripted_policy().prune(request=BODY)
    again = scripted_policy(risk_threshold=None).prune(request=decision.request)
    assert decision.tokens_before is not None
    assert decision.tokens_after == again.tokens_before == decision.tokens_before - decision.tokens_saved
    assert 0 < decision.tokens_saved <= 0.2 * decision.tokens_before


def test_an_unchanged_request_is_the_callers_own() -> None:
    policy = scripted_policy(risk_threshold=None)
    decision = policy.prune(request=BODY)
    assert decision.request is BODY
    assert (decision.pruned, decision.reason, decision.tokens_saved) == (False, Reason.ALWAYS_ABSTAINS, 0)
    messages = BODY["messages"]
    assert policy.prune(messages).messages is messages


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (7, Reason.UNREADABLE_REQUEST),
        ("text", Reason.UNREADABLE_REQUEST),
        ({}, Reason.UNREADABLE_REQUEST),
        ({"messages": [{"role": "wizard", "content": "x"}]}, Reason.UNREADABLE_REQUEST),
        ({"messages": [{"role": "user", "content": object()}]}, Reason.UNREADABLE_REQUEST),
        ({"messages": [{"role": "user", "content": math.nan}]}, Reason.UNREADABLE_REQUEST),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, Reason.UNREADABLE_REQUEST),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}, Reason.INVALID_PROTOCOL),
        ({"messages": []}, Reason.TOO_FEW_CANDIDATES),
        ([{"role": "user", "content": "hi"}], Reason.TOO_FEW_CANDIDATES),
    ],
)
def test_bad_requests_come_back_with_the_reason(body: Any, reason: Reason) -> None:
    decision = scripted_policy().prune(request=body)
    assert decision.request is body
    assert (decision.pruned, decision.reason) == (False, reason)
    assert decision.detail
    assert reason in decision.explain()
    json.dumps(decision.receipt)


def test_misuse_by_the_programmer_is_said_at_once() -> None:
    policy = scripted_policy()
    with pytest.raises(TypeError, match="either messages or request"):
        policy.prune()
    with pytest.raises(TypeError, match="either messages or request"):
        policy.prune([], request={})
    with pytest.raises(TypeError, match="fields of request"):
        policy.prune(request=BODY, tools=[])
    with pytest.raises(ValueError, match="unknown format"):
        policy.prune([], format="gemini")  # type: ignore[arg-type]


class Boom(RuntimeError):
    """A planted failure whose text holds a secret."""


@pytest.mark.parametrize("place", ["tokenizer", "features", "score", "protect", "rewrite", "check"])
def test_any_failure_returns_the_original_and_names_only_its_class(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()

    def fail(*_: Any, **__: Any) -> Any:
        raise Boom("the password is tomato")

    protect = fail if place == "protect" else None
    targets = {"features": policy.frozen.representation, "score": policy.frozen.scorer}
    if place in targets:
        kind = type(targets[place])
        monkeypatch.setattr(kind, place, fail)
    elif place != "protect":
        names = {"tokenizer": "render", "rewrite": "rewrite", "check": "check_all"}
        monkeypatch.setattr(f"drsr.decide.decision.{names[place]}", fail)
    decision = policy.prune(request=BODY, protect=protect)
    assert decision.request is BODY
    assert decision.reason is Reason.INTERNAL_FAILURE
    assert "Boom" in decision.detail
    assert isinstance(decision.error, Boom)
    for shown in (decision.detail, json.dumps(decision.receipt), decision.explain(), repr(decision)):
        assert "tomato" not in shown


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_interruptions_are_not_swallowed(interruption: type[BaseException]) -> None:
    def stop(*_: Any) -> bool:
        raise interruption

    with pytest.raises(interruption):
        scripted_policy().prune(request=BODY, protect=stop)


def test_protect_pins_whatever_it_says() -> None:
    policy = scripted_policy()
    removed = {row["block"] for row in policy.prune(request=BODY).receipt["removed"]}
    assert removed
    asked: list[Block] = []

    def protect(block: Block, request: Request) -> bool:
        asked.append(block)
        assert request == read_request(BODY)
        return block.name in removed

    decision = policy.prune(request=BODY, protect=protect)
    assert asked
    assert not removed & {row["block"] for row in decision.receipt["candidates"]}
    everything = policy.prune(request=BODY, protect=lambda *_: True)
    assert everything.reason is Reason.TOO_FEW_CANDIDATES


def test_the_format_can_be_said() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(8):
        text = f"step {number} says a few words that nobody needs later on"
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "on"}]
    policy = scripted_policy()
    assert policy.prune(messages).receipt["protocol"] == "openai"
    assert policy.prune(messages, format="anthropic").receipt["protocol"] == "anthropic"
    assert policy.prune(messages, system="s").receipt["protocol"] == "anthropic"
    tool = [*messages, asks("a"), answers("a")]
    assert policy.prune(tool, format="anthropic").reason is Reason.UNREADABLE_REQUEST


def test_reasons_cover_what_the_core_says() -> None:
    assert {str(reason) for reason in IneligibleReason} <= {str(reason) for reason in Reason}
    assert {str(reason) for reason in AbstentionReason} <= {str(reason) for reason in Reason}


def test_decisions_are_the_same_to_the_bit_from_many_threads() -> None:
    policy = scripted_policy(risk_threshold=0.5085)
    expected = policy.prune(request=BODY, session=None).receipt
    seen: list[Decision] = []
    threads = [threading.Thread(target=lambda: seen.append(policy.prune(request=BODY, session=None))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    for decision in seen:
        assert decision.receipt["sets"] == expected["sets"]
        assert decision.receipt["hashes"] == expected["hashes"]
    assert len({decision.id for decision in seen}) == 8


def test_parts_that_do_not_belong_together_are_refused() -> None:
    policy = scripted_policy()
    with pytest.raises(PolicyMismatch, match="feature layouts differ"):
        Policy(policy.numbers, ScriptedScorer("another layout"), policy.frozen.representation)


def test_an_always_abstaining_policy_runs_no_model() -> None:
    policy = scripted_policy(risk_threshold=None)
    policy.prune(request=BODY)
    assert policy.frozen.representation.passes == 0  # type: ignore[attr-defined]


def held_back(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the policy's representation read only once the event is set."""
    representation, may_read = policy.frozen.representation, threading.Event()
    plain = representation.features

    def features(state: Any, give_up: Any = None) -> Any:
        assert may_read.wait(60)
        return plain(state)

    monkeypatch.setattr(representation, "features", features)
    return may_read


def test_behind_its_deadline_a_request_comes_back_and_is_read_for_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = scripted_policy()
    expected = scripted_policy().prune(request=BODY, session=None)
    may_read = held_back(policy, monkeypatch)
    late = policy.prune(request=BODY, deadline_ms=20, session=None)
    assert late.request is BODY
    assert (late.pruned, late.reason, late.tokens_saved) == (False, Reason.DEADLINE_EXCEEDED, 0)
    assert "next request of this run" in late.explain()
    again = policy.prune(request=BODY, deadline_ms=60_000, session=None)  # nobody waits twice
    assert again.reason is Reason.DEADLINE_EXCEEDED
    may_read.set()
    assert policy.reader.wait(60)
    served = policy.prune(request=BODY, deadline_ms=20, session=None)
    assert served.pruned
    assert served.request == expected.request
    assert all(served.receipt["invariants"].values())
    assert served.receipt["passes"] == 1


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "300", True])
def test_a_deadline_that_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="deadline_ms must be"):
        scripted_policy().prune(request=BODY, deadline_ms=wrong)


def test_with_a_deadline_bad_requests_and_failures_get_their_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()
    assert policy.prune(request={"messages": 5}, deadline_ms=50).reason is Reason.UNREADABLE_REQUEST

    def fails(state: Any, give_up: Any = None) -> Any:
        raise OSError("disk")

    monkeypatch.setattr(policy.frozen.representation, "features", fails)
    decision = policy.prune(request=BODY, deadline_ms=60_000)
    assert decision.request is BODY
    assert (decision.reason, type(decision.error)) == (Reason.INTERNAL_FAILURE, OSError)


def test_what_was_read_ahead_is_there_for_the_decision() -> None:
    policy = scripted_policy()
    assert policy.read_ahead(request=BODY)
    assert policy.reader.wait(60)
    assert policy.frozen.representation.passes == 1  # type: ignore[attr-defined]
    decision = policy.prune(request=BODY, deadline_ms=60_000)
    assert decision.pruned
    assert policy.frozen.representation.passes == 1  # type: ignore[attr-defined]
    session = policy.session(Prices(3, 3, 3, 15), 9)
    assert session.read_ahead(request=BODY)
    nothings: list[Any] = [{"messages": []}, {"messages": 5}, None, {"messages": BODY["messages"][:3]}]
    for nothing in nothings:
        assert not policy.read_ahead(request=nothing)
        assert not session.read_ahead(request=nothing)
    assert not scripted_policy(risk_threshold=None).read_ahead(request=BODY)
