"""A light policy: it decides by the text, without torch, counts tokens as the labelling model, and refuses mix-ups."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import drsr
from drsr import load_policy
from drsr.backbone import embedded
from drsr.backbone.catalogue import load_tokenizer, read_tokenizer_file
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.decide.decision import Reason
from drsr.decide.numbers import LIGHT_FORMAT, PolicyNumbers
from drsr.errors import MissingExtra, PolicyCorrupt, PolicyMismatch
from drsr.features.light import light_features
from drsr.policy.description import describe, describe_json
from drsr.policy.diff import diff_policies
from drsr.policy.folder import MANIFEST_FILE, POLICY_FILE, manifest_bytes
from drsr.policy.golden import read_golden
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.loading import policy_of
from drsr.policy.location import LIGHT_PACKAGE, PACKAGE, read_found
from drsr.policy.scripted import scripted_policy
from drsr.policy.wheel_file import WheelName, read_wheel, wheel_bytes
from drsr.sessions.prices import Prices
from tests.features.states import run_messages
from tests.policy_wheels import BODY, versioned, wheel_of
from tests.seeded_policies import light_policy, tiny_policy
from tests.strategies import valid
from tests.tiny_backbones import tiny_backbone
from tests.tiny_models import tokenizer_json

VERSION = "2026.11.17"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return wheel_of(light_policy(version=VERSION), tmp_path)


def test_it_prunes_and_counts_what_it_says(wheel: Path) -> None:
    policy = load_policy(wheel)
    decision = policy.prune(request=BODY)
    assert decision.pruned
    assert decision.receipt["passes"] == 1
    assert wheel.name == f"drsr_policy_light-{VERSION}-py3-none-any.whl"
    evidence = decision.outcome.evidence if decision.outcome else None
    assert evidence is not None
    assert evidence.state is not None
    assert evidence.features is not None
    assert np.array_equal(evidence.features.matrix, light_features(evidence.state).matrix)


def test_a_wheel_decides_without_torch_transformers_or_a_fetched_model(wheel: Path, tmp_path: Path) -> None:
    lines = (
        "import json, sys\n"
        "from drsr import load_policy\n"
        "decision = load_policy(sys.argv[1]).prune(request=json.load(sys.stdin))\n"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'torch', 'transformers', 'gguf', 'sqlalchemy'}\n"
        "print(decision.pruned, decision.reason, sorted(heavy))\n"
    )
    path = {"PYTHONPATH": str(Path(drsr.__file__).parents[1]), "DRSR_CACHE": str(tmp_path / "nothing")}
    command = [sys.executable, "-W", "error", "-c", lines, str(wheel)]
    ran = subprocess.run(command, input=json.dumps(BODY), env=path, capture_output=True, text=True)
    assert ran.stdout.split() == ["True", "None", "[]"], ran.stderr


def test_candidates_come_from_the_whole_history() -> None:
    """However long: the full policy of the same model reads the end of the request only."""
    messages = run_messages(400, words=40)
    light, full = light_policy(), tiny_policy(tiny_backbone("llama"))
    assert light.numbers.context_cap == full.numbers.context_cap
    decision = light.prune(messages)
    assert decision.outcome is not None
    state = decision.outcome.evidence.state
    assert state is not None
    assert len(state.rendering) > 5 * light.numbers.context_cap
    assert state.view.start == 0
    assert state.candidates[0].block.step < 100
    seen = full.prune(messages)
    assert seen.outcome is not None
    assert seen.outcome.evidence.state is not None
    assert seen.outcome.evidence.state.candidates[0].block.step > 300
    light.prepare()  # no window is too small


@given(request=valid)
@settings(max_examples=40, deadline=None)
def test_token_counts_are_those_of_the_labelling_models_tokenizer(request: Any) -> None:
    """A policy that was given the model itself counts the same."""
    backbone = tiny_backbone("llama")
    texts = [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]
    shipped = LightRepresentation(tokenizer_json().encode(), name="tiny", identity="x").tokenizer
    assert shipped.identity == backbone.tokenizer.identity
    sound = [text for text in texts if not any("\ud800" <= character <= "\udfff" for character in text)]
    for one, other in zip(shipped.encode_contents(sound), backbone.tokenizer.encode_contents(sound), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.skipif(not embedded.MODEL.is_fetched, reason="smollm2-135m is not fetched")
def test_the_embedded_models_tokenizer_file_gives_its_ids() -> None:
    name = embedded.NAME
    representation = LightRepresentation(read_tokenizer_file(name), name=name, identity=embedded.IDENTITY)
    labelling = load_tokenizer(name).tokenizer
    assert representation.numbers.tokenizer_identity == labelling.identity
    texts = [str(value) for value in _strings(BODY)] + ["<|im_start|>", "  \n\t", "é 漢字 🙂", "a" * 5_000, "12_345"]
    for one, other in zip(
        representation.tokenizer.encode_contents(texts), labelling.encode_contents(texts), strict=True
    ):
        assert np.array_equal(one, other)
    for frame in ("<|im_start|>assistant\n", "\n<tool_call>\n", "<|im_end|>\n"):
        assert np.array_equal(representation.tokenizer.encode_frame(frame), labelling.encode_frame(frame))


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


def test_numbers_are_written_and_read_back_and_full_ones_are_as_before() -> None:
    numbers = light_policy().numbers
    written = numbers.to_json()
    assert written["format"] == LIGHT_FORMAT
    assert PolicyNumbers.from_json(written) == numbers
    assert numbers.kind == "light"
    full = scripted_policy().numbers
    assert full.kind == "full"
    assert "light" not in full.to_json()
    assert full.view_cap == full.context_cap


@pytest.mark.parametrize(
    "change",
    [
        {"format": "drsr-policy/1"},
        {"light": None},
        {"light": {"tokenizer_sha256": "0"}},
    ],
)
def test_numbers_that_contradict_themselves_are_corrupt(change: dict[str, Any]) -> None:
    with pytest.raises(PolicyCorrupt):
        PolicyNumbers.from_json({**light_policy().numbers.to_json(), **change})
    with pytest.raises(PolicyCorrupt):
        PolicyNumbers.from_json({**scripted_policy().numbers.to_json(), "light": None})


def test_features_of_the_other_view_are_refused() -> None:
    """A light policy's numbers with a full layout, a full policy's with the light one, and parts that do not fit."""
    light, full = light_policy(), tiny_policy(tiny_backbone("llama"))
    with pytest.raises(PolicyMismatch, match="feature layout"):
        replace(light.numbers, layout_hash=full.numbers.layout_hash).check()
    with pytest.raises(PolicyMismatch, match="does not say that it is a light policy"):
        replace(light.numbers, light=None).check()
    with pytest.raises(PolicyMismatch, match="feature layout"):
        replace(full.numbers, light=light.numbers.light).check()
    with pytest.raises(PolicyMismatch, match="feature layouts differ"):
        drsr.Policy(full.numbers, full.frozen.scorer, light.frozen.representation)


def test_a_light_wheel_under_a_full_name_is_refused(wheel: Path, tmp_path: Path) -> None:
    """Whether the file was renamed, the package inside, or the installed folder; and the other way round."""
    renamed = wheel.with_name(wheel.name.replace("_light", ""))
    shutil.copy(wheel, renamed)
    with pytest.raises(PolicyMismatch, match="a light policy, whose package is called drsr_policy_light"):
        read_found(str(renamed))
    files = {path.replace(LIGHT_PACKAGE, PACKAGE): data for path, data in read_wheel(wheel.read_bytes(), "x").items()}
    packed = tmp_path / "packed.whl"
    packed.write_bytes(wheel_bytes(WheelName(PACKAGE, VERSION), files))
    with pytest.raises(PolicyMismatch, match="under the name drsr_policy"):
        read_found(str(packed))
    light_policy().save(tmp_path / PACKAGE)
    with pytest.raises(PolicyMismatch, match="under the name drsr_policy"):
        read_found(str(tmp_path / PACKAGE))
    full = wheel_of(versioned(VERSION), tmp_path / "full")
    full.rename(full.with_name(full.name.replace(PACKAGE, LIGHT_PACKAGE)))
    with pytest.raises(PolicyMismatch, match="a full policy"):
        read_found(str(full.with_name(full.name.replace(PACKAGE, LIGHT_PACKAGE))))


def test_an_altered_tokenizer_file_is_refused(wheel: Path, tmp_path: Path) -> None:
    """Also where somebody with intent made manifest and RECORD fit, and where the file is gone."""
    inside = {
        path.removeprefix(f"{LIGHT_PACKAGE}/"): data
        for path, data in read_wheel(wheel.read_bytes(), "x").items()
        if path.startswith(f"{LIGHT_PACKAGE}/")
    }
    del inside[MANIFEST_FILE]
    spec = json.loads(inside[TOKENIZER_FILE])
    spec["model"]["merges"] = spec["model"]["merges"][:-5]
    for name, data in (("altered", json.dumps(spec).encode()), ("gone", None)):
        changed = {path: content for path, content in inside.items() if path != TOKENIZER_FILE or data is not None}
        if data is not None:
            changed[TOKENIZER_FILE] = data
        folder = tmp_path / name
        folder.mkdir()
        for path, content in {**changed, MANIFEST_FILE: manifest_bytes(changed)}.items():
            (folder / path).write_bytes(content)
        with pytest.raises(PolicyCorrupt, match=TOKENIZER_FILE):
            load_policy(folder)
    flipped = bytearray(wheel.read_bytes())
    flipped[wheel.read_bytes().index(b'"merges"')] ^= 1
    wheel.write_bytes(flipped)
    with pytest.raises(PolicyCorrupt):
        load_policy(wheel)


def test_a_tokenizer_that_the_numbers_do_not_mean_is_refused(tmp_path: Path) -> None:
    policy = light_policy()
    assert policy.numbers.light is not None
    other = replace(policy.numbers, light=replace(policy.numbers.light, tokenizer_identity="1" * 64))
    drsr.Policy(other, policy.frozen.scorer, policy.frozen.representation).save(tmp_path / "other")
    with pytest.raises(PolicyMismatch, match="tokenizer_identity"):
        load_policy(tmp_path / "other")


def test_a_language_model_that_it_is_given_must_count_alike(wheel: Path) -> None:
    assert load_policy(wheel, backbone=tiny_backbone("llama")).prune(request=BODY).pruned
    with pytest.raises(PolicyMismatch, match="leave the backbone out"):
        load_policy(wheel, backbone="scripted")


def test_a_tokenizer_of_another_form_needs_the_tokenizers_package(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = "drsr.policy.light_representation.importlib.util.find_spec"
    monkeypatch.setattr(found, lambda name: None if name == "tokenizers" else 1)
    with pytest.raises(MissingExtra, match="splits words by ByteLevel, not Digits and ByteLevel") as caught:
        policy_of(read_found(str(wheel)))
    assert "pip install 'drsr[tokenizers]'" in str(caught.value)


def test_bad_input_gets_the_original_and_a_reason() -> None:
    policy = light_policy()
    assert policy.prune(request=7).reason is Reason.UNREADABLE_REQUEST
    assert policy.prune([]).reason is Reason.TOO_FEW_CANDIDATES
    lost = policy.prune([*run_messages(6), {"role": "tool", "tool_call_id": "nobody", "content": "x"}])
    assert lost.reason is Reason.INVALID_PROTOCOL
    assert light_policy(risk_threshold=None).prune(request=BODY).reason is Reason.ALWAYS_ABSTAINS


def test_show_and_diff_say_which_kind_it_is(wheel: Path, tmp_path: Path) -> None:
    light, full = read_found(str(wheel)), read_found(str(wheel_of(versioned(VERSION), tmp_path / "full")))
    golden = [read_golden(files, "x") for files in (full, light)]
    shown = describe(light, golden[1])
    assert "light: reads without a language model" in shown
    assert "not needed to decide" in shown
    assert "full: reads with a language model" in describe(full, golden[0])
    assert describe_json(light, golden[1])["kind"] == "light"
    difference = diff_policies(full, light, *golden)
    assert (difference.old_kind, difference.new_kind) == ("full", "light")
    assert f"policy {VERSION} -> {VERSION} (full -> light)" in difference.to_text()
    assert "one reads with a language model and one without" in difference.to_text()


def test_both_are_installed_side_by_side(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
    monkeypatch.syspath_prepend(str(site))
    assert load_policy().numbers.kind == "light"  # the only one
    assert load_policy("drsr_policy_light").version == VERSION
    subprocess.run([*pip, "--target", str(site), str(wheel_of(versioned(VERSION), tmp_path / "full"))], check=True)
    import importlib

    importlib.invalidate_caches()
    assert load_policy().numbers.kind == load_policy(device="cpu").numbers.kind == "light"  # without a GPU
    assert load_policy(device="cuda").numbers.kind == "full"
    assert load_policy("drsr_policy").numbers.kind == load_policy(backbone="scripted").numbers.kind == "full"
    assert load_policy("drsr_policy_light").numbers.kind == "light"
    code = "import drsr_policy_light as p; print(p.load().numbers.kind, p.verify().passed)"
    environment = {**os.environ, "PYTHONPATH": f"{site}:{Path(drsr.__file__).parents[1]}"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.stdout.split() == ["light", "True"], ran.stderr


def test_the_first_request_of_a_session_is_decided_as_one_on_its_own() -> None:
    """Where nothing is cheaper for being cached, every deletion pays; and a light policy has no state to keep."""
    policy = light_policy()
    messages = run_messages(12, words=30)
    session = policy.session(Prices(3, 3, 3, 15), expected_calls=40)
    alone, first = policy.prune(messages), session.prune(messages)
    assert alone.pruned
    assert first.request == alone.request
    grown = session.prune(run_messages(16, words=30))
    assert grown.error is None
    assert grown.pruned


def test_the_saved_folder_holds_the_tokenizer(tmp_path: Path) -> None:
    policy = light_policy()
    policy.save(tmp_path / "policy")
    assert (tmp_path / "policy" / TOKENIZER_FILE).read_bytes() == tokenizer_json().encode()
    assert HfTokenizer(tokenizer_json()).identity in (tmp_path / "policy" / POLICY_FILE).read_text()
    assert load_policy(tmp_path / "policy").identity == policy.identity
