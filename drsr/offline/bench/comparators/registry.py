"""Every comparator, in the order of the report's table, and those that cannot run here, with the reason."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from drsr.offline.bench.comparators.acm import Acm
from drsr.offline.bench.comparators.acon_core import AconCore
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.comem import CoMem
from drsr.offline.bench.comparators.contract import Comparator, Peer
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.handed_models import HandedModels
from drsr.offline.bench.comparators.langchain_clear_tool_uses import LangChainClearToolUses
from drsr.offline.bench.comparators.langchain_trim_messages import LangChainTrimMessages
from drsr.offline.bench.comparators.litellm_trim_messages import LiteLlmTrimMessages
from drsr.offline.bench.comparators.llmlingua2 import LlmLingua2
from drsr.offline.bench.comparators.lre import Lre, LreModel
from drsr.offline.bench.comparators.observation_masking import ObservationMasking
from drsr.offline.bench.comparators.openai_agents_trimmer import OpenAiAgentsTrimmer
from drsr.offline.bench.comparators.openhands_condenser import OpenHandsCondenser
from drsr.offline.bench.comparators.pace import Pace
from drsr.offline.bench.comparators.periodic_summary import PeriodicSummary
from drsr.offline.bench.comparators.sam import Sam
from drsr.offline.bench.comparators.sculptor import Sculptor
from drsr.offline.bench.comparators.self_gc import SelfGc
from drsr.offline.bench.comparators.selfcompact import SelfCompact
from drsr.offline.bench.comparators.sliding_window import SlidingWindow
from drsr.offline.bench.comparators.structural_pruning import StructuralPruning
from drsr.offline.bench.comparators.swe_pruner import SwePruner
from drsr.offline.bench.comparators.token_counts import SOURCE_WINDOW, TokenCounts
from drsr.policy.policy import Policy
from drsr.request.contracts import Tokenizer

NO_MODELS = HandedModels()
OPENHANDS_PYTHON = (3, 12)
"""The oldest Python that OpenHands' package can be installed on."""


class NotAvailable(NamedTuple):
    """A row of the table that cannot run here."""

    name: str
    title: str
    reason: str


class Registry(NamedTuple):
    """All rows of the table: no name is in both."""

    available: dict[str, Comparator]
    not_available: dict[str, NotAvailable]
    counts: tuple[TokenCounts, ...] = ()
    """Token counters of the methods, one each."""

    def forget(self) -> None:
        """Forget what was counted: a method's time then does not depend on the runs that were rewritten before."""
        for counts in self.counts:
            counts.forget()


def comparators(
    tokenizer: Tokenizer,
    *,
    window: int = SOURCE_WINDOW,
    lre: LreModel | None = None,
    policy: Policy | None = None,
    models: HandedModels = NO_MODELS,
    wanted: Collection[str] | None = None,
) -> Registry:
    """Return all rows, in order. `tokenizer` counts for budgets; `window` is that of the acting model, in tokens; `lre`
    was trained by `fit_lre`, `policy` is DRSR's own row, `models` take the place of stand-ins. Only the packages of
    `wanted` rows are tried: importing them takes seconds."""
    every: list[TokenCounts] = []

    def counts() -> TokenCounts:
        """Return a counter for one method alone: a shared one would make a method look fast after another had
        counted."""
        every.append(TokenCounts(tokenizer, window))
        return every[-1]

    def tried(peer: Peer) -> bool:
        return wanted is None or peer.name in wanted

    peers: tuple[Peer, ...] = (
        LangChainClearToolUses(counts()),
        LangChainTrimMessages(counts()),
        LangChainTrimMessages(counts(), as_advised=True),
        LiteLlmTrimMessages(counts()),
        OpenAiAgentsTrimmer(),
        OpenHandsCondenser(counts()),
    )
    rows: list[Comparator | NotAvailable] = [
        Baseline(),
        *(SlidingWindow(steps) for steps in (5, 10, 20)),
        *(PeriodicSummary(every) for every in (3, 5)),
        StructuralPruning(),
        Pace(counts(), models.pace),
        LlmLingua2(counts(), models.llmlingua2),
        SelfCompact(counts()),
        AconCore(counts()),
        SelfGc(counts()),
        Lre(lre, counts()) if lre else NotAvailable("lre", "LRE", "not trained: no regression was handed in"),
        CoMem(),
        Sam(counts()),
        SwePruner(models.swe_pruner),
        Sculptor(counts()),
        Acm(counts()),
        ObservationMasking(),
        *(too_old_for(peer, sys.version_info[:2]) or (usable(peer) if tried(peer) else peer) for peer in peers),
        DrsrPolicy(policy) if policy else NotAvailable("drsr", "DRSR", "no policy was handed in"),
    ]
    missing = {row.name: row for row in rows if isinstance(row, NotAvailable)}
    return Registry({row.name: row for row in rows if not isinstance(row, NotAvailable)}, missing, tuple(every))


def usable(peer: Peer) -> Comparator | NotAvailable:
    """Return the peer itself if its package is installed and has what it needs."""
    installed = _version(peer.package)
    if installed is None:
        return NotAvailable(peer.name, peer.title, f"the package {peer.package} is not installed")
    try:
        peer.load()
    except Exception as error:  # an old version, or a module of somebody else's under the same name
        said = f"what is needed of {peer.package} {installed} cannot be imported: {type(error).__name__}: {error}"
        return NotAvailable(peer.name, peer.title, said)
    return peer


def too_old_for(peer: Peer, python: tuple[int, int]) -> NotAvailable | None:
    """Return the reason if the package cannot even be installed on this Python."""
    if not isinstance(peer, OpenHandsCondenser) or python >= OPENHANDS_PYTHON:
        return None
    said = f"its package needs Python 3.12 or newer, and this is {python[0]}.{python[1]}"
    return NotAvailable(peer.name, peer.title, said)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
