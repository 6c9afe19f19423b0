"""Identities that outlive the code: labels, policies and receipts made long ago are found by these hashes.

Each was computed before the rooms were built. One that changes means that everything measured is lost or must be
measured again: raise the version that stands behind it, and say so in the changelog.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from drsr.backbone.catalogue import identity_of, load_config, load_tokenizer
from drsr.features.geometry import geometry_from
from drsr.features.spans import prefix_hash
from drsr.features.view_layouts import layout_of
from drsr.offline import samples
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.freeze.records import UnfrozenTrajectory, state_key
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.freeze.states import freeze_trajectory, rule_hash
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.exports import about_labels
from drsr.offline.label.records import configured_identity, target_hash
from drsr.receipts import receipt
from drsr.request.rendering import RENDERER_VERSION, render_output
from drsr.request.request import read_request
from drsr.request.view import caps_for

PINNED = {
    "tokenizer": "2928379f2f132a5004185204d6e9dff4201c2376b8fc09cb633a7804d05d9d17",
    "backbone": "658d4ff18f4e7b68de2c1144f7d3ff14dc6edafcca6a55835e7787ed3ea95702",
    "rule": "1690f9a10babdf06c16a5202aad48ade9234b917a196bc4b108c45492226226e",
    "renderer": "chatml/1",
    "layout": "6d21188c1d423ac9ad184a03f9778a17b28c7ac8d9689bae4426b94393c470b8",
    "run": "1e0a04b838b30a9fa9e07cb77398ad9bec0103b9108b1f7cd6ca8914e737f395",
    "request": "e4481df7b65274d691a068ea3958731c8e92bdd2e729e77fae02776b1086f72a",
    "prefix": "afc90250652d3bd3b7dc8c7571a476513eea32c8e5b870e67e0e3a93566a3a85",
    "state": "55de0b7b474d8147a28dd3b70d2292c8634a86d64bf9d645330a898600b3fe3a",
    "target": "bb785ea2ac0785183df9136d385d8b285630f082370d72942359c624f4997d5d",
    "labels": "3b97934f47fa1081b96a6304cf3224f9eaea51423597ed9d2f4cc4d0d22a35f7",
    "receipt": "5b659ac1004512b6e5930dd62bcad966e93a9c12aba068a296d8975b4fb4c9be",
    "split": "train",
}


@cache
def identities() -> dict[str, Any]:
    tokenizer, window = load_tokenizer("smollm2-135m")
    caps = caps_for(window)
    run = next(run for run in read_runs(str(samples.CORPUS)) if isinstance(run, Trajectory))
    first = freeze_trajectory(run, tokenizer, caps).states[0]
    recorded = UnfrozenTrajectory(0, "sandbox", run.external_id, run.content_hash, "")
    geometry = geometry_from(load_config("smollm2-135m"), "smollm2-135m")
    return {
        "tokenizer": tokenizer.identity,
        "backbone": identity_of("smollm2-135m"),
        "rule": rule_hash(caps),
        "renderer": RENDERER_VERSION,
        "layout": layout_of(geometry).hash,
        "run": run.content_hash,
        "request": content_key(first.state.history.request.to_wire()),
        "prefix": prefix_hash(first.state),
        "state": state_key(recorded, first.decision, freezing_rule(tokenizer, caps)),
        "target": target_hash(render_output(first.next_output, tokenizer)),
        "labels": content_key(about_labels(configured_identity("smollm2-135m", "float32", caps))),
        "receipt": receipt.request_hash(read_request(json.loads(samples.REQUEST.read_text()))),
        "split": assign_split(group_key("sandbox", run.external_id, run.task)),
    }


@pytest.mark.parametrize("name", PINNED)
def test_an_identity_is_what_it_always_was(name: str) -> None:
    assert identities()[name] == PINNED[name]


FLOATS = {"messages": [{"role": "user", "content": "Grüße"}], "temperature": 1e-05, "seed": 1e16, "top_p": 0.1}
"""Numbers that JSON writers spell differently."""


def test_a_catalog_and_a_receipt_spell_numbers_as_they_always_did() -> None:
    """A state's request is known by its content key, a receipt's by `request_hash`: two spellings, both kept."""
    assert content_key(FLOATS) == "787b78578650413bc3f02c80fae3a15293f8a780802b2c8fea78d87930157128"
    hashed = receipt.request_hash(read_request(FLOATS))
    assert hashed == "b51647a58e5fbcfddc0caca2d97a698f7e1e62448404286270aadc3448973a71"
