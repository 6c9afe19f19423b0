"""A policy that was published before the rooms were built still installs, verifies and decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from drsr.offline import samples
from drsr.policy.golden import read_golden, verify
from drsr.policy.loading import policy_of
from drsr.policy.location import read_found

WHEEL = Path(__file__).parent / "published" / "drsr_policy-2026.11.17-py3-none-any.whl"
"""Made by `make demo` at the last commit before the move, from the sample corpus."""
DECIDES = """
import json, sys
from drsr_policy import load
decision = load().prune(request=json.load(open(sys.argv[1])))
print(json.dumps({"reason": decision.reason, "tokens": decision.tokens_before}))
"""


def test_its_golden_decisions_are_what_they_were() -> None:
    files = read_found(str(WHEEL))
    golden = read_golden(files, str(WHEEL))
    assert len(golden) > 3
    assert verify(policy_of(files), golden[:3]).passed


def test_its_own_python_loads_it(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", str(tmp_path), str(WHEEL)], check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])}
    code = [sys.executable, "-c", DECIDES, str(samples.REQUEST)]
    found = subprocess.run(code, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["tokens"] > 100
