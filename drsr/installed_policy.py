"""`drsr.policy.loading` under the name that policies published before import."""

from drsr.policy.loading import load_installed, verify_installed

__all__ = ["load_installed", "verify_installed"]
