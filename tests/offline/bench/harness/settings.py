"""What the tests of the harness share: a quick setting without a language model, and episodes written by hand."""

from __future__ import annotations

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.contract import Keep, Rewrite, Trained
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.harness.context_dependent_agent import ContextDependentAgent
from drsr.offline.bench.harness.episode import ANSWERED, Episode, Sent, Setting
from drsr.offline.bench.harness.manifest import ManifestTask
from drsr.offline.bench.harness.sandbox_suite import SandboxSuite
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request

BALANCE = ManifestTask("office/open_balance/640-001", "office")
ORDER = ManifestTask("web/order/640-000", "web")
"""Two tasks without a subprocess."""


def quick_setting(step_limit: int = 24, window: int = 128_000) -> Setting:
    tokenizer = ScriptedTokenizer()
    return Setting(
        SandboxSuite(),
        ContextDependentAgent(tokenizer),
        ScriptedSummariser(tokenizer),
        TokenCounts(tokenizer, window),
        step_limit,
    )


class OnlyTheTask:
    """A method that deletes everything behind the task but the newest `kept` messages."""

    title = "Only the task"
    assumptions: tuple[str, ...] = ()
    trained: Trained = "no"
    asks = False
    keeps: frozenset[Keep] = frozenset()

    def __init__(self, kept: int, name: str = "only_the_task") -> None:
        self.kept = kept
        self.name = name

    def begin(self) -> None:
        return None

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        first = max(2, len(request.messages) - self.kept)
        while first < len(request.messages) and request.messages[first].role == "tool":
            first -= 1  # a result stays with its call
        messages = [*request.messages[:2], *request.messages[first:]]
        if len(messages) == len(request.messages):
            return Rewrite(request)
        return Rewrite(request.with_messages(messages))


def episode(
    task: str,
    domain: str,
    method: str,
    *,
    reward: float = 1.0,
    sent: tuple[Sent, ...] = (Sent(100, 10, 0, 0, 0, 0, 0),),
    seed: int = 0,
    ending: str = ANSWERED,
    repeated_calls: int = 0,
) -> Episode:
    """Written by hand."""
    return Episode(task, domain, method, method.title(), "no", "", seed, reward, ending, sent, repeated_calls, 0, 0, 0)
