"""The whole proxy as one ASGI application: a few pages, and the upstream for everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from drsr.policy.policy import Policy
from drsr.proxy.activity import CONTENT_TYPE, Activity
from drsr.proxy.admission import Admission, Budget
from drsr.proxy.decider import Decider
from drsr.proxy.http.forwarding import Forwarding, Parts
from drsr.proxy.http.sites import Sites
from drsr.proxy.http.upstream import Upstream
from drsr.proxy.kill_switch import KillSwitch
from drsr.proxy.page import page_routes
from drsr.proxy.pruning import Pruning
from drsr.proxy.receipt_writer import ReceiptWriter
from drsr.proxy.settings import ProxySettings
from drsr.proxy.websockets.tunnel import Tunnels
from drsr.sessions.conversations import Conversations
from drsr.version import __version__


class ProxyApp:
    """An ASGI application for one event loop. Its parts live from the server's start to its end."""

    def __init__(self, policy: Policy, settings: ProxySettings) -> None:
        """Raise InputError if the receipts cannot be written."""
        self.policy = policy
        self.settings = settings
        self.activity = Activity()
        self._sites = Sites(settings.hosts)
        self.tunnels = Tunnels(
            settings.upstream,
            self._sites,
            connect_timeout=settings.connect_timeout,
            timeout=settings.upstream_timeout,
            count=self.activity.websockets.inc,
            parts=self._running,
        )
        self.kill_switch = KillSwitch(settings.kill_file)
        self.parts: Parts | None = None
        routes = [
            Route("/healthz", self._health),
            Route("/metrics", self._metrics),
            Route("/drsr/state.json", self._state),
            *page_routes(),
        ]
        self._own_paths = {route.path for route in routes}
        self._own = Starlette(routes=routes, lifespan=self._lifespan)
        self._receipts = _receipt_writer(settings, self.activity)
        self._watch()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._sites.refusal(scope["headers"]) if scope["type"] == "http" else None
        own = scope["type"] != "http" or (scope["method"] in ("GET", "HEAD") and scope["path"] in self._own_paths)
        if own and refusal is None:
            await self._own(scope, receive, send)
        else:
            await Forwarding(self._running(), refusal)(scope, receive, send)

    def _running(self) -> Parts:
        assert self.parts is not None, "the server has not started"
        return self.parts

    @property
    def mode(self) -> str:
        """Return what happens to requests at this moment: `off`, `shadow` or `pruning`."""
        return "off" if self.kill_switch.engaged else "shadow" if self.settings.shadow else "pruning"

    @property
    def still_reading(self) -> bool:
        """Return whether the language model is at work."""
        return "reader" in self.policy.__dict__ and self.policy.reader.in_flight > 0

    def give_up_decisions(self) -> None:
        """Give up decisions in progress, because the server is about to end: their requests go through unchanged."""
        if self.parts is not None:
            self.parts.decider.give_up()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        settings = self.settings
        upstream = Upstream(
            settings.upstream, connect_timeout=settings.connect_timeout, timeout=settings.upstream_timeout
        )
        decider = Decider(
            self.policy,
            deadline=settings.deadline,
            workers=settings.workers,
            queue=settings.queued_decisions,
            conversations=_conversations(self.policy, settings, self.activity.forgotten.inc),
            protect=settings.protect,
            receipts=self._receipts.record if self._receipts else None,
            late=self.activity.late.inc,
            recall=settings.recall,
        )
        pruning = Pruning(
            decider,
            self.kill_switch,
            self._receipts,
            modes=settings.modes,
            prices_of=settings.prices_of,
            recall=settings.recall,
        )
        self.parts = Parts(
            settings,
            Admission(settings.max_concurrent, settings.patience),
            Budget(settings.memory),
            decider,
            pruning,
            upstream,
            self.activity,
            set(),
        )
        try:
            yield
        finally:
            pruning.close()
            decider.close()
            await upstream.close()
            if self._receipts is not None:
                self._receipts.close()

    def _watch(self) -> None:
        """Register the gauges."""
        watch, policy = self.activity.watch, self.policy
        watch("drsr_requests_in_flight", "Requests on their way.", lambda: self._now()["in_flight"])
        watch("drsr_requests_waiting", "Requests that wait to be let in.", lambda: self._now()["waiting"])
        watch("drsr_held_bytes", "Memory taken by requests on their way.", lambda: self._now()["held_bytes"])
        watch("drsr_decisions_running", "Decisions being made.", lambda: self._now()["deciding"])
        watch("drsr_decisions_waiting", "Decisions that wait for a worker.", lambda: self._now()["undecided"])
        watch("drsr_sessions", "Conversations remembered.", lambda: self._now()["sessions"])
        watch("drsr_kill_switch", "1 while the kill file exists.", lambda: self.kill_switch.engaged)
        watch("drsr_shadow", "1 where nothing is changed.", lambda: self.settings.shadow)
        watch("drsr_start_time_seconds", "When the proxy started, since 1970.", lambda: self.activity.started)
        labels = {
            "version": policy.version,
            "identity": policy.identity,
            "backbone": policy.numbers.backbone.name,
        }
        watch("drsr_policy_info", "Always 1; the labels say which policy.", lambda: 1, labels)

    def _now(self) -> dict[str, int]:
        """Return how many requests and decisions are running and waiting."""
        admission, decider = self._running().admission, self._running().decider
        return {
            "in_flight": admission.inside,
            "waiting": admission.waiting,
            "held_bytes": self._running().budget.taken,
            "deciding": decider.running,
            "undecided": decider.waiting,
            "sessions": len(decider.conversations) if decider.conversations is not None else 0,
        }

    async def _health(self, _: Request) -> Response:
        """Answer that the proxy itself runs. The upstream is not asked."""
        return JSONResponse(
            {"status": "ok", "mode": self.mode, "drsr": __version__, "policy": self.policy.version},
            headers={"cache-control": "no-store"},
        )

    async def _metrics(self, _: Request) -> Response:
        return Response(self.activity.exposition(), media_type=CONTENT_TYPE)

    async def _state(self, _: Request) -> Response:
        state: dict[str, Any] = {
            "mode": self.mode,
            "drsr": __version__,
            "policy": {
                "version": self.policy.version,
                "kind": self.policy.numbers.kind,
                "backbone": self.policy.numbers.backbone.name,
            },
            "upstream": str(self.settings.upstream),
            "currency": self.settings.currency,
            "deadline_milliseconds": 1000 * self.settings.deadline,
            "session_mode": self.settings.sessions is not None,
            "recall": self.settings.recall,
            **self._now(),
            **self.activity.to_json(),
        }
        return JSONResponse(state, headers={"cache-control": "no-store"})


def _conversations(policy: Policy, settings: ProxySettings, forgot: Callable[[], None]) -> Conversations | None:
    wanted = settings.sessions
    if wanted is None:
        return None
    return Conversations(lambda: policy.session(wanted.prices, wanted.expected_calls), wanted.limit, forgot)


def _receipt_writer(settings: ProxySettings, activity: Activity) -> ReceiptWriter | None:
    if settings.receipts is None:
        return None

    def counted(outcome: str) -> None:
        activity.receipts.labels(outcome).inc()

    return ReceiptWriter(settings.receipts, keep_text=settings.keep_text, counted=counted)
