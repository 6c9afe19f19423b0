"""DRSR: which old history Blocks can be deleted from an agent's next request, learned from exactly measured harm.

    from drsr import read_request, freeze, deletion_sets

Nothing here needs more than numpy and safetensors. Everything that may know the future is in `drsr.offline`.
"""

from drsr.candidates import Candidate, DecisionState, Ineligible, IneligibleReason, freeze
from drsr.deletion_sets import DeletionSet, deletion_sets
from drsr.errors import AlignmentError, BackboneError, DrsrError, InputError, MissingExtra, RequestError
from drsr.history import Block, BlockKind, History, Step, delete, read_history
from drsr.protocol import Violation, ViolationKind, violations
from drsr.rendering import Rendering, render
from drsr.request import Request, read_request

__version__ = "0.1.0"

__all__ = [
    "AlignmentError",
    "BackboneError",
    "Block",
    "BlockKind",
    "Candidate",
    "DecisionState",
    "DeletionSet",
    "DrsrError",
    "History",
    "Ineligible",
    "IneligibleReason",
    "InputError",
    "MissingExtra",
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
    "read_history",
    "read_request",
    "render",
    "violations",
]
