"""Pruning in the proxy: from a request's bytes to the bytes to send, with a record of the decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from drsr.adapters.recall_rounds import Rounds
from drsr.adapters.recall_wires import CHAT, IDEMPOTENCY_KEYS, MESSAGES, RESPONSES, JsonWire
from drsr.decide.decision import Reason
from drsr.proxy.bill import PricesOf, bill
from drsr.proxy.decider import Decided, Decider, NoRoom
from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.exchange import Exchange
from drsr.proxy.http.forms import history_is_upstream
from drsr.proxy.http.headers import credentials, is_encoded, values
from drsr.proxy.http.incoming import Incoming
from drsr.proxy.http.json_body import NotJson, Unreadable, as_bytes, parse_body, values_in
from drsr.proxy.http.modes import Mode, Modes
from drsr.proxy.http.refusals import Refusal, RefusalKind
from drsr.proxy.http.upstream import Recalls
from drsr.proxy.kill_switch import KillSwitch
from drsr.proxy.reasons import PRUNED, ProxyReason
from drsr.proxy.receipt_writer import ReceiptWriter
from drsr.proxy.worker_pool import WorkerPool
from drsr.request.json_values import MAX_REQUEST_CHARACTERS, VALUE_CHARACTERS

MOST_VALUES = MAX_REQUEST_CHARACTERS // VALUE_CHARACTERS
"""Maximum number of values: a request with more is not read by a policy, and so not parsed either."""
VALUE_BYTES = 128
"""Memory that a value takes once it is parsed, about: an empty list takes 64 bytes, a small object 240."""
PARSED_AT_ONCE = 64 * 1024
"""Bytes of a body that take less time to parse than to hand to another thread."""
PARSING = 256
"""Bodies that may wait to be parsed."""


_WIRES = {Endpoint.CHAT_COMPLETIONS: CHAT, Endpoint.MESSAGES: MESSAGES, Endpoint.RESPONSES: RESPONSES}
_BYTE_FOR_BYTE = frozenset(
    {
        *(ProxyReason.KILL_SWITCH, ProxyReason.STOPPING),
        *(Reason.UNREADABLE_REQUEST, Reason.INVALID_PROTOCOL),
    }
)
"""Reasons to send a request without the tool too. In front of all others it stays: a provider caches it."""


class Treated(NamedTuple):
    """A request in the form in which it is to be forwarded."""

    content: bytes
    """Bytes to forward: the original ones if nothing was removed."""
    parsed: dict[str, Any] | None = None
    """The original request, if it could be read; with the tool for recalls if that is sent."""
    meanwhile: asyncio.Task[Decided] | None = None
    """In shadow mode: the decision, which is made while the upstream is at work. `judge` it when it is made."""
    recalls: Recalls | None = None
    """State for recalls, if the model may ask for what was removed."""


class Pruning:
    """Between a request's bytes and the policy."""

    def __init__(
        self,
        decider: Decider,
        kill_switch: KillSwitch,
        receipts: ReceiptWriter | None,
        *,
        modes: Modes,
        prices_of: PricesOf = lambda model: None,
        recall: bool = False,
    ) -> None:
        self._decider = decider
        self._kill_switch = kill_switch
        self._receipts = receipts
        self._modes = modes
        self._prices_of = prices_of
        self._recall = recall
        self._parsing = WorkerPool("drsr-parse", workers=1, queue=PARSING)

    def left_alone(self, incoming: Incoming, exchange: Exchange) -> ProxyReason | None:
        """Return why a request is streamed through unread, or None if it is to be read."""
        mode = self._modes.of(incoming.headers)
        exchange.shadow = mode is Mode.SHADOW
        if mode is Mode.OFF:
            return ProxyReason.BYPASS
        if self._kill_switch.engaged:
            return ProxyReason.KILL_SWITCH
        return ProxyReason.ENCODED_BODY if is_encoded(incoming.headers) else None

    async def treat(
        self,
        incoming: Incoming,
        exchange: Exchange,
        body: bytes,
        take: Callable[[int], bool],
        *,
        recalls: bool = True,
    ) -> Treated | Refusal:
        """Ask the policy. A body that is not JSON is refused; a body that the policy cannot read is left for the
        upstream to judge; a body that is too large, or for which `take` has no room, is not even parsed. `recalls` says
        whether they can be answered."""
        values = values_in(body)
        if values > MOST_VALUES or not take(values * VALUE_BYTES):
            exchange.reason = ProxyReason.TOO_LARGE if values > MOST_VALUES else ProxyReason.BUSY
            return Treated(body)
        try:
            parsed = await self._parsed(body)
        except NotJson as error:
            return Refusal(RefusalKind.NOT_JSON, f"the request is not JSON: {error}")
        except Unreadable:
            parsed = None
        except NoRoom:
            exchange.reason = ProxyReason.BUSY
            return Treated(body)
        if not isinstance(parsed, dict):
            exchange.reason = Reason.UNREADABLE_REQUEST
            return Treated(body)
        if history_is_upstream(parsed):
            exchange.reason = ProxyReason.HISTORY_UPSTREAM
            return Treated(body)
        model = parsed.get("model")
        exchange.model = model if isinstance(model, str) else None
        wire = self._wire(incoming) if self._recall and recalls and not exchange.shadow else None
        with_tool = None if wire is None else wire.offered(parsed)
        offered = None if with_tool is None else dict(with_tool)
        deciding = self._decider.decide(offered or parsed, incoming.endpoint, credentials(incoming.headers))
        if exchange.shadow and incoming.endpoint is not Endpoint.DECIDE:
            exchange.reason = ProxyReason.SHADOW
            return Treated(body, parsed, asyncio.create_task(deciding))
        decided = await deciding
        left = self.judge(decided, exchange)
        if wire is None or offered is None or exchange.reason in _BYTE_FOR_BYTE:
            return Treated(left or body, parsed)
        content = left or await self._written(offered, len(body))
        if content is None:
            return Treated(body, parsed)
        recallable = None if left is None or decided.answer is None else decided.answer.recallable
        sent, outcome = (offered, None) if recallable is None else recallable
        return Treated(content, offered, recalls=Recalls(Rounds(wire, parsed, sent, outcome), body))

    def _wire(self, incoming: Incoming) -> JsonWire | None:
        """Return the form of an answer that can recall; None with an idempotency key, for which there is a single
        answer."""
        keyed = any(values(incoming.headers, name.encode()) for name in IDEMPOTENCY_KEYS)
        return None if keyed else _WIRES.get(incoming.endpoint)

    async def _written(self, body: Any, size: int) -> bytes | None:
        """Return the bytes of a body that arrived with that many; None if it cannot be written as it was read (half an
        emoji cannot), or if too many bodies are waiting."""
        try:
            if size <= PARSED_AT_ONCE:
                return as_bytes(body)
            future = self._parsing.submit(partial(as_bytes, body))
            if future is None:
                return None
            content: bytes = await asyncio.wrap_future(future)
            return content
        except (ValueError, RecursionError):
            return None

    async def _parsed(self, body: bytes) -> Any:
        """Return the body's value; a large one is parsed in a thread, and one at a time."""
        if len(body) <= PARSED_AT_ONCE:
            return parse_body(body)
        future = self._parsing.submit(partial(parse_body, body))
        if future is None:
            raise NoRoom
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        self._parsing.close(finish=False, timeout=0.0)

    def settle(self, exchange: Exchange) -> None:
        """Reckon what an exchange that has ended cost, and keep its receipt."""
        prices = self._prices_of(exchange.model)
        known = exchange.recalled is None or exchange.recalling is not None
        if exchange.usage is not None and prices is not None and known:
            exchange.bill = bill(
                prices, exchange.usage, exchange.tokens_saved, exchange.session, recalling=exchange.recalling
            )
        if self._receipts is None or exchange.receipt is None:
            return
        about = {
            "endpoint": exchange.endpoint.value,
            "reason": str(exchange.reason),
            "applied": exchange.reason == PRUNED,
            "status": exchange.status,
            "bill": None if exchange.bill is None else exchange.bill._asdict(),
        }
        used = None if exchange.usage is None else exchange.usage._asdict()
        recalled = None
        if exchange.recalled is not None:
            recalling = exchange.recalling
            recalled = {
                **exchange.recalled._asdict(),
                "usage": None if recalling is None else recalling._asdict(),
            }
        self._receipts.write(
            {**exchange.receipt, "recalled": recalled, "usage": used, "success": exchange.succeeded}, about
        )

    def judge(self, decided: Decided, exchange: Exchange) -> bytes | None:
        """Return the bytes to send instead, after asking switch and mode, and record the decision."""
        answer = decided.answer
        exchange.decision_milliseconds = decided.milliseconds
        exchange.reason = decided.reason
        if exchange.shadow:
            exchange.reason, exchange.shadow_reason = ProxyReason.SHADOW, decided.reason
        elif self._kill_switch.engaged:  # it may have been thrown while we decided
            exchange.reason = ProxyReason.KILL_SWITCH
        if answer is None:
            return None
        applied = answer.pruned and exchange.reason == decided.reason
        exchange.decision, exchange.tokens_before = answer.id, answer.tokens_before
        exchange.tokens_saved = answer.tokens_saved if applied else 0
        exchange.shadow_saved = answer.tokens_saved if exchange.shadow_reason else 0
        exchange.receipt = answer.receipt
        exchange.session = answer.session
        exchange.outside = answer.outside
        return answer.content if applied else None
