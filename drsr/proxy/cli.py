"""`drsr serve`: the proxy, from the command line."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.errors import SettingsError

if TYPE_CHECKING:
    from drsr.policy.policy import Policy
    from drsr.proxy.app import ProxyApp
    from drsr.proxy.settings import ProxySettings, SessionSettings, UpstreamUrl

DEFAULT_PORT = 8787
KILL_FILE = Path("var") / "pruning-off"

_EXAMPLES = """\
examples:
  drsr serve --upstream https://api.openai.com                           with the installed drsr_policy
  drsr serve --upstream https://api.anthropic.com --policy policies/2026.11.16 --shadow --receipts var/receipts.jsonl
  drsr serve --upstream http://127.0.0.1:8000 --policy policies/2026.11.16 --sessions --prices 3,0.3,3.75,15

Clients then use http://127.0.0.1:8787/v1 (OpenAI) or http://127.0.0.1:8787 (Anthropic) as their base URL, with their
own keys. The page at http://127.0.0.1:8787/ shows what it does; `touch var/pruning-off` stops all pruning at once.
"""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `serve`; it sets `run`, which takes the arguments and gives the exit code."""
    serve = subparsers.add_parser(
        "serve",
        help="run a proxy in front of an OpenAI- or Anthropic-compatible endpoint",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = serve.add_argument
    add("--upstream", required=True, metavar="URL", help="where requests go, without /v1")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=DEFAULT_PORT, help="port to listen on, 0 for any (default: %(default)s)")
    add_options(serve)
    add("--quiet", action="store_true", help="log only warnings and errors")
    add("--json", action="store_true", help="print where it listens, and log, as JSON lines")
    serve.set_defaults(run=run_serve)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every proxy has, wherever it listens."""
    add = parser.add_argument
    add("--policy", metavar="POLICY", help="its folder, wheel or installed package (default: light first)")
    add("--protect", action="append", default=[], metavar="RULE", help="keep tool=NAME or text=WORDS, as in drsr prune")
    add(
        "--only-tools",
        action="append",
        metavar="PATTERN",
        help="remove only calls of tools that match: read_*",
    )
    add("--never-tools", action="append", metavar="PATTERN", help="never remove calls of tools that match")
    add("--shadow", action="store_true", help="decide and record, change nothing")
    add("--keys", type=Path, metavar="FILE", help="SHA-256 of API keys, each with on, off or shadow")
    add("--receipts", type=Path, metavar="FILE", help="append a receipt of every decision")
    add("--keep-text", action="store_true", help="store the requests in the receipts, too")
    add(
        "--kill-file",
        type=Path,
        default=KILL_FILE,
        metavar="FILE",
        help="prune nothing while this exists (%(default)s)",
    )
    add("--deadline-ms", type=float, default=5_000, metavar="MS", help="longest time for a decision (%(default)s)")
    add("--workers", type=int, default=1, metavar="N", help="decisions made at once (%(default)s)")
    add("--max-body-mb", type=float, default=32, metavar="MB", help="largest request to prune (%(default)s)")
    add("--memory-mb", type=float, default=512, metavar="MB", help="memory for requests in flight (%(default)s)")
    add("--max-connections", type=int, default=1024, metavar="N", help="open connections of clients (%(default)s)")
    add("--allow-host", action="append", default=[], metavar="NAME", help="another name under which clients reach it")
    add("--max-concurrent", type=int, default=256, metavar="N", help="requests in flight at once (%(default)s)")
    add(
        "--queue-seconds", type=float, default=10, metavar="S", help="longest wait for a place among them (%(default)s)"
    )
    add(
        "--upstream-timeout", type=float, default=600, metavar="S", help="longest silence of the upstream (%(default)s)"
    )
    add(
        "--sessions",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep removed Blocks removed, so that prompt caches stay useful (default: yes)",
    )
    add("--recall", action="store_true", help="offer a tool that returns removed text (not for streamed answers)")
    add("--warm", action="store_true", help="read answers as they come, so that the next decision has less to read")
    add(
        "--prices",
        metavar="PRICES",
        help="per million tokens: a table by model, or IN,CACHED,WRITE,OUT (default: DRSR_PRICES, else list prices)",
    )
    add("--expected-calls", type=int, metavar="N", help="usual calls per conversation, if known")
    add("--max-sessions", type=int, metavar="N", help="conversations remembered, for --sessions (2000)")
    add("--backbone", help="another name for the policy's language model, such as path:/models/x")
    add("--device", help="device that the language model runs on (default: DRSR_DEVICE, drsr.toml, cpu)")
    add("--dtype", help="number format of its weights (default: the policy's)")


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from drsr.policy.checkup import slow_start
    from drsr.proxy.app import ProxyApp
    from drsr.proxy.log import log_to_stderr
    from drsr.proxy.server import address_of, bind, leads_here, make_server
    from drsr.proxy.settings import UpstreamUrl

    settings = settings_of(arguments, UpstreamUrl.parse(arguments.upstream), arguments.host)
    policy = policy_of(arguments)
    with bind(arguments.host, arguments.port) as bound:
        if leads_here(settings.upstream, bound):
            raise SettingsError("is this proxy's own address", where=f"--upstream {settings.upstream}")
        policy.prepare(choose_threads=True)  # seconds for the language model: before the first client, not with it
        app = ProxyApp(policy, settings)
        bound.listen()  # from here on clients are not turned away, only wait for a moment
        _say(address_of(bound), app, arguments.json)
        for line in slow_start(policy, settings.deadline):
            print(f"note: {line}", file=sys.stderr)
        log_to_stderr(as_json=arguments.json, quiet=arguments.quiet)
        try:
            make_server(app).run(sockets=[bound])
        except KeyboardInterrupt:
            if app.still_reading:  # the interpreter's end would wait for a model in the middle of a matrix product
                logging.shutdown()
                os._exit(130)
            raise
    return 0


def policy_of(arguments: argparse.Namespace) -> Policy:
    """Return the policy that the options name."""
    from drsr.policy.loading import load_policy
    from drsr.settings import load_settings

    device = arguments.device or load_settings().device
    return load_policy(arguments.policy, backbone=arguments.backbone, device=device, dtype=arguments.dtype)


def settings_of(arguments: argparse.Namespace, upstream: UpstreamUrl, host: str) -> ProxySettings:
    """Return the settings of a proxy that listens there. Raise SettingsError if options contradict each other."""
    from drsr.proxy.http.modes import read_keys
    from drsr.proxy.server import connections_possible
    from drsr.proxy.settings import ProxySettings
    from drsr.request.protection import parse_protection, with_tool_rules
    from drsr.sessions.price_table import PriceTable

    settings = ProxySettings(
        upstream=upstream,
        kill_file=arguments.kill_file,
        shadow=arguments.shadow,
        keys=read_keys(arguments.keys) if arguments.keys else {},
        receipts=arguments.receipts,
        keep_text=arguments.keep_text,
        protect=with_tool_rules(parse_protection(arguments.protect), arguments.only_tools, arguments.never_tools),
        prices=PriceTable.chosen(),
        sessions=_sessions(arguments),
        recall=arguments.recall,
        warm=arguments.warm,
        deadline=arguments.deadline_ms / 1000,
        workers=arguments.workers,
        max_body=int(arguments.max_body_mb * 1024 * 1024),
        memory=int(arguments.memory_mb * 1024 * 1024),
        max_connections=connections_possible(arguments.max_connections),
        hosts=(host, *arguments.allow_host),
        max_concurrent=arguments.max_concurrent,
        patience=arguments.queue_seconds,
        upstream_timeout=arguments.upstream_timeout,
    )
    if settings.keep_text and settings.receipts is None:
        raise SettingsError("there are no receipts to keep it in", where="--keep-text", hint="add --receipts FILE")
    return settings


def _sessions(arguments: argparse.Namespace) -> SessionSettings | None:
    from drsr.proxy.settings import SessionSettings
    from drsr.sessions.price_table import PriceTable

    given = {"expected_calls": arguments.expected_calls, "limit": arguments.max_sessions}
    if not arguments.sessions:
        if arguments.prices is not None or any(value is not None for value in given.values()):
            raise SettingsError("--prices, --expected-calls and --max-sessions need --sessions")
        return None
    prices = PriceTable.chosen() if arguments.prices is None else PriceTable.parse(arguments.prices)
    return SessionSettings(prices, **{name: value for name, value in given.items() if value is not None})


def _say(address: str, app: ProxyApp, as_json: bool) -> None:
    """Print the address it listens on and what it does."""
    settings = app.settings
    about = {
        "address": address,
        "upstream": str(settings.upstream),
        "policy": app.policy.version,
        "mode": app.mode,
        "kill_file": str(settings.kill_file),
    }
    if as_json:
        print(json.dumps(about), flush=True)
        return
    print(f"{address} -> {settings.upstream}, policy {app.policy.version}, {app.mode}")
    print(f"kill switch: touch {settings.kill_file}", flush=True)
    if app.policy.numbers.always_abstains:
        print("note: this policy abstains always; nothing will be pruned", file=sys.stderr)
