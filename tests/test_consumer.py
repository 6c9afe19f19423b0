"""The consumer's day: the line that `drsr publish` prints in an empty environment, and ten lines in an agent.

Everything is real but the harms that the policy was trained on: the package was published by `drsr publish` after the
real stages, with the embedded language model, and pip takes it and drsr from its index alone.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.audit import release as audit_release
from drsr.offline.publish import candidate as release_candidate
from drsr.offline.publish.golden_requests import golden_requests
from tests.offline.small_pipeline import run_stages
from tests.third_parties import link_third_parties

ROOT = Path(__file__).parents[1]
VERSION = "2026.11.16"
OFFLINE_ONLY = ("prefect", "dvc", "sqlalchemy", "great_expectations", "alembic", "pyarrow", "orjson", "sklearn")

TEN_LINES = """
import json, sys
request = json.load(sys.stdin)
messages, tools = request["messages"], request.get("tools")

class Client:
    class chat:
        class completions:
            @staticmethod
            def create(messages, **options):
                return messages
client = Client()

from drsr_policy import load
policy = load()
decision = policy.prune(messages, tools=tools)      # or request=..., OpenAI or Anthropic
sent = client.chat.completions.create(messages=decision.messages)

loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({
    "version": policy.version, "pruned": decision.pruned, "reason": decision.reason, "sent": sent,
    "before": decision.tokens_before, "after": decision.tokens_after, "explained": decision.explain(),
    "error": repr(decision.error), "loaded": loaded,
}))
"""


@pytest.fixture(scope="module")
def install_line(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The line that `drsr publish` prints for an index with the policy and drsr itself, which it leaves behind."""
    folder = tmp_path_factory.mktemp("published")
    pipeline = run_stages(folder / "data", "smollm2-135m", labels="drawn", runs={"train": 3, "validation": 2})
    pipeline.catalog.close()
    # Each golden request is read by the real model several times: one that is scored is enough here.
    few = {name: golden_requests()[name] for name in ("stock taking, OpenAI", "too short to prune", "not a request")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_candidate, "golden_requests", lambda: few)
        patch.setattr(release_candidate, "sample_requests", lambda: iter(()))
        patch.setattr(audit_release, "ALWAYS_MEASURED", ())  # its labels are drawn, and no measuring would agree
        for name, value in pipeline.settings.items():
            patch.setenv(name, value)
        arguments = ["publish", "--index", str(folder / "index"), "--version", VERSION, "--with-drsr", str(ROOT)]
        with redirect_stdout(io.StringIO()) as said:
            assert main(arguments) == 0
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("pip install ")]
    return shlex.split(line)


@pytest.fixture(scope="module")
def environment(install_line: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment into which pip installed the policy. Its `bin` folder."""
    folder = tmp_path_factory.mktemp("consumer")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    brought = link_third_parties(folder / "third_parties", "backbone")
    assert {"numpy", "safetensors", "torch", "transformers", "gguf", "accelerate"} <= brought
    assert not brought & {"prefect", "dvc", "sqlalchemy", "great-expectations", "alembic", "drsr"}
    programs = folder / "venv" / "bin"
    run(
        programs, "pip", ["uninstall", "--yes", "setuptools"], folder
    )  # older Pythons bring one that is too old for torch
    (site / "third_parties.pth").write_text(f"{folder / 'third_parties'}\n")
    program, *arguments = install_line
    installed = run(programs, program, arguments, folder)
    assert installed.returncode == 0, installed.stderr
    assert f"Successfully installed drsr-0.1.0 drsr-policy-{VERSION}" in installed.stdout
    return programs


def run(
    programs: Path, program: str, arguments: Sequence[str], cwd: Path, text: str = ""
) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHON", "DRSR_", "PIP_", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(hidden) or key == "DRSR_CACHE"}
    kept |= {"HF_HUB_OFFLINE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [str(programs / program), *arguments]
    return subprocess.run(command, cwd=cwd, env=kept, input=text, capture_output=True, text=True)


@pytest.mark.timeout(900)
def test_ten_lines(environment: Path, tmp_path: Path) -> None:
    request = golden_requests()["stock taking, OpenAI"]
    ran = run(environment, "python", ["-c", TEN_LINES], tmp_path, json.dumps(request))
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["version"] == VERSION
    assert seen["error"] == "None"
    assert not set(seen["loaded"]) & {*OFFLINE_ONLY}
    assert "torch" in seen["loaded"]  # the embedded model has read the request
    assert seen["reason"] in (None, "over_risk_threshold", "over_removal_cap")
    assert (seen["sent"] != request["messages"]) == seen["pruned"] == (seen["after"] < seen["before"])
    assert " sets of 4 candidates:" in seen["explained"]
    assert f"policy {VERSION} with smollm2-135m" in seen["explained"]


@pytest.mark.timeout(900)
def test_verify_and_show(environment: Path, tmp_path: Path) -> None:
    lines = "import drsr_policy; found = drsr_policy.verify(); print(found.to_text()); assert found.passed"
    ran = run(environment, "python", ["-c", lines], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "all 3 golden requests decide as expected" in ran.stdout
    verified = run(environment, "drsr", ["policy", "verify"], tmp_path)
    progress = [line for line in verified.stderr.splitlines() if "golden requests are decided" not in line]
    assert (verified.returncode, progress) == (0, [])  # a busy machine is told how far it is
    assert "stock taking, OpenAI" in verified.stdout
    shown = run(environment, "drsr", ["policy", "show"], tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "smollm2-135m (30 layers, 9 heads, float32)" in shown.stdout


@pytest.mark.timeout(900)
def test_nothing_of_the_offline_side_is_there(environment: Path, tmp_path: Path) -> None:
    """The packages are absent, and a command that needs them says which extra brings them."""
    lines = f"from importlib.util import find_spec; print([n for n in {OFFLINE_ONLY} if find_spec(n)])"
    assert run(environment, "python", ["-c", lines], tmp_path).stdout.strip() == "[]"
    checked = run(environment, "pip", ["check"], tmp_path)
    assert checked.returncode == 0, checked.stdout
    refused = run(environment, "drsr", ["publish"], tmp_path)
    assert refused.returncode == 2
    assert "pip install 'drsr[offline]'" in refused.stderr


@pytest.mark.timeout(900)
def test_a_flipped_byte_in_the_installed_package(environment: Path, tmp_path: Path) -> None:
    (package,) = environment.parent.glob("lib/python*/site-packages/drsr_policy")
    path = package / "scorer.safetensors"
    data = path.read_bytes()
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    path.write_bytes(damaged)
    ran = run(environment, "python", ["-c", "import drsr_policy; drsr_policy.load()"], tmp_path)
    path.write_bytes(data)
    assert ran.returncode == 1
    assert "drsr.errors.PolicyCorrupt" in ran.stderr
    assert "scorer.safetensors: is {'sha256': " in ran.stderr
