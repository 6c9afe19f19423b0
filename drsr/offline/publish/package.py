"""A policy as a pip package: `drsr_policy-<version>-py3-none-any.whl`, the same bytes for the same policy.

    drsr_policy/__init__.py          a few fixed lines: load(), verify(), __version__
    drsr_policy/policy.json          every frozen number, with hashes of backbone, layout, renderer and rule
    drsr_policy/scorer.safetensors   normaliser and members
    drsr_policy/golden.json          golden requests with the decisions and scores that are expected
    drsr_policy/lineage.json         hash chain back to the trajectories
    drsr_policy/MODEL_CARD.md        for people
    drsr_policy/manifest.json        size and SHA-256 of all of these
    drsr_policy-<version>.dist-info/ what pip wants

A light policy's package is called `drsr_policy_light` and holds, besides:

    drsr_policy_light/tokenizer.json          of the language model that labelled: whose tokens are counted
    drsr_policy_light/TOKENIZER_LICENSE.txt   its licence

No time, place or name of the machine gets in, and no build tool is involved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drsr.decide.numbers import PolicyNumbers
from drsr.errors import InputError
from drsr.features.light import LIGHT_VIEW
from drsr.policy.description import CARD_FILE, LINEAGE_FILE
from drsr.policy.folder import MANIFEST_FILE, POLICY_FILE, manifest_bytes
from drsr.policy.golden import GOLDEN_FILE, GoldenRequest, golden_bytes
from drsr.policy.location import package_name, project_name
from drsr.policy.wheel_file import WheelName, check_version, wheel_bytes
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import FILE_NAME as SCORER_FILE
from drsr.scorer.weights import scorer_bytes

INIT = '''\
"""A frozen pruning policy for language-model agents; MODEL_CARD.md beside this file says what it is.

    from {package} import load

    policy = load()
    decision = policy.prune(messages, tools=tools)
"""

from typing import Any

from drsr.golden import Verification
from drsr.installed_policy import load_installed, verify_installed
from drsr.policy import Policy

__all__ = ["__version__", "load", "verify"]
__version__ = "{version}"


def load(**options: Any) -> Policy:
    """The policy, every file checked. Options as for `drsr.load_policy`: backbone, device, dtype, receipts."""
    return load_installed(__file__, **options)


def verify(**options: Any) -> Verification:
    """Its golden requests, decided again; `.passed` says whether all came out as published."""
    return verify_installed(__file__, **options)
'''

METADATA = """\
Metadata-Version: 2.1
Name: {project}
Version: {version}
Summary: {summary}
Requires-Python: >=3.11
Requires-Dist: {requirement}
Description-Content-Type: text/markdown

{card}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: drsr
Root-Is-Purelib: true
Tag: py3-none-any
"""


class Package(NamedTuple):
    """A built package."""

    name: WheelName
    data: bytes
    """The wheel."""


def build_package(
    numbers: PolicyNumbers,
    scorer: FrozenScorer,
    golden: Sequence[GoldenRequest],
    lineage: bytes,
    card: str,
    others: Mapping[str, bytes] | None = None,
) -> Package:
    """The wheel of a policy; `others` are the files that a light one has besides."""
    check_version(numbers.version)
    package = package_name(numbers)
    name = WheelName(package, numbers.version)
    files = {
        **(others or {}),
        POLICY_FILE: numbers.to_bytes(),
        SCORER_FILE: scorer_bytes(scorer),
        GOLDEN_FILE: golden_bytes(golden),
        LINEAGE_FILE: lineage,
        CARD_FILE: card.encode(),
        "__init__.py": INIT.replace("{version}", numbers.version).replace("{package}", package).encode(),
        "py.typed": b"",
    }
    files[MANIFEST_FILE] = manifest_bytes(files)
    metadata = METADATA.format(
        project=project_name(numbers),
        version=numbers.version,
        summary=_summary(numbers),
        requirement=requirement(numbers),
        card=card,
    )
    contents = {f"{package}/{path}": data for path, data in files.items()}
    contents[f"{name.dist_info}/METADATA"] = metadata.encode()
    contents[f"{name.dist_info}/WHEEL"] = WHEEL.encode()
    return Package(name, wheel_bytes(name, contents))


def requirement(numbers: PolicyNumbers) -> str:
    """Return which drsr can run a policy that this one made: up to the next version that may compute otherwise.

    Versions follow Semantic Versioning: before 1.0 a minor version may break, afterwards a major one.
    """
    major, minor, *_ = numbers.drsr_version.split(".")
    following = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    extra = "backbone" if numbers.light is None else LIGHT_VIEW
    return f"drsr[{extra}]>={numbers.drsr_version},<{following}"


def _summary(numbers: PolicyNumbers) -> str:
    backbone = _on_one_line(numbers.backbone.name)
    made = f"made with drsr {numbers.drsr_version}"
    if numbers.light is None:
        return f"A frozen pruning policy for language-model agents, {made} for the backbone {backbone}"
    return f"A frozen light pruning policy for language-model agents, {made}; it needs no language model"


def _on_one_line(text: str) -> str:
    """A second line in a header would be a header of its own."""
    if not text.isprintable():
        raise InputError(f"the backbone's name {text!r} cannot be written into a package")
    return text
