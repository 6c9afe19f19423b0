"""The doctor: what works, what is slow, what is broken and how to mend it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from drsr.cli import main
from drsr.decide.representation import ScriptedRepresentation
from drsr.errors import BackboneNotFetched
from drsr.policy.checkup import LENGTHS, Checkup, examine, made_up_request, slow_start, time_decision
from drsr.policy.location import install_line
from drsr.policy.scripted import scripted_policy
from tests.seeded_policies import light_policy


def slowed(policy: Any, seconds: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    plain = policy.frozen.representation.features

    def features(state: Any, give_up: Any = None) -> Any:
        time.sleep(seconds)
        return plain(state)

    monkeypatch.setattr(policy.frozen.representation, "features", features)
    return policy


@pytest.mark.parametrize("length", LENGTHS)
def test_made_up_requests_are_as_long_as_they_say_and_eligible(length: int) -> None:
    for policy in (scripted_policy(), light_policy()):
        body, tokens = made_up_request(policy, length)
        assert 0.8 * length < tokens < max(1.3 * length, 2_500)  # the tiny tokenizer needs many
        decision = policy.prune(request=body, session=None)
        assert decision.tokens_before == tokens
        assert decision.pruned


def test_a_quick_policy_works_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    light_policy().save(tmp_path / "policy")
    assert main(["doctor", "--policy", str(tmp_path / "policy"), "--lengths", "1000,3000"]) == 0
    said = capsys.readouterr().out
    for words in ("light: needs no language model", "processor cores", "cache folder", "keep sessions on"):
        assert words in said
    assert said.endswith("pruning works here\n")
    assert main(["doctor", "--policy", str(tmp_path / "policy"), "--lengths", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["works"] is True
    assert [each["reason"] for each in found["timings"]] == [None]


def test_a_cache_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is needed to fetch a language model, and by nothing that a light policy does."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "file" / "cache"))
    light_policy().save(tmp_path / "policy")
    assert main(["doctor", "--policy", str(tmp_path / "policy"), "--lengths", "1000"]) == 0
    assert f"{tmp_path}/file/cache: not writable" in capsys.readouterr().out

    def fails(*_: Any, **__: Any) -> None:
        raise BackboneNotFetched("not on this machine", hint="drsr backbone fetch NAME")

    monkeypatch.setattr("drsr.policy.checkup.load_policy", fails)
    assert main(["doctor", "--lengths", "1000"]) == 1
    said = capsys.readouterr().out
    assert "BROKEN: cache folder: " in said
    assert "  to fix it: set DRSR_CACHE to a folder that you may write to" in said
    assert "  to fix it: drsr backbone fetch NAME" in said


def test_a_full_policy_is_told_the_threads_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "threads" not in {finding.name for finding in examine_scripted(monkeypatch).findings}
    monkeypatch.setattr("drsr.policy.checkup.LazyRepresentation", ScriptedRepresentation)  # a double of a full one
    (found,) = [each.found for each in examine_scripted(monkeypatch).findings if each.name == "threads"]
    assert found.startswith(f"{torch.get_num_threads()}; drsr serve")


def examine_scripted(monkeypatch: pytest.MonkeyPatch) -> Checkup:
    monkeypatch.setattr("drsr.policy.checkup.load_policy", lambda *_, **__: scripted_policy())
    return examine(lengths=[1000])


@pytest.mark.parametrize("broken", ["missing", "abstains", "damaged"])
def test_what_is_broken_is_said_with_how_to_mend_it(
    broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "policy"
    if broken != "missing":
        light_policy(risk_threshold=None if broken == "abstains" else 1.0).save(folder)
    if broken == "damaged":
        (folder / "policy.json").write_text("{}")
    assert main(["doctor", "--policy", str(folder), "--lengths", "1000"]) == 1
    said = capsys.readouterr().out
    assert "BROKEN: " in said
    assert "to fix it: " in said
    assert said.endswith("pruning cannot work here\n")


def test_a_setting_that_is_wrong_is_not_the_policys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    light_policy().save(tmp_path / "policy")
    monkeypatch.setenv("DRSR_PRICES", str(tmp_path / "prices.json"))
    assert main(["doctor", "--policy", str(tmp_path / "policy"), "--lengths", "1000"]) == 1
    said = capsys.readouterr().out
    assert f"BROKEN: settings: {tmp_path}/prices.json: the table of prices cannot be read" in said
    assert "  to fix it: name a JSON file" in said


def test_lengths_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    for lengths in ("", "many", "0", "10,-1"):
        assert main(["doctor", "--lengths", lengths]) == 2
    assert "--lengths must be" in capsys.readouterr().err


def test_a_slow_policy_gets_a_deadline_and_a_quicker_one(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = slowed(scripted_policy(), 0.6, monkeypatch)
    monkeypatch.setattr("drsr.policy.checkup.load_policy", lambda *_, **__: policy)
    checkup = examine(lengths=[1000])
    assert checkup.works
    advice = " ".join(checkup.advice)
    assert "deadline_ms=" in advice
    assert install_line("drsr-policy-light") in advice


def test_a_light_policy_that_is_slow_gets_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads in one go: what is late would be lost, not read on in the background."""
    policy = slowed(light_policy(), 0.6, monkeypatch)
    monkeypatch.setattr("drsr.policy.checkup.load_policy", lambda *_, **__: policy)
    advice = " ".join(examine(lengths=[1000]).advice)
    assert "is the machine busy?" in advice
    assert "deadline" not in advice
    assert "keep sessions on: what was removed stays removed" in advice


def test_a_server_is_told_only_what_it_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slow_start(light_policy(), 0.001) == []
    assert slow_start(scripted_policy(risk_threshold=None), 0.001) == []
    assert slow_start(scripted_policy(), 60) == []
    (line,) = slow_start(slowed(scripted_policy(), 0.3, monkeypatch), 0.5)
    assert "the deadline is 0.5 s" in line
    assert time_decision(scripted_policy(), 1000).reason is None
