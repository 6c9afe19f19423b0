"""DRSR removes old history Blocks from an agent's next request, as learned from exactly measured harm.

    from drsr import load_policy

    policy = load_policy("policies/2026.11.16")
    decision = policy.prune(messages, tools=tools)

Nothing here needs more than numpy and safetensors. Everything that may know the future is in `drsr.offline`.
"""

from drsr.decide.candidates import Candidate, DecisionState, Ineligible, IneligibleReason, freeze
from drsr.decide.decision import Reason
from drsr.decide.deletion_sets import DeletionSet, deletion_sets
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.errors import (
    AlignmentError,
    BackboneError,
    DrsrError,
    InputError,
    MissingExtra,
    PolicyCorrupt,
    PolicyError,
    PolicyMismatch,
    RequestError,
)
from drsr.policy.answer import Decision
from drsr.policy.loading import load_policy
from drsr.policy.policy import Policy
from drsr.receipts.receipt_file import ReceiptFile
from drsr.request.history import Block, BlockKind, History, Step, delete, read_history
from drsr.request.protocol import Violation, ViolationKind, violations
from drsr.request.rendering import Rendering, render
from drsr.request.request import Request, read_request
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import PruningSession
from drsr.version import __version__

__all__ = [
    "AlignmentError",
    "BackboneError",
    "BackboneNumbers",
    "Block",
    "BlockKind",
    "Candidate",
    "Decision",
    "DecisionState",
    "DeletionSet",
    "DrsrError",
    "History",
    "Ineligible",
    "IneligibleReason",
    "InputError",
    "MissingExtra",
    "Policy",
    "PolicyCorrupt",
    "PolicyError",
    "PolicyMismatch",
    "PolicyNumbers",
    "Prices",
    "PruningSession",
    "Reason",
    "ReceiptFile",
    "Rendering",
    "Request",
    "RequestError",
    "Step",
    "Violation",
    "ViolationKind",
    "__version__",
    "delete",
    "deletion_sets",
    "freeze",
    "load_policy",
    "read_history",
    "read_request",
    "render",
    "violations",
]
