"""The functions behind a policy package's `drsr_policy.load()` and `drsr_policy.verify()`."""

from __future__ import annotations

from pathlib import Path

from drsr.policy.golden import Verification, verify_files
from drsr.policy.location import read_installed
from drsr.policy.policy import Policy, Receipts, policy_of
from drsr.request.contracts import Backbone


def load_installed(
    init_file: str,
    *,
    backbone: str | Backbone | None = None,
    device: str | None = None,
    dtype: str | None = None,
    receipts: Receipts | None = None,
) -> Policy:
    """The policy whose package has this `__init__.py`, every file checked; see `drsr.load_policy`."""
    files = read_installed(Path(init_file).parent)
    return policy_of(files, backbone=backbone, device=device, dtype=dtype, receipts=receipts)


def verify_installed(
    init_file: str, *, backbone: str | Backbone | None = None, device: str | None = None, dtype: str | None = None
) -> Verification:
    """Decide the policy's golden requests again. `verification.passed` says whether all came out as published."""
    folder = Path(init_file).parent
    files = read_installed(folder)
    policy = policy_of(files, backbone=backbone, device=device, dtype=dtype)
    return verify_files(policy, files, str(folder))
