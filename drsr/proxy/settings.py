"""The settings of `drsr serve`, with the reasons for the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from drsr.errors import SettingsError
from drsr.proxy.http.modes import Mode, Modes
from drsr.redaction import redact
from drsr.request.history import Protect
from drsr.sessions.conversations import REMEMBERED
from drsr.sessions.price_table import PriceTable
from drsr.sessions.prices import Prices

DEFAULT_CURRENCY = "USD"
DEFAULT_PORTS = {"http": 80, "https": 443}


class UpstreamUrl(NamedTuple):
    """The address that all requests go to. Fixed at start: nothing in a request can change it."""

    scheme: str
    host: str
    port: int
    prefix: str
    """Prefix of every request's path; empty, or with a leading slash and no trailing one."""

    @classmethod
    def parse(cls, text: str) -> UpstreamUrl:
        """Parse `https://host[:port][/prefix]`. SettingsError says what is not allowed."""
        shown = f"--upstream {redact(text)}"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise SettingsError(f"not a URL: {error}", where="--upstream") from None
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise SettingsError(
                "not the URL of an HTTP server", where=shown, hint="such as https://api.openai.com, without /v1"
            )
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise SettingsError(
                "a user, a password, a query or a fragment",
                where=shown,
                hint="clients send their own keys in headers, which are forwarded",
            )
        prefix = parts.path.rstrip("/")
        if not prefix.isascii() or not prefix.isprintable() or " " in prefix:
            raise SettingsError("a path that is not percent-encoded", where=shown)
        if prefix == "/v1" or prefix.endswith("/v1"):
            raise SettingsError(
                "ends in /v1, with which the path of every request begins already",
                where=shown,
                hint=f"--upstream {parts.scheme}://{parts.netloc}{prefix.removesuffix('/v1')}",
            )
        return cls(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], prefix)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.prefix}"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """For sessions that respect the provider's prompt cache."""

    prices: Prices | PriceTable
    """Prices of every model, or by model."""
    expected_calls: int | None = None
    """Usual number of calls of a conversation, if known."""
    limit: int = REMEMBERED
    """Conversations remembered at once."""

    def __post_init__(self) -> None:
        _require(self.expected_calls is None or self.expected_calls >= 1, "--expected-calls", "at least 1")
        _require(self.limit >= 1, "--max-sessions", "at least 1")


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The settings of one proxy. A wrong value is a SettingsError."""

    upstream: UpstreamUrl
    kill_file: Path
    """While this file exists nothing is pruned."""
    shadow: bool = False
    """Decide and record, change nothing."""
    keys: Mapping[str, Mode] = field(default_factory=dict)
    """Mode of the requests with an API key, by the key's SHA-256."""
    receipts: Path | None = None
    """File that receipts are appended to."""
    keep_text: bool = False
    """True if receipts hold the requests themselves."""
    protect: Protect | None = None
    """Pins every Block for which it returns True."""
    prices: PriceTable | None = None
    """Prices of the models, to report what was saved; with sessions, the sessions' own."""
    sessions: SessionSettings | None = None
    recall: bool = False
    """Offer models a tool that returns what was removed, and answer its calls."""
    warm: bool = False
    """Read each answer as it arrives, so that the next decision of its conversation finds it read."""
    deadline: float = 5.0
    """Seconds that a decision may take, waiting included. Later, the request goes through unchanged."""
    workers: int = 1
    """Number of decisions made at once. A single decision already uses all cores, so more workers only help if the
    backbone is on a GPU."""
    queued_decisions: int = 512
    """Number of decisions that may wait for a worker, none of them longer than its deadline; their memory counts
    towards `memory`. Further requests go through unchanged."""
    max_body: int = 32 * 1024 * 1024
    """Bytes of a request that is to be pruned; it is held in memory. Larger ones and others are streamed."""
    memory: int = 512 * 1024 * 1024
    """Bytes that all requests on their way may take together. Those that find no room are streamed, too."""
    hosts: tuple[str, ...] = ()
    """Names, in addition to this machine's own, under which clients reach the proxy."""
    max_concurrent: int = 256
    """Requests on their way at once."""
    patience: float = 10.0
    """Seconds that a request waits while there are that many, before it is refused."""
    max_connections: int = 1024
    """Connections of clients that are open at once."""
    head_timeout: float = 15.0
    """Seconds that the head of a request may take."""
    write_timeout: float = 60.0
    """Seconds for which a client may leave its answer unread once some of it is waiting."""
    body_timeout: float = 60.0
    """Seconds without a byte from the client before its request is given up."""
    connect_timeout: float = 10.0
    """Seconds until the upstream must have taken the connection."""
    upstream_timeout: float = 600.0
    """Seconds without a byte from the upstream. Long: a model may think for minutes before its first word."""

    @property
    def modes(self) -> Modes:
        """Return the mode of pruning, and that of each key."""
        return Modes(Mode.SHADOW if self.shadow else Mode.ON, self.keys)

    def prices_of(self, model: str | None) -> Prices | None:
        """Return the prices of a model; None if they are unknown."""
        prices = self.sessions.prices if self.sessions is not None else self.prices
        return prices.of(model) if isinstance(prices, PriceTable) else prices

    @property
    def currency(self) -> str:
        prices = self.sessions.prices if self.sessions is not None else self.prices
        return prices.currency if isinstance(prices, PriceTable) else DEFAULT_CURRENCY

    def __post_init__(self) -> None:
        _require(self.deadline > 0, "--deadline-ms", "more than 0")
        _require(self.workers >= 1, "--workers", "at least 1")
        _require(self.queued_decisions >= 0, "the number of queued decisions", "at least 0")
        _require(self.max_body >= 1, "--max-body-mb", "more than 0")
        _require(self.memory >= 1, "--memory-mb", "more than 0")
        _require(self.max_connections >= 1, "--max-connections", "at least 1")
        _require(self.max_concurrent >= 1, "--max-concurrent", "at least 1")
        _require(self.patience >= 0, "--queue-seconds", "at least 0")
        _require(self.upstream_timeout > 0, "--upstream-timeout", "more than 0")


def _require(holds: bool, option: str, what: str) -> None:
    if not holds:
        raise SettingsError(f"must be {what}", where=option)
