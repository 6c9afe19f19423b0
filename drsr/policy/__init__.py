"""A frozen policy: load it, ask it, verify it, compare it.

    load_policy("drsr-policy").prune(messages)   the request as it should be sent
    verify_files(...)                            whether a policy still gives its golden decisions

Policies published before this room existed import `Policy` from here.
"""

from drsr.policy.answer import Decision
from drsr.policy.loading import load_policy
from drsr.policy.policy import Policy

__all__ = ["Decision", "Policy", "load_policy"]
