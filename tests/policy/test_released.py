"""Whatever lies in policies/ loads, gives its golden decisions, decides a request, and comes with its papers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drsr.offline import samples
from drsr.policy.generated import CARD_FILE
from drsr.policy.golden import verify_files
from drsr.policy.listing import RELEASED
from drsr.policy.loading import load_policy, policy_of
from drsr.policy.location import project_name, read_found

POLICIES = Path(__file__).parents[2] / RELEASED
WHEELS = sorted(POLICIES.glob("*/*.whl"))
MOST_BYTES = 5_000_000


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_it_loads_verifies_and_decides(wheel: Path) -> None:
    files = read_found(str(wheel))
    assert wheel.parent.name == project_name(files.numbers)
    policy = policy_of(files)
    assert verify_files(policy, files, wheel.name).passed
    request = json.loads(samples.REQUEST.read_text())
    decision = load_policy(wheel).prune(request=request)
    assert decision.error is None
    assert decision.tokens_after is not None
    assert decision.tokens_before is not None
    assert 0 < decision.tokens_after <= decision.tokens_before
    assert decision.pruned == (decision.tokens_after < decision.tokens_before)


ON_NUMPY_ALONE = """
import json, sys
for name in ("tokenizers", "huggingface_hub", "torch", "transformers"):
    sys.modules[name] = None  # importing it fails
from drsr.policy.golden import verify_files
from drsr.policy.location import read_found
from drsr.policy.loading import load_policy
wheel, request = sys.argv[1:]
decision = load_policy(wheel).prune(request=json.loads(open(request).read()), session=None)
assert decision.error is None, decision.detail
assert verify_files(load_policy(wheel), read_found(wheel), wheel).passed
print(decision.tokens_before)
"""


@pytest.mark.parametrize("wheel", [wheel for wheel in WHEELS if "light" in wheel.name], ids=lambda wheel: wheel.name)
def test_a_light_policy_decides_and_verifies_without_the_tokenizers_package(wheel: Path) -> None:
    command = [sys.executable, "-c", ON_NUMPY_ALONE, str(wheel), str(samples.REQUEST)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_it_is_small_and_comes_with_card_evaluation_and_audit(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    about = POLICIES / "about" / wheel.name.removesuffix("-py3-none-any.whl")
    assert (about / CARD_FILE).read_bytes() == read_found(str(wheel)).others[CARD_FILE]
    assert "unsafe AUROC" in (about / "evaluation.txt").read_text()
    assert "checks passed" in (about / "audit.txt").read_text()


def test_its_index_names_every_wheel() -> None:
    for project in {wheel.parent for wheel in WHEELS}:
        page = (project / "index.html").read_text()
        assert all(wheel.name in page for wheel in project.glob("*.whl"))
    assert (POLICIES / "README.md").is_file()
