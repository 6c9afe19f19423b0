"""A policy described for a reader at a terminal: numbers, backbone, calibration and origin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from drsr.decide.numbers import FULL, PolicyNumbers
from drsr.errors import PolicyCorrupt
from drsr.features.light import LIGHT_VIEW
from drsr.policy.folder import PolicyFiles
from drsr.policy.golden import GoldenRequest
from drsr.tables import excerpt, table

LINEAGE_FILE = "lineage.json"
_KINDS = {FULL: "full: reads with a language model", LIGHT_VIEW: "light: reads without a language model"}


def describe(files: PolicyFiles, golden: Sequence[GoldenRequest]) -> str:
    """Return a description in several lines of text."""
    numbers = files.numbers
    geometry = numbers.backbone.geometry
    layers = "no layers: a double" if geometry is None else f"{geometry.layers} layers, {geometry.heads} heads"
    light = numbers.light
    backbone = ("backbone", f"{numbers.backbone.name} ({layers}, {numbers.backbone.dtype})")
    cap = ("context cap", f"{numbers.context_cap:,} tokens")
    if light is not None:
        backbone = ("labels and tokens of", f"{numbers.backbone.name} ({numbers.backbone.dtype}); not needed to decide")
        cap = ("context cap", f"none; labels were measured on at most {numbers.context_cap:,} tokens")
    threshold = "none: it abstains always" if numbers.risk_threshold is None else f"{numbers.risk_threshold:.6g}"
    rows = [
        ("version", numbers.version),
        ("kind", _KINDS[numbers.kind]),
        ("identity", files.identity),
        backbone,
        ("its identity", numbers.backbone.identity),
        ("most Blocks at once (K)", str(numbers.max_cardinality)),
        ("risk threshold (tau)", threshold),
        ("uncertainty coefficient (beta)", f"{numbers.uncertainty_coefficient:g}"),
        ("removal cap", f"{numbers.removal_cap:.0%} of a request"),
        ("harm tolerance", f"{numbers.harm_tolerance:g} nats per token"),
        cap,
        ("members", ", ".join(map(str, numbers.seeds))),
        ("feature layout", numbers.layout_hash),
        ("candidate rule", numbers.rule_version),
        ("renderer", numbers.renderer_version),
        (
            "features",
            numbers.features_version if light is None else f"{numbers.features_version}, {light.light_version}",
        ),
        *([] if light is None else [("tokenizer file", light.tokenizer_sha256)]),
        ("unlike its training states", _unlike(numbers)),
        ("made by drsr", numbers.drsr_version),
    ]
    lines = [table(("policy", ""), rows)]
    explanation = numbers.calibration.get("explanation")
    if explanation:
        lines += ["", f"calibration: {explanation}"]
    pruned = sum(item.expected.pruned for item in golden)
    lines += ["", f"golden requests: {len(golden)}, of which it prunes {pruned}"]
    lineage = _lineage(files)
    if lineage:
        links = [(excerpt(link["link"]), link["items"], excerpt(link["sha256"], 64)) for link in lineage]
        lines += ["", table(("lineage", "items", "SHA-256"), links)]
    return "\n".join(lines)


def describe_json(files: PolicyFiles, golden: Sequence[GoldenRequest]) -> dict[str, Any]:
    return {
        "identity": files.identity,
        "kind": files.numbers.kind,
        "numbers": files.numbers.to_json(),
        "golden": [{"name": item.name, "expected": item.expected.to_json()} for item in golden],
        "lineage": _lineage(files),
        "files": sorted(files.names),
    }


def _unlike(numbers: PolicyNumbers) -> str:
    known = numbers.distribution
    return "it does not say" if known is None else f"from distance {known.limit:g} on, by {known.states:,} states"


def _lineage(files: PolicyFiles) -> list[dict[str, Any]]:
    """Return the links, oldest first; empty if the policy was published without a lineage."""
    if LINEAGE_FILE not in files.others:
        return []
    try:
        links = json.loads(files.others[LINEAGE_FILE])["links"]
        return [
            {"link": str(link["link"]), "items": int(link["items"]), "sha256": str(link["sha256"])} for link in links
        ]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        what = f"cannot be read: {type(error).__name__}: {error}"
        raise PolicyCorrupt(what, where=LINEAGE_FILE, hint="install the drsr that the policy asks for") from None
