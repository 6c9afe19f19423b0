"""`drsr.policy.installed` under the name that policies published before import."""

from drsr.policy.installed import load_installed, verify_installed

__all__ = ["load_installed", "verify_installed"]
