"""`drsr policy show | verify | diff`: what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline.publish.package import build_package
from drsr.policy.location import install_line
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.scorer.ensemble import Ensemble
from tests.policy_wheels import CARD, LINEAGE, golden_of, package_of, versioned, wheel_of


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    return str(wheel_of(versioned("1.0"), tmp_path))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["policy", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_show(capsys: pytest.CaptureFixture[str], wheel: str) -> None:
    code, out, err = printed(capsys, "show", wheel)
    assert (code, err) == (0, "")
    policy = versioned("1.0")
    for text in ("1.0", policy.identity, "scripted", "20% of a request", policy.numbers.layout_hash):
        assert text in out
    assert "golden requests: 4, of which it prunes 1" in out
    assert "trajectories" in out  # the lineage
    code, out, _ = printed(capsys, "show", wheel, "--json")
    shown = json.loads(out)
    assert (code, shown["identity"]) == (0, policy.identity)
    assert shown["numbers"] == policy.to_json()
    assert [item["name"] for item in shown["golden"]] == ["sample", "short", "broken", "no request"]
    assert "scorer.safetensors" in shown["files"]
    assert printed(capsys, "show", wheel, "--card") == (0, CARD, "")


def test_nothing_of_a_policy_moves_the_cursor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A card and the names of golden requests are whatever the policy's maker wrote."""
    policy = versioned("1.0")
    golden = [item._replace(name=f"\x1b[2J{item.name}") for item in golden_of(policy)]
    golden[0] = golden[0]._replace(expected=golden[1].expected)  # so that it differs, and is named
    card = "\x1b[8m# Deploy it\n"
    scorer = policy.frozen.scorer
    assert isinstance(scorer, Ensemble)
    package = build_package(policy.numbers, scorer, golden, LINEAGE, card)
    wheel = tmp_path / package.name.file_name
    wheel.write_bytes(package.data)
    code, out, _ = printed(capsys, "show", str(wheel), "--card")
    assert (code, out) == (0, "?[8m# Deploy it\n")
    code, out, _ = printed(capsys, "verify", str(wheel))
    assert code == 1
    assert "\n  ?[2Jsample: " in out
    for command in (["show", str(wheel)], ["verify", str(wheel)], ["diff", str(wheel), str(wheel)]):
        assert "\x1b" not in printed(capsys, *command)[1]


def test_show_of_a_folder_without_anything_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scripted_policy(risk_threshold=None).save(tmp_path / "policy")
    code, out, _ = printed(capsys, "show", str(tmp_path / "policy"))
    assert code == 0
    assert "none: it abstains always" in out
    assert "golden requests: 0" in out
    code, _, err = printed(capsys, "show", str(tmp_path / "policy"), "--card")
    assert code == 2
    assert "without a model card" in err
    code, _, err = printed(capsys, "verify", str(tmp_path / "policy"))
    assert code == 2
    assert "without golden requests" in err


def test_verify(capsys: pytest.CaptureFixture[str], wheel: str) -> None:
    code, out, err = printed(capsys, "verify", wheel)
    assert (code, err) == (0, "")
    assert "policy 1.0: all 4 golden requests decide as expected\n" in out
    assert "tolerated: 1% of an unsafe score, 0.001 nats per token of a predicted harm" in out
    code, out, _ = printed(capsys, "verify", wheel, "--json")
    assert code == 0
    assert json.loads(out)["passed"] is True


