"""Load a policy: from its folder, from its wheel, or by the name of its installed package.

The last two functions implement a policy package's `drsr_policy.load()` and `drsr_policy.verify()`.
"""

from __future__ import annotations

import os
from pathlib import Path

from drsr.backbone.catalogue import SCRIPTED
from drsr.backbone.memory import DEFAULT_MEGABYTES
from drsr.decide.distribution import DISTRIBUTION_FILE, read_distribution
from drsr.decide.numbers import PolicyNumbers
from drsr.decide.representation import LazyRepresentation, Representation, ScriptedRepresentation, checked
from drsr.policy.folder import PolicyFiles
from drsr.policy.golden import Verification, verify_files
from drsr.policy.light_representation import light_representation, refuse_other_tokens
from drsr.policy.location import read_found, read_installed
from drsr.policy.policy import Policy, Receipts
from drsr.request.contracts import Backbone
from drsr.sessions.price_table import PriceTable
from drsr.sessions.prices import Prices


def load_policy(
    location: str | os.PathLike[str] | None = None,
    *,
    backbone: str | Backbone | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory_mb: int = DEFAULT_MEGABYTES,
    receipts: Receipts | None = None,
    prices: Prices | PriceTable | None = None,
) -> Policy:
    """Load a policy from its folder, its wheel, or by the name of its installed package; by default `drsr_policy_light`
    if it is installed, else `drsr_policy`. With a device other than the CPU, or a `backbone`, the order is reversed.

    Every file is checked against its hash, and the backbone against the policy. `backbone` is another name for the same
    model (`path:/models/x`), or the model itself if it is already loaded; by default the one that the policy names. Its
    weights are read when the first eligible request comes, or by `policy.prepare()`. Raises PolicyCorrupt,
    PolicyMismatch, BackboneNotFetched (with the command that fetches it), MissingExtra, or SettingsError if there is no
    such device or dtype. Nothing that belongs to the policy is executed.

    A light policy needs no language model and no device; a `backbone` passed to it must count tokens the same way.
    A decision of a full policy takes at most `memory_mb` above the loaded model: by smaller forwards, otherwise the
    request goes through unchanged.

    `prices` are the prices that sessions use: one set for every model, or a table by model; by default the table that
    the setting `prices` names, else the list prices that ship with drsr.
    """
    full_first = backbone is not None or device not in (None, "cpu")
    files = read_found(None if location is None else os.fspath(location), full_first=full_first)
    return policy_of(
        files, backbone=backbone, device=device, dtype=dtype, memory_mb=memory_mb, receipts=receipts, prices=prices
    )


def policy_of(
    files: PolicyFiles,
    *,
    backbone: str | Backbone | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory_mb: int = DEFAULT_MEGABYTES,
    receipts: Receipts | None = None,
    prices: Prices | PriceTable | None = None,
) -> Policy:
    """Return the policy of files that were read already."""
    numbers = files.numbers
    if numbers.light is not None:
        representation: Representation = light_representation(files)
        if backbone is not None:
            refuse_other_tokens(representation, backbone)
    else:
        representation = _representation(numbers, backbone, device, dtype, memory_mb)
    table = PriceTable({}, prices) if isinstance(prices, Prices) else prices or PriceTable.chosen()
    distribution = None
    if numbers.distribution is not None:
        distribution = read_distribution(files.others[DISTRIBUTION_FILE], files.scorer.columns, DISTRIBUTION_FILE)
    return Policy(numbers, files.scorer, representation, receipts=receipts, prices=table, distribution=distribution)


def _representation(
    numbers: PolicyNumbers, backbone: str | Backbone | None, device: str | None, dtype: str | None, memory_mb: int
) -> Representation:
    if backbone is not None and not isinstance(backbone, str):
        if backbone.name == SCRIPTED:
            return ScriptedRepresentation()
        return checked(backbone, numbers.backbone.identity, numbers.layout_hash, memory_mb=memory_mb)
    name = backbone or numbers.backbone.name
    if name == SCRIPTED:
        return ScriptedRepresentation()
    return LazyRepresentation(
        name,
        numbers.backbone.identity,
        numbers.layout_hash,
        device=device or "cpu",
        dtype=dtype or numbers.backbone.dtype,
        memory_mb=memory_mb,
    )


def load_installed(
    init_file: str,
    *,
    backbone: str | Backbone | None = None,
    device: str | None = None,
    dtype: str | None = None,
    memory_mb: int = DEFAULT_MEGABYTES,
    receipts: Receipts | None = None,
) -> Policy:
    """Return the policy whose package has this `__init__.py`, every file checked; see `drsr.load_policy`."""
    files = read_installed(Path(init_file).parent)
    return policy_of(files, backbone=backbone, device=device, dtype=dtype, memory_mb=memory_mb, receipts=receipts)


def verify_installed(
    init_file: str, *, backbone: str | Backbone | None = None, device: str | None = None, dtype: str | None = None
) -> Verification:
    """Decide the policy's golden requests again. `verification.passed` is true if every result matches the published
    one."""
    folder = Path(init_file).parent
    files = read_installed(folder)
    policy = policy_of(files, backbone=backbone, device=device, dtype=dtype)
    return verify_files(policy, files, str(folder))
