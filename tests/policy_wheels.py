"""Wheels of scripted policies: real packages in milliseconds, with golden requests that the double decided itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.decide.representation import ScriptedRepresentation
from drsr.offline import samples
from drsr.offline.publish.package import Package, build_package
from drsr.policy.golden import GoldenRequest, decided
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.scorer.ensemble import Ensemble

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())
REQUESTS: dict[str, Any] = {
    "sample": BODY,
    "short": {"messages": BODY["messages"][:4]},
    "broken": {"messages": [*BODY["messages"][:2], {"role": "tool", "tool_call_id": "x", "content": "?"}]},
    "no request": 7,
}
LINEAGE = b'{"format": "drsr-lineage/1", "links": [{"items": 2, "link": "trajectories", "sha256": "00"}]}\n'
CARD = "# A double\n\nIt means nothing.\n"


def versioned(version: str, **options: Any) -> Policy:
    """A scripted policy under another version."""
    policy = scripted_policy(**options)
    return Policy(replace(policy.numbers, version=version), policy.frozen.scorer, ScriptedRepresentation())


def golden_of(policy: Policy) -> list[GoldenRequest]:
    return [decided(policy, name, request) for name, request in REQUESTS.items()]


def package_of(policy: Policy, golden: list[GoldenRequest] | None = None) -> Package:
    scorer = policy.frozen.scorer
    assert isinstance(scorer, Ensemble)
    representation = policy.frozen.representation
    others = {}
    if isinstance(representation, LightRepresentation):
        others = {TOKENIZER_FILE: representation.tokenizer_file}
    golden = golden_of(policy) if golden is None else golden
    return build_package(policy.numbers, scorer, golden, LINEAGE, CARD, others)


def wheel_of(policy: Policy, folder: Path) -> Path:
    """The wheel's file, in a folder that is made if need be."""
    package = package_of(policy)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / package.name.file_name
    path.write_bytes(package.data)
    return path
