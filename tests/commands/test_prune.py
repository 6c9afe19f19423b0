"""`drsr prune` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline import samples
from drsr.policy.scripted import scripted_policy
from drsr.receipts import receipt_file

SAMPLE = str(samples.REQUEST)
BODY = json.loads(samples.REQUEST.read_text())


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    scripted_policy().save(tmp_path / "policy")
    return str(tmp_path / "policy")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(tmp_path: Path, body: Any) -> str:
    path = tmp_path / "request.json"
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(path)


def test_it_prints_the_rewritten_request(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    code, out, err = printed(capsys, "prune", SAMPLE, "--policy", policy)
    assert (code, err) == (0, "")
    assert json.loads(out) == scripted_policy().prune(request=BODY).request
    assert len(json.loads(out)["messages"]) < len(BODY["messages"])


def test_explain_goes_to_standard_error(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    code, out, err = printed(capsys, "prune", SAMPLE, "--policy", policy, "--explain")
    assert code == 0
    json.loads(out)
    assert "14 sets of 4 candidates" in err
    assert err.count("CHOSEN") == 1


def test_json_has_request_and_receipt(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    code, out, _ = printed(capsys, "prune", SAMPLE, "--policy", policy, "--json")
    seen = json.loads(out)
    assert code == 0
    assert seen["receipt"]["tokens"]["saved"] > 0
    assert seen["request"] == scripted_policy().prune(request=BODY).request


@pytest.mark.parametrize(
    "data",
    [
        b'{"messages":   [{"role":"user", "content":"\xc3\xa9"}]}\n\n',
        b'{"messages": [{"role": "wizard", "content": "x"}]}',
        b'{"messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}]}',
        b"7",
        b'{"prompt": "x"}',
    ],
)
def test_what_cannot_be_pruned_is_printed_byte_for_byte_with_the_reason(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, policy: str, data: bytes
) -> None:
    code = main(["prune", written(tmp_path, data), "--policy", policy])
    captured = capsysbinary.readouterr()
    assert code == 0
    assert captured.out == data
    assert captured.err.startswith(b"drsr: unchanged: ")
    assert b"Traceback" not in captured.err


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"messages": [NaN]}', "NaN is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_a_named_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str, data: bytes, complaint: str
) -> None:
    code, out, err = printed(capsys, "prune", written(tmp_path, data), "--policy", policy)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "request.json" in err


def test_a_missing_request_or_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str) -> None:
    for arguments, complaint in (
        (["prune", "nowhere.json", "--policy", policy], "cannot be read"),
        (["prune", SAMPLE, "--policy", str(tmp_path / "nowhere")], "no such folder"),
        (["prune", SAMPLE, "--policy", str(tmp_path)], "holds no policy"),
        (["prune", "--policy", policy], "no request"),
        (["prune", SAMPLE, "--policy", policy, "--protect", "everything"], "is not a rule for what to protect"),
    ):
        code, out, err = printed(capsys, *arguments)
        assert (code, out) == (2, "")
        assert complaint in err


def test_protect_rules(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    _, out, _ = printed(capsys, "prune", SAMPLE, "--policy", policy, "--json")
    first = json.loads(out)["receipt"]["removed"][0]["block"]
    _, out, _ = printed(capsys, "prune", SAMPLE, "--policy", policy, "--json", "--protect", first)
    assert first not in [row["block"] for row in json.loads(out)["receipt"]["candidates"]]


def test_receipts_and_what_can_be_asked_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str
) -> None:
    printed(capsys, "prune", SAMPLE, "--policy", policy, "--receipts", "receipts.jsonl", "--keep-text")
    printed(capsys, "prune", SAMPLE, "--policy", policy, "--receipts", "receipts.jsonl")
    with_text, without = (json.loads(line)["id"] for line in (tmp_path / "receipts.jsonl").read_text().splitlines())
    for decision in (with_text, without):
        code, out, _ = printed(capsys, "explain", decision)
        assert code == 0
        assert "CHOSEN" in out
        assert decision in out
    code, out, _ = printed(capsys, "restore", with_text)
    assert code == 0
    assert json.loads(out) == BODY
    code, out, _ = printed(capsys, "diff", with_text)
    assert code == 0
    assert out.startswith("--- before\n+++ after\n")
    assert not [line for line in out.splitlines()[2:] if line.startswith("+")], "nothing may be added"
    code, out, _ = printed(capsys, "diff", without)
    assert code == 0
    assert "the text was not kept" in out
    code, out, err = printed(capsys, "restore", without)
    assert (code, out) == (2, "")
    assert "holds no text" in err
    code, _, err = printed(capsys, "explain", "zzzz")
    assert code == 2
    assert "no decision 'zzzz'" in err
    code, _, err = printed(capsys, "explain", "a", "--receipts", "elsewhere.jsonl")
    assert code == 2
    assert "--receipts" in err
    code, out, _ = printed(capsys, "explain", without, "--json")
    assert json.loads(out)["id"] == without
    code, out, _ = printed(capsys, "diff", with_text, "--json")
    assert json.loads(out)["removed"]


def test_a_fault_of_our_own_still_prints_the_request(
    capsysbinary: pytest.CaptureFixture[bytes], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("drsr.policy.policy.decide", fail)
    code = main(["prune", SAMPLE, "--policy", policy])
    captured = capsysbinary.readouterr()
    assert code == 3
    assert captured.out == Path(SAMPLE).read_bytes()
    assert b"internal_failure: ZeroDivisionError" in captured.err


def test_a_damaged_policy_is_refused(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    path = Path(policy) / "scorer.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, out, err = printed(capsys, "prune", SAMPLE, "--policy", policy)
    assert (code, out) == (2, "")
    assert "scorer.safetensors" in err


def test_an_unreadable_request_says_why_also_with_explain(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str
) -> None:
    path = written(tmp_path, {"messages": [{"role": "wizard", "content": "x"}]})
    told = [printed(capsys, "prune", path, "--policy", policy, *more)[2] for more in ([], ["--explain"])]
    assert "'wizard'" in told[0]
    assert told[1].endswith(told[0])


@pytest.mark.parametrize("place", ["file/receipts.jsonl", "."])
def test_receipts_that_cannot_be_written_are_noticed_before_deciding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str, place: str
) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = printed(capsys, "prune", SAMPLE, "--policy", policy, "--receipts", place)
    assert (code, out) == (2, "")
    assert "receipts cannot be written there" in err


def test_a_disk_that_becomes_full_does_not_lose_the_request(
    capsys: pytest.CaptureFixture[str], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(receipt_file, "append_line", full)
    code, out, err = printed(capsys, "prune", SAMPLE, "--policy", policy, "--receipts", "receipts.jsonl")
    assert code == 3
    assert json.loads(out) == scripted_policy().prune(request=BODY).request
    assert "the receipt was not kept: No space left on device [receipts.jsonl]" in err


def test_without_a_policy_the_installed_one_decides(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = printed(capsys, "prune", SAMPLE)
    assert code == 2
    assert "no policy is installed" in err
    scripted_policy().save(tmp_path / "site" / "drsr_policy")
    monkeypatch.syspath_prepend(tmp_path / "site")
    code, out, _ = printed(capsys, "prune", SAMPLE)
    assert code == 0
    assert json.loads(out) == scripted_policy().prune(request=BODY).request
