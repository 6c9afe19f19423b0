"""Receipts in a file: whole lines from many processes, nothing lost, and faults that do not reach the agent."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import ReceiptError
from drsr.offline import samples
from drsr.policy.scripted import scripted_policy
from drsr.receipts.receipt_file import ReceiptFile, append_line, find_receipt, read_receipts

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def write_many(path: Path, number: int) -> None:
    policy = scripted_policy(receipts=ReceiptFile(path, keep_text=True))
    for _ in range(20):
        policy.prune(request={**BODY, "metadata": {"writer": str(number), "filler": "x" * 50_000}})


def test_lines_of_several_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "receipts.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(path, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    records = list(read_receipts(path))
    assert len(records) == len({record["id"] for record in records}) == 60
    by_writer = [record["text"]["before"]["metadata"]["writer"] for record in records]
    assert sorted(by_writer) == sorted("012" * 20)


def test_every_decision_is_written_once_with_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    policy = scripted_policy(receipts=ReceiptFile(path))
    decisions = [policy.prune(request=BODY), policy.prune([]), policy.prune(request=7)]
    assert [record["id"] for record in read_receipts(path)] == [decision.id for decision in decisions]
    assert [record["reason"] for record in read_receipts(path)] == [None, "too_few_candidates", "unreadable_request"]
    assert all("text" not in record for record in read_receipts(path))
    assert find_receipt(path, decisions[1].id[:9])["id"] == decisions[1].id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_not_json_is_said_not_to_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    policy = scripted_policy(receipts=ReceiptFile(path, keep_text=True))
    for body in ({"messages": object()}, {"messages": float("nan")}, {"messages": ["\ud800"]}):
        policy.prune(request=body)
    records = list(read_receipts(path))
    assert [record["text_not_kept"] for record in records] == ["TypeError", "ValueError", "UnicodeEncodeError"]
    assert all("text" not in record for record in records)


def test_a_callback_is_told_of_every_decision() -> None:
    told: list[Any] = []
    policy = scripted_policy(receipts=told.append)
    decision = policy.prune(request=BODY)
    policy.prune([])
    assert told[0] is decision
    assert len(told) == 2


def test_a_receipt_that_cannot_be_kept_does_not_stop_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    policy = scripted_policy(receipts=ReceiptFile(tmp_path / "file" / "receipts.jsonl"))
    with caplog.at_level(logging.WARNING, "drsr"):
        decision = policy.prune(request=BODY)
    assert decision.pruned
    assert f"the receipt of decision {decision.id} was not kept" in caplog.text


def test_a_failed_write_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "receipts.jsonl"
    append_line(path, b"one")
    write = os.write

    def full_disk(descriptor: int, data: Any) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data[:-3]))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="No space"):
            append_line(path, b"two two two")
    append_line(path, b"three")
    assert path.read_bytes() == b"one\nthree\n"


def test_what_is_no_receipt_is_named(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    for line, what in (("{", "not JSON"), ("7", "not a receipt"), ('{"id": "x"}', "not a receipt")):
        path.write_text(line)
        with pytest.raises(ReceiptError, match=what) as caught:
            find_receipt(path, "x")
        assert f"{path}:1" in str(caught.value)
    with pytest.raises(ReceiptError, match="cannot be read"):
        find_receipt(tmp_path / "nowhere", "x")


def test_an_ambiguous_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    record = scripted_policy().prune(request=BODY).receipt
    for decision in ("ab01", "ab02"):
        append_line(path, json.dumps({**record, "id": decision}).encode())
    with pytest.raises(ReceiptError, match="2 decisions begin with 'ab'"):
        find_receipt(path, "ab")
    assert find_receipt(path, "ab02")["id"] == "ab02"


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX here")
def test_text_is_not_written_where_others_can_read_it(tmp_path: Path) -> None:
    """Neither into a file that was there before nor through a link; without text, both are the user's affair."""
    readable, link = tmp_path / "readable.jsonl", tmp_path / "link.jsonl"
    readable.touch(0o644)
    readable.chmod(0o644)
    link.symlink_to(tmp_path / "elsewhere.jsonl")
    for path in (readable, link):
        with pytest.raises(ReceiptError, match="receipts cannot be written there"):
            ReceiptFile(path, keep_text=True).check_writable()
        ReceiptFile(path).check_writable()
    assert readable.read_bytes() == b""
    kept = tmp_path / "kept.jsonl"
    ReceiptFile(kept, keep_text=True).check_writable()
    assert kept.stat().st_mode & 0o777 == 0o600
