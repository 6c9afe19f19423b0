"""OpenHands' `LLMSummarizingCondenser`: a long history is forgotten in its middle, and a summary says what was there.

The SDK's own condenser does it, with the settings of its default agent: it acts over 80 events or over the acting
model's window, keeps the first 4 events and as many of the latest as half of that allows, and if the window is too
small for that and nothing is left to forget, everything except the system prompt is summarised. It cuts between whole
tool exchanges. Like its agent, we call it again after it has condensed.

The model it calls is our summariser, as a subclass of the package's `LLM`. Tokens are counted by the package.

Assumptions. A call is an event of a tool over MCP, as calls of foreign tools are in OpenHands; of an event the package
shows its model 500 characters, and of a call no arguments. The summary is a user message of its own, whereas the
package merges it with an adjacent one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from drsr.errors import SummariserFailed
from drsr.offline.bench.comparators.contract import Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.openhands_events import Events, Sdk, events_of, from_events
from drsr.offline.bench.comparators.peer_messages import running, tell
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.request import Request

MAX_EVENTS = 80
KEEP_FIRST = 4
SUMMARY_TOKENS = 1024
ROUNDS = 3
"""Maximum number of condensations per decision. If the first events alone exceed the window it would never end."""
_QUIET = {
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LOG_AUTO_CONFIG": "false",  # or importing it sets up the root logger
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or importing it asks the network for prices
}


@dataclass
class Condensations:
    """One trajectory's condensations, in order."""

    made: list[tuple[int, Any]] = field(default_factory=list)
    """Condensations made, each with the number of messages passed at the time."""


class OpenHandsCondenser:
    """Asks the package."""

    name = "openhands_condenser"
    title = "OpenHands condenser"
    package = "openhands-sdk"
    assumptions = (
        "The settings of the package's default agent: over 80 events, or over the window by the package's count, all "
        "but the first 4 events and the latest, up to half of that, is summarised; in at most 1,024 tokens.",
        "Calls are told as calls of MCP tools; of an event the package shows its model 500 characters, of a call no "
        "arguments. Tool definitions and reasoning are not told.",
        "It is asked until it condenses no more, and condenses three times at one decision at most.",
        "The summary is a message of the user's of its own.",
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS})

    def __init__(self, counts: TokenCounts) -> None:
        self._window = counts.window

    def begin(self) -> Condensations:
        return Condensations()

    def load(self) -> Sdk:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        sdk = Sdk(
            condenser=import_module("openhands.sdk.context.condenser"),
            view=import_module("openhands.sdk.context.view"),
            event=import_module("openhands.sdk.event"),
            llm=import_module("openhands.sdk.llm"),
            mcp=import_module("openhands.sdk.mcp.definition"),
        )
        sdk.check()
        # It would write a line for every call without a result, at every decision.
        logging.getLogger("openhands.sdk.context").setLevel(logging.CRITICAL)
        return sdk

    def rewrite(self, request: Request, state: Condensations, summariser: Summariser) -> Rewrite:
        told, ledger = tell(request), Ledger()
        asked = _Asked(summariser, ledger)
        try:
            with running(self.package):
                sdk = self.load()
                events = events_of(sdk, request, told)
                view = self._condensed(sdk, events, state, asked)
                shown = from_events(sdk, request, told, view.events) if state.made else request
        finally:
            if asked.failed is not None:
                raise asked.failed
        return ledger.rewrite(shown)

    def _condensed(self, sdk: Sdk, events: Events, state: Condensations, asked: _Asked) -> Any:
        """Return what the package would send, after as many condensations as it wants."""
        model = _model_class(sdk)(model="summariser")
        model._asked = asked
        condenser = sdk.condenser.LLMSummarizingCondenser(
            llm=model, max_size=MAX_EVENTS, keep_first=KEEP_FIRST, max_tokens=self._window
        )
        view = sdk.view.View.from_events(_log(events, state))
        for _ in range(ROUNDS):
            found = condenser.condense(view, agent_llm=model)
            if isinstance(found, sdk.view.View):
                return found
            state.made.append((len(events), found))
            view = sdk.view.View.from_events(_log(events, state))
        return view


class _Asked:
    """The summariser, in the role of the package's model. The package treats any error as one bad answer and goes on;
    if every question would fail the run must stop, so that error is kept."""

    def __init__(self, summariser: Summariser, ledger: Ledger) -> None:
        self._summariser = summariser
        self._ledger = ledger
        self.failed: SummariserFailed | None = None

    def answer(self, messages: Sequence[Any]) -> str:
        if self.failed is not None:
            raise self.failed
        texts = [(message.role, "".join(part.text for part in message.content)) for message in messages]
        instructions = "\n\n".join(text for role, text in texts if role == "system")
        material = "\n\n".join(text for role, text in texts if role != "system")
        try:
            return self._ledger.paid(self._summariser.complete(Ask("summary", instructions, material, SUMMARY_TOKENS)))
        except SummariserFailed as error:
            self.failed = error
            raise


@cache
def _model_class(sdk: Sdk) -> Any:
    """Return a class of the package's models that calls only the summariser. Creating the class takes longer than using
    it."""

    class AskedModel(sdk.llm.LLM):  # type: ignore[misc, name-defined]
        """Answers what a condenser asks."""

        _asked: Any = None

        def generate(self, messages: Any, **options: Any) -> Any:
            text = sdk.llm.TextContent(text=self._asked.answer(messages))
            return sdk.llm.LLMResponse.model_construct(  # unchecked: there is no response of LiteLLM's to wrap
                message=sdk.llm.Message(role="assistant", content=[text]),
                metrics=sdk.llm.MetricsSnapshot(),
                raw_response=SimpleNamespace(id="summary"),
            )

        completion = generate  # what the condensers of 1.20 and 1.40 call

    return AskedModel


def _log(events: Events, state: Condensations) -> list[Any]:
    """Events and condensations in the order in which they came to be."""
    log: list[Any] = []
    done = 0
    for until, condensation in state.made:
        log += [event for group in events[done:until] for event in group]
        log.append(condensation)
        done = until
    return log + [event for group in events[done:] for event in group]
