"""Thin adapters: a frozen policy in front of the model call of each framework. Importing this needs no framework.

Every adapter shows the model a view: what is stored is never changed, and whatever goes wrong, what was given is sent.
All take the same options (`drsr/adapters/pruner.py`), and a policy's session wherever they take a policy.
"""

from drsr.adapters.bypass import bypass
from drsr.adapters.pruner import Options, Pruner

__all__ = ["Options", "Pruner", "bypass"]
