"""`pip install 'drsr[light]'` brings numpy and safetensors and nothing else; a light policy decides with that.

Without a policy it is enough to parse and to enumerate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drsr.policy.listing import RELEASED

ROOT = Path(__file__).parent.parent
MOST_BYTES = 120_000_000
"""Of all that is installed for a light policy, bytecode included."""

WORKS_WITHOUT_MORE = """
import sys, json
import drsr
from drsr.backbone.scripted import ScriptedTokenizer
request = drsr.read_request(json.loads(open(sys.argv[1]).read()))
state = drsr.freeze(request, ScriptedTokenizer(), 50_000)
sets = drsr.deletion_sets(state, 3)
from drsr.policy.scripted import scripted_policy
scripted_policy().save("policy")
decision = drsr.load_policy("policy").prune(request=json.loads(open(sys.argv[1]).read()))
loaded = {name.split(".")[0] for name in sys.modules}
heavy = sorted(loaded & {"torch", "transformers", "sqlalchemy", "orjson", "fsspec"})
savings = [found.direct_saving for found in sets]
print(json.dumps({"sets": len(sets), "savings": savings, "heavy": heavy, "pruned": decision.pruned}))
"""


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment into which `drsr[light]` was installed from its wheel."""
    folder = tmp_path_factory.mktemp("light")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True
    )
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("drsr-*.whl")
    pip_there = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip_there, "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[light]"], check=True)
    return python


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "DRSR_"))}
    return subprocess.run([str(python), *arguments], cwd=cwd, env=environment, capture_output=True, text=True)


def test_the_light_install(light: Path, tmp_path: Path) -> None:
    listed = run(light, "-m", "pip", "--disable-pip-version-check", "list", "--format=json", cwd=tmp_path)
    names = {row["name"] for row in json.loads(listed.stdout)}
    assert names - {"pip", "setuptools", "wheel", "drsr-policy-light"} == {"drsr", "numpy", "safetensors"}

    sample = ROOT / "drsr" / "offline" / "samples" / "request.json"
    worked = run(light, "-W", "error", "-c", WORKS_WITHOUT_MORE, str(sample), cwd=tmp_path)
    assert worked.returncode == 0, worked.stderr
    seen = json.loads(worked.stdout)
    assert seen["sets"] in (7, 14)
    assert min(seen["savings"]) > 0
    assert seen["heavy"] == []
    assert seen["pruned"] is True

    pruned = run(light, "-m", "drsr", "prune", str(sample), "--policy", "policy", "--explain", cwd=tmp_path)
    assert pruned.returncode == 0, pruned.stderr
    assert len(json.loads(pruned.stdout)["messages"]) < len(json.loads(sample.read_text())["messages"])
    assert "CHOSEN" in pruned.stderr

    inspected = run(light, "-m", "drsr", "inspect", str(sample), "--backbone", "scripted", cwd=tmp_path)
    assert inspected.returncode == 0, inspected.stderr
    assert "deletion sets" in inspected.stdout

    helped = run(light, "-m", "drsr", "--help", cwd=tmp_path)
    assert helped.returncode == 0, helped.stderr
    assert "harm" in helped.stdout  # offline commands are listed, and say which extra they need:

    corpora = run(light, "-m", "drsr", "corpus", "list", "--json", cwd=tmp_path)  # the table came with the wheel
    assert [corpus["corpus"] for corpus in json.loads(corpora.stdout)] == ["public"]

    without_extra = run(light, "-m", "drsr", "harm", "--backbone", "smollm2-135m", cwd=tmp_path)
    assert without_extra.returncode == 2
    assert "pip install 'drsr[" in without_extra.stderr
    assert "Traceback" not in without_extra.stderr


def installed_bytes(python: Path) -> int:
    """Return the bytes of all installed files, pip and setuptools aside."""
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    brought = [
        path for path in site.iterdir() if not path.name.startswith(("pip", "setuptools", "_distutils", "distutils"))
    ]
    return sum(path.stat().st_size for top in brought for path in (top, *top.rglob("*")) if path.is_file())


def test_a_released_light_policy_needs_no_more_and_stays_small(light: Path, tmp_path: Path) -> None:
    wheel = max((ROOT / RELEASED / "drsr-policy-light").glob("*.whl"))
    pip = ("-m", "pip", "--disable-pip-version-check")
    installed = run(light, *pip, "install", "--quiet", "--no-index", str(wheel), cwd=tmp_path)  # all it needs is there
    assert installed.returncode == 0, installed.stderr
    assert run(light, *pip, "check", cwd=tmp_path).returncode == 0

    verified = run(light, "-m", "drsr", "policy", "verify", "drsr_policy_light", cwd=tmp_path)
    assert verified.returncode == 0, verified.stderr
    sample = str(ROOT / "drsr" / "offline" / "samples" / "request.json")
    pruned = run(light, "-m", "drsr", "prune", sample, "--explain", cwd=tmp_path)
    assert pruned.returncode == 0, pruned.stderr
    assert f"policy {wheel.name.split('-')[1]}" in pruned.stderr
    assert "removes more than 20% of the request" in pruned.stderr  # the sets were scored

    assert 50_000_000 < installed_bytes(light) < MOST_BYTES, f"{installed_bytes(light):,} bytes"
