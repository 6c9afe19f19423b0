"""Receipts: complete, without text unless asked for, readable, and enough to restore a request."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import ReceiptError
from drsr.offline import samples
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.receipts.receipt import diff, explain, request_hash, restore, shared_runs
from drsr.receipts.receipt_file import ReceiptFile
from drsr.request.history import delete, read_history
from drsr.request.request import Request, read_request
from tests.messages import USER, answers, asks
from tests.strategies import arbitrary, valid

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def decided() -> Decision:
    return scripted_policy().prune(request=BODY)


def test_a_receipt_says_everything_about_the_decision() -> None:
    decision = decided()
    record = json.loads(json.dumps(decision.receipt))
    assert record == decision.receipt
    assert record["id"] == decision.id
    policy = decision.policy
    assert record["policy"]["version"] == policy.version
    assert record["policy"]["identity"] == policy.identity
    assert record["policy"]["layout_hash"] == policy.numbers.layout_hash
    assert record["policy"]["backbone_identity"] == policy.numbers.backbone.identity
    assert record["tokens"] == {
        "before": decision.tokens_before,
        "after": decision.tokens_after,
        "saved": decision.tokens_saved,
    }
    assert record["hashes"]["before"] == request_hash(read_request(BODY))
    assert record["hashes"]["after"] == request_hash(read_request(decision.request))
    assert record["messages"] == {"before": len(BODY["messages"]), "after": len(decision.messages)}
    assert len(record["invariants"]) == 8
    assert all(record["invariants"].values())
    assert len(record["sets"]) == 14
    assert [row["verdict"] for row in record["sets"]].count("chosen") == 1


@given(request=st.one_of(valid, arbitrary))
def test_the_hash_is_of_the_json_with_sorted_keys(request: Request) -> None:
    """Put together message by message, so that a rewrite's need not be written again."""
    wire = request.to_wire()
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert request_hash(request) == hashlib.sha256(text.encode()).hexdigest()
    shorter = request.with_messages(request.messages[:1] + request.messages[2:4] + request.messages[5:])
    runs = shared_runs(request, shorter)
    assert request_hash(shorter, runs) == request_hash(shorter)
    assert request_hash(request, runs) == request_hash(request)
    other = read_request(wire, protocol=request.protocol)  # equal, but not the same objects
    assert request_hash(other, runs) == request_hash(request)


def test_the_removed_blocks_are_those_that_are_missing() -> None:
    decision = decided()
    history = read_history(read_request(BODY))
    blocks = {block.name: block for step in history.steps for block in step.blocks}
    names = [row["block"] for row in decision.receipt["removed"]]
    assert delete(history, [blocks[name] for name in names]).request.to_wire() == decision.request
    for row in decision.receipt["removed"]:
        assert row["messages"] == sorted({ref.message for ref in blocks[row["block"]].parts})


def words() -> list[dict[str, Any]]:
    """A run in which every text, name and id is a word that occurs nowhere else."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "zebra-task"}]
    for number in range(8):
        messages.append(asks(f"zebra-id-{number}", text=f"zebra-said-{number}", arguments='{"zebra-argument": 1}'))
        messages.append(answers(f"zebra-id-{number}", f"zebra-result-{number} " * 9))
    return messages


@pytest.mark.parametrize(
    "messages",
    [
        words(),
        [USER],
        [*words(), {"role": "tool", "tool_call_id": "zebra", "content": "zebra"}],
        [*words(), asks("zebra", text="zebra"), USER, *words()],
        [{"role": "zebra"}],
        [{"role": "user", "content": [{"type": "zebra"}, {"type": "text", "zebra": 1}]}],
        [USER, {"role": "assistant", "tool_calls": {"zebra": 1}}],
        {"zebra": "zebra"},
        "zebra",
    ],
)
def test_no_text_of_the_request_is_in_a_receipt_unless_asked_for(messages: Any, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "zebra-tool"}}]
    receipts = tmp_path / "receipts.jsonl"
    decision = scripted_policy(receipts=ReceiptFile(receipts)).prune(messages, tools=tools)
    for shown in (json.dumps(decision.receipt), decision.detail, decision.explain(), receipts.read_text()):
        assert "zebra" not in shown
    assert json.dumps(decision.receipt_with_text()).count("zebra-tool") == 2


def test_a_field_that_cannot_be_read_is_not_named_either() -> None:
    """Its name is text of the request, too; the decision's error names it, for whoever debugs."""
    decision = scripted_policy().prune(request={"messages": [USER], "zebra": object()})
    assert decision.detail == "the request cannot be read; the decision's error says why"
    assert "zebra" not in json.dumps(decision.receipt)
    assert "zebra" in str(decision.error)


def test_restore_gives_back_what_was_handed_in() -> None:
    record = json.loads(json.dumps(decided().receipt_with_text()))
    assert restore(record) == BODY
    unreadable = json.loads(json.dumps(scripted_policy().prune(request={"messages": 7}).receipt_with_text()))
    assert restore(unreadable) == {"messages": 7}
    plain = scripted_policy().prune([USER], format="anthropic").receipt_with_text()
    assert restore(plain) == {"messages": [USER]}


def test_restore_refuses_what_it_cannot_give() -> None:
    with pytest.raises(ReceiptError, match="holds no text"):
        restore(decided().receipt)
    record = json.loads(json.dumps(decided().receipt_with_text()))
    record["text"]["before"]["messages"][1]["content"] = "changed"
    with pytest.raises(ReceiptError, match="another request's"):
        restore(record)


def test_diff_shows_what_was_removed_and_nothing_that_was_added() -> None:
    decision = decided()
    lines = diff(decision.receipt_with_text())
    assert [line for line in lines if line.startswith("-") and not line.startswith("---")]
    assert not [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    removed = [row["block"] for row in decision.receipt["removed"]]
    short = diff(decision.receipt)
    assert all(any(name in line for line in short) for name in removed)
    unchanged = scripted_policy(risk_threshold=None).prune(request=BODY)
    assert diff(unchanged.receipt) == [f"decision {unchanged.id} changed nothing: always_abstains"]


def test_a_diff_cannot_move_the_terminal() -> None:
    messages = words()
    for message in messages[1:]:
        message["content"] = f"{message['content']}\x1b[2J\u202e\x9b"
    decision = scripted_policy().prune(messages)
    assert decision.pruned
    assert all(line.isprintable() for line in diff(decision.receipt_with_text()))


def test_every_row_of_an_explanation() -> None:
    decision = decided()
    text = explain(decision.receipt)
    assert text == decision.explain()
    for row in decision.receipt["sets"]:
        names = [decision.receipt["candidates"][member]["block"] for member in row["members"]]
        (line,) = [line for line in text.splitlines() if line.strip().startswith("{" + ", ".join(names) + "} ")]
        assert f"{row['direct_saving']:,}" in line
        assert f"{row['unsafe_score']:.4f}" in line
        assert f"{row['predicted_harm']:.4f}" in line
    assert text.count("CHOSEN") == 1


def test_an_explanation_of_abstention_says_why_for_every_set() -> None:
    decision = scripted_policy(risk_threshold=0.1).prune(request=BODY)
    text, tokens, sets = decision.explain(), decision.receipt["tokens"]["before"], decision.receipt["sets"]
    over_cap = sum(row["direct_saving"] > 0.2 * tokens for row in sets)
    assert f"unchanged ({tokens:,} tokens): over_risk_threshold" in text
    assert text.count("removes more than 20% of the request") == over_cap
    assert text.count("unsafe score above 0.1000") == len(sets) - over_cap > 0
