"""Thin adapters: a frozen policy in front of the model call of each framework. Importing this needs no framework.

Every adapter shows the model a view: what is stored is never changed, and whatever goes wrong, what was given is sent.
All take the same options (`drsr/adapters/pruner.py`), and the session of a run, or `Sessions`, in a policy's place.
"""

from drsr.adapters.pruner import AnyPolicy, Options, Pruner, bypass
from drsr.sessions.many_runs import Sessions

__all__ = ["AnyPolicy", "Options", "Pruner", "Sessions", "bypass"]
