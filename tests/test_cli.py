"""The `drsr` command as a person meets it: what it prints, its exit codes, and one wrong input through every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline import samples

SAMPLE = str(samples.REQUEST)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(tmp_path: Path, body: Any) -> str:
    path = tmp_path / "request.json"
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(path)


def test_inspect_shows_blocks_candidates_and_sets(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, "inspect", SAMPLE)
    assert (code, err) == (0, "")
    assert "never touched" in out
    assert "candidate 1" in out
    assert "Recent2" in out
    assert "14 deletion sets" in out


def test_a_file_name_cannot_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, "inspect", "\x1b[2Jx.json")
    assert (code, err) == (2, "drsr: ?[2Jx.json: cannot be read: No such file or directory\n")


def test_inspect_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "inspect", SAMPLE, "--json")
    seen = json.loads(out)
    assert code == 0
    assert seen["eligible"] is True
    assert len(seen["candidates"]) == 4
    assert len(seen["deletion_sets"]) == 14
    singles = {tuple(row["members"]): row["direct_saving"] for row in seen["deletion_sets"] if len(row["members"]) == 1}
    assert [singles[(number,)] for number in range(4)] == [row["direct_saving"] for row in seen["candidates"]]
    assert all(row["share"] == row["direct_saving"] / seen["tokens"] for row in seen["deletion_sets"])


def test_inspect_says_why_a_request_is_not_eligible(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = written(tmp_path, {"messages": [{"role": "user", "content": "hello"}]})
    code, out, _ = printed(capsys, "inspect", path)
    assert code == 0
    assert "not eligible: too_few_candidates" in out
    dangling = written(tmp_path, [{"role": "tool", "tool_call_id": "x", "content": "?"}])
    code, out, _ = printed(capsys, "inspect", dangling)
    assert code == 0
    assert "violation: result_without_call at message 0 (x)" in out
    assert "not eligible: invalid_protocol" in out


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"", "not JSON"),
        (b'{"messages": [NaN]}', "NaN is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"7", "no list of messages"),
        ({"prompt": "x"}, "no list of messages"),
        ({"messages": [{"role": "user", "content": "x"}, 7]}, "message 1: a int, not an object"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "message 0: unknown role 'wizard'"),
        ({"messages": [{"role": "user"}]}, "message 0: no content"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "message 0: a lone surrogate"),
        ({"messages": [{"role": "assistant", "tool_calls": 7}]}, "message 0: tool_calls is a int"),
        ({"system": "s", "messages": [{"role": "tool", "tool_call_id": "x", "content": ""}]}, "mixes two protocols"),
    ],
)
def test_bad_input_is_a_named_error_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: Any, complaint: str
) -> None:
    code, out, err = printed(capsys, "inspect", written(tmp_path, body))
    assert (code, out) == (2, "")
    assert complaint in err
    assert "request.json" in err
    assert "Traceback" not in err


def test_a_missing_file_and_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path):
        code, _, err = printed(capsys, "inspect", str(path))
        assert code == 2
        assert "cannot be read" in err


def test_unknown_backbone_and_unknown_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = printed(capsys, "inspect", SAMPLE, "--backbone", "gpt-17")
    assert code == 2
    assert "known names" in err
    (tmp_path / "drsr.toml").write_text('colour = "red"')
    code, _, err = printed(capsys, "inspect", SAMPLE)
    assert code == 2
    assert "unknown key 'colour'" in err


def test_excerpts_cannot_move_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(6):
        messages += [{"role": "assistant", "content": "\x1b[2J\x07 wiped \x00"}, {"role": "user", "content": "on"}]
    code, out, _ = printed(capsys, "inspect", written(tmp_path, messages))
    assert code == 0
    assert "\x1b" not in out
    assert "?[2J" in out


def test_ids_cannot_move_the_terminal_either(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "tool", "tool_call_id": "\x1b[2J\nfake" + "x" * 999, "content": ""},
    ]
    code, out, _ = printed(capsys, "inspect", written(tmp_path, messages))
    assert code == 0
    assert "\x1b" not in out
    assert "\nfake" not in out
    assert len(out) < 1_000


def test_what_the_tokenizer_cannot_represent_is_a_reason_with_its_message(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The embedded model's vocabulary has no piece for the byte 0x04, which terminal output can hold."""
    path = written(tmp_path, [{"role": "user", "content": "go"}, {"role": "assistant", "content": "end \x04"}])
    code, out, _ = printed(capsys, "inspect", path, "--backbone", "smollm2-135m")
    assert code == 0
    assert "tokens unknown" in out
    assert "not eligible: alignment_failure: message 1: the tokenizer has no piece for the byte 0x04" in out
    code, out, _ = printed(capsys, "inspect", path, "--backbone", "smollm2-135m", "--json")
    assert json.loads(out)["ineligible"]["reason"] == "alignment_failure"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"tools": 7, "messages": []}, "field 'tools': a int, not a list"),
        (
            {"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]},
            "message 0: a user message with tool calls",
        ),
        ({"messages": [{"role": "assistant", "refusal": 7}]}, "message 0: refusal is a int"),
        ({"messages": [{"role": "user", "content": "x", "name": [1]}]}, "message 0: name is a list"),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": 7}]}
                ]
            },
            "message 0: content block 0 (tool_use) has no input object",
        ),
    ],
)
def test_wrong_types_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, body: Any, complaint: str) -> None:
    code, _, err = printed(capsys, "inspect", written(tmp_path, body))
    assert code == 2
    assert complaint in err


def test_the_two_offline_doors_that_need_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, "harm", SAMPLE)
    assert code == 2
    assert "a request needs its next output" in err


def test_harm_of_the_bundled_request(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "harm", "--json")
    seen = json.loads(out)
    assert code == 0
    assert len(seen["sets"]) == 15
    assert all(row["harm"] == pytest.approx(row["nll"] - seen["intact_nll"]) for row in seen["sets"])
    code, out, _ = printed(capsys, "harm")
    assert code == 0
    assert "its mean NLL per token with the whole history" in out


def test_a_fault_of_our_own_is_said_to_be_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("drsr.decide.inspection.inspect", broken)
    code, _, err = printed(capsys, "inspect", SAMPLE)
    assert code == 3
    assert "internal error: ZeroDivisionError: planted" in err
    for arguments in (["--debug", "inspect", SAMPLE], ["inspect", SAMPLE, "--debug"]):
        with pytest.raises(ZeroDivisionError):
            main(arguments)


def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--no-such-option"], ["inspect"], ["no-such-command"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
    assert "usage: drsr" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--skip-training-below", "-3%"], "--skip-training-below must be at least 1, not -3%"),
        (
            ["serve", "--upstream", "http://a", "--prices", "-3,1,2,4"],
            "the price setting input must be a number from 0",
        ),
        (["serve", "--upstream", "http://a", "--prices", "-.5"], "-.5: "),
    ],
)
def test_a_value_that_begins_with_a_minus_is_judged_as_a_value(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it stood behind an equals sign; argparse misses one."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"drsr: {said}")
