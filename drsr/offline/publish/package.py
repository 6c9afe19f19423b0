"""A policy as a pip package: `drsr_policy-<version>-py3-none-any.whl`, the same bytes for the same policy.

    drsr_policy/__init__.py          a few fixed lines: load(), verify(), __version__
    drsr_policy/policy.json          every frozen number, with hashes of backbone, layout, renderer and rule
    drsr_policy/scorer.safetensors   normaliser and members
    drsr_policy/distribution.safetensors   of the training features, where there were enough states
    drsr_policy/golden.json          golden requests with the decisions and scores that are expected
    drsr_policy/lineage.json         hash chain back to the trajectories
    drsr_policy/MODEL_CARD.md        for people
    drsr_policy/manifest.json        size and SHA-256 of all of these
    drsr_policy-<version>.dist-info/ metadata for pip

A light policy's package is called `drsr_policy_light` and also holds:

    drsr_policy_light/tokenizer.json          of the language model that labelled: whose tokens are counted
    drsr_policy_light/TOKENIZER_LICENSE.txt   its licence

No time, place or name of the machine gets in, and no build tool is involved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drsr.decide.numbers import PolicyNumbers
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.folder import MANIFEST_FILE, POLICY_FILE, manifest_bytes
from drsr.policy.generated import CARD_FILE, generated_files
from drsr.policy.golden import GOLDEN_FILE, GoldenRequest, golden_bytes
from drsr.policy.location import package_name
from drsr.policy.wheel_file import WheelName, check_version, wheel_bytes
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import FILE_NAME as SCORER_FILE
from drsr.scorer.weights import scorer_bytes


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
    """Build the wheel of a policy; `others` are its additional files: those of a light policy, and its distribution."""
    check_version(numbers.version)
    package = package_name(numbers)
    name = WheelName(package, numbers.version)
    generated = generated_files(numbers, package, card.encode())
    files = {
        **(others or {}),
        POLICY_FILE: numbers.to_bytes(),
        SCORER_FILE: scorer_bytes(scorer),
        GOLDEN_FILE: golden_bytes(golden),
        LINEAGE_FILE: lineage,
        CARD_FILE: card.encode(),
        **generated.package,
    }
    files[MANIFEST_FILE] = manifest_bytes(files)
    contents = {f"{package}/{path}": data for path, data in files.items()}
    contents |= {f"{name.dist_info}/{path}": data for path, data in generated.dist_info.items()}
    return Package(name, wheel_bytes(name, contents))
