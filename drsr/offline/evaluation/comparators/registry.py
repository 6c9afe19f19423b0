"""Every comparator, in the order of the report's table, and those that cannot run here, with the reason."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple, Protocol

from drsr.contracts import Tokenizer
from drsr.offline.evaluation.comparators.acm import Acm
from drsr.offline.evaluation.comparators.acon_core import AconCore
from drsr.offline.evaluation.comparators.baseline import Baseline
from drsr.offline.evaluation.comparators.comem import CoMem
from drsr.offline.evaluation.comparators.contract import Comparator
from drsr.offline.evaluation.comparators.drsr_policy import DrsrPolicy
from drsr.offline.evaluation.comparators.langchain_clear_tool_uses import LangChainClearToolUses
from drsr.offline.evaluation.comparators.langchain_trim_messages import LangChainTrimMessages
from drsr.offline.evaluation.comparators.litellm_trim_messages import LiteLlmTrimMessages
from drsr.offline.evaluation.comparators.llmlingua2 import LlmLingua2
from drsr.offline.evaluation.comparators.lre import Lre, LreModel
from drsr.offline.evaluation.comparators.observation_masking import ObservationMasking
from drsr.offline.evaluation.comparators.openai_agents_trimmer import OpenAiAgentsTrimmer
from drsr.offline.evaluation.comparators.pace import Pace
from drsr.offline.evaluation.comparators.periodic_summary import PeriodicSummary
from drsr.offline.evaluation.comparators.sam import Sam
from drsr.offline.evaluation.comparators.sculptor import Sculptor
from drsr.offline.evaluation.comparators.self_gc import SelfGc
from drsr.offline.evaluation.comparators.selfcompact import SelfCompact
from drsr.offline.evaluation.comparators.sliding_window import SlidingWindow
from drsr.offline.evaluation.comparators.structural_pruning import StructuralPruning
from drsr.offline.evaluation.comparators.swe_pruner import SwePruner
from drsr.offline.evaluation.comparators.token_counts import SOURCE_WINDOW, TokenCounts
from drsr.policy import Policy


class NotAvailable(NamedTuple):
    """A row of the table that cannot run here."""

    name: str
    title: str
    reason: str


class Peer(Comparator, Protocol):
    """A comparator that runs a third-party package."""

    @property
    def package(self) -> str:
        """The name to import."""


class Registry(NamedTuple):
    """All rows of the table: no name is in both."""

    available: dict[str, Comparator]
    not_available: dict[str, NotAvailable]


def comparators(
    tokenizer: Tokenizer, *, window: int = SOURCE_WINDOW, lre: LreModel | None = None, policy: Policy | None = None
) -> Registry:
    """All rows, in order. `tokenizer` counts for budgets; `window` is the acting model's, in tokens; `lre` was trained
    by `fit_lre`, `policy` is DRSR's own row."""
    counts = TokenCounts(tokenizer, window)
    peers = (
        LangChainClearToolUses(counts),
        LangChainTrimMessages(counts),
        LangChainTrimMessages(counts, as_advised=True),
        LiteLlmTrimMessages(counts),
        OpenAiAgentsTrimmer(),
    )
    rows: list[Comparator | NotAvailable] = [
        Baseline(),
        *(SlidingWindow(steps) for steps in (5, 10, 20)),
        *(PeriodicSummary(every) for every in (3, 5)),
        StructuralPruning(),
        Pace(counts),
        LlmLingua2(counts),
        SelfCompact(counts),
        AconCore(counts),
        SelfGc(counts),
        Lre(lre, counts) if lre else NotAvailable("lre", "LRE", "not trained: no regression was handed in"),
        CoMem(),
        Sam(counts),
        SwePruner(),
        Sculptor(counts),
        Acm(counts),
        ObservationMasking(),
        *(_installed(peer) for peer in peers),
        NotAvailable(
            "openhands_condenser",
            "OpenHands condenser",
            "its package needs Python 3.12 or newer and cannot be installed beside Python 3.11",
        ),
        DrsrPolicy(policy) if policy else NotAvailable("drsr", "DRSR", "no policy was handed in"),
    ]
    missing = {row.name: row for row in rows if isinstance(row, NotAvailable)}
    return Registry({row.name: row for row in rows if not isinstance(row, NotAvailable)}, missing)


def _installed(peer: Peer) -> Comparator | NotAvailable:
    """The peer itself where its package is there."""
    if find_spec(peer.package) is not None:
        return peer
    return NotAvailable(peer.name, peer.title, f"the package {peer.package} is not installed")