def test_verify_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], wheel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line per request where each takes long; none where all are quick, which `test_verify` sees."""
    monkeypatch.setattr("drsr.commands.policy.QUIET_SECONDS", 0.0)
    code, out, err = printed(capsys, "verify", wheel, "--json")
    assert (code, json.loads(out)["passed"]) == (0, True)
    assert err == "".join(f"drsr: {done} of 4 golden requests are decided\n" for done in range(4))


def test_an_interrupted_verification_goes_on(
    capsys: pytest.CaptureFixture[str], wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, decide, decided = tmp_path / "verified.jsonl", Policy.prune, list[Any]()

    def interrupted(self: Policy, **named: Any) -> Any:
        if len(decided) == 2:
            decided.append("interrupted")
            raise KeyboardInterrupt
        decided.append(named)
        return decide(self, **named)

    _, whole, _ = printed(capsys, "verify", wheel)
    monkeypatch.setattr(Policy, "prune", interrupted)
    code, out, err = printed(capsys, "verify", wheel, "--resume", str(kept))
    assert (code, out) == (130, "")
    assert f"decisions so far are kept in {kept}; run the same command to go on" in err
    with kept.open("a") as file:
        file.write('["cut off in the mid')
    assert printed(capsys, "verify", wheel, "--resume", str(kept))[:2] == (0, whole)
    assert len(decided) == 5  # two, the interruption, and the two that were missing
    other = str(wheel_of(versioned("1.0", seed=7), tmp_path))
    before = len(decided)
    assert printed(capsys, "verify", other, "--resume", str(kept))[0] == 0
    assert len(decided) == before + 4  # another policy's decisions are its own
    kept.write_text("something else\n")
    code, _, err = printed(capsys, "verify", wheel, "--resume", str(kept))
    assert code == 2
    assert "verified.jsonl:1: is not a line with decisions of a verification" in err
    code, _, err = printed(capsys, "verify", wheel, "--resume", str(tmp_path / "nowhere" / "verified.jsonl"))
    assert code == 2
    assert "decisions of a verification cannot be kept there: " in err


def test_verify_of_a_policy_that_decides_otherwise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    package = package_of(versioned("1.0", seed=7), golden_of(scripted_policy()))
    path = tmp_path / package.name.file_name
    path.write_bytes(package.data)
    code, out, _ = printed(capsys, "verify", str(path))
    assert code == 1
    assert "1 of 4 golden requests do not decide as expected" in out
    assert printed(capsys, "verify", str(path), "--json")[0] == 1


def test_diff(capsys: pytest.CaptureFixture[str], wheel: str, tmp_path: Path) -> None:
    newer = str(wheel_of(versioned("1.1", seed=7, removal_cap=0.05), tmp_path))
    code, out, err = printed(capsys, "diff", wheel, newer)
    assert (code, err) == (0, "")
    assert "policy 1.0 -> 1.1" in out
    assert "the scorer's weights are others" in out
    assert "removal_cap  0.2" in out
    assert "CHANGED" in out
    assert "1 of 4 decisions changed" in out
    code, out, _ = printed(capsys, "diff", wheel, newer, "--json")
    shown = json.loads(out)
    assert {row["name"] for row in shown["numbers"]} >= {"version", "removal_cap", "seeds"}
    assert [row["verdict"] for row in shown["golden"]] == ["CHANGED", "same decision", "same decision", "same decision"]
    assert shown["golden"][0]["score_difference"] > 0


def test_diff_of_the_same(capsys: pytest.CaptureFixture[str], wheel: str) -> None:
    code, out, _ = printed(capsys, "diff", wheel, wheel)
    assert code == 0
    assert "both decide alike" in out
    assert "0 of 4 decisions changed" in out
    assert json.loads(printed(capsys, "diff", wheel, wheel, "--json")[1])["numbers"] == []


def test_diff_of_other_golden_requests(capsys: pytest.CaptureFixture[str], wheel: str, tmp_path: Path) -> None:
    """What only one of them was asked is shown as such, unless both are asked now."""
    policy = versioned("1.1")
    package = package_of(policy, golden_of(policy)[:2])
    newer = tmp_path / package.name.file_name
    newer.write_bytes(package.data)
    _, out, _ = printed(capsys, "diff", wheel, str(newer))
    assert out.count("only in the old one") == 2
    assert "0 of 2 decisions changed" in out
    _, out, _ = printed(capsys, "diff", str(newer), wheel, "--run")
    assert "0 of 4 decisions changed" in out
    folder = tmp_path / "folder"
    scripted_policy().save(folder)
    assert "neither has golden requests" in printed(capsys, "diff", str(folder), str(folder))[1]


def test_bad_input_has_exit_code_2(capsys: pytest.CaptureFixture[str], wheel: str, tmp_path: Path) -> None:
    damaged = bytearray(Path(wheel).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    broken = tmp_path / "broken.whl"
    broken.write_bytes(damaged)
    for arguments in (
        ("show", str(broken)),
        ("verify", str(broken)),
        ("diff", wheel, str(broken)),
        ("show", str(tmp_path / "nowhere")),
        ("show",),  # none is installed
    ):
        code, out, err = printed(capsys, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("drsr: ")
        assert "Traceback" not in err


def test_list_shows_what_was_released(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = wheel_of(versioned("1.0"), tmp_path / "policies" / "drsr-policy")
    wheel_of(versioned("1.1", risk_threshold=None), tmp_path / "policies" / "drsr-policy")
    code, out, err = printed(capsys, "list")
    assert (code, err) == (0, "")
    assert str(whole.relative_to(tmp_path)) in out
    assert "abstains always" in out
    code, out, _ = printed(capsys, "list", "--json")
    listed = [policy for policy in json.loads(out) if policy["where"] != "installed"]
    assert [policy["version"] for policy in listed] == ["1.0", "1.1"]
    assert listed[0]["identity"] == versioned("1.0").identity
    whole.write_bytes(whole.read_bytes()[:-40])
    code, out, _ = printed(capsys, "list")
    assert code == 1
    assert "DAMAGED" in out


def test_list_of_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert printed(capsys, "list") == (
        0,
        f"no policy is installed, and policies/ holds none ({install_line('drsr-policy-light')}, or drsr publish)\n",
        "",
    )
