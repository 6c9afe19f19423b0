"""`drsr.policy.golden` under the name that policies published before import."""

from drsr.policy.golden import Verification

__all__ = ["Verification"]
