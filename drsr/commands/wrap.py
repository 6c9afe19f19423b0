"""`drsr wrap COMMAND ...`: run a program behind its own proxy, and report afterwards what that saved."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.command_line import Commands
from drsr.errors import InputError, SettingsError

if TYPE_CHECKING:
    from drsr.policy.policy import Policy
    from drsr.proxy.app import ProxyApp

_EXAMPLES = """\
examples:
  drsr wrap claude                              Claude Code, through ANTHROPIC_BASE_URL
  drsr wrap --shadow python my_agent.py         an agent with an SDK, changing nothing yet
  drsr wrap --upstream http://127.0.0.1:8000 python my_agent.py

The program gets OPENAI_BASE_URL and ANTHROPIC_BASE_URL, which point to a proxy on a free port of this machine, and
keeps its own keys. Its requests go on to where these variables pointed before, or else to the providers themselves.
Options of drsr come before the program; everything after it belongs to the program.
"""

LOOPBACK = "127.0.0.1"
LAST_SECONDS = 10.0


class Provider(NamedTuple):
    """One of the two variables that tell programs where to send their requests."""

    variable: str
    upstream: str
    """Address of requests if the variable is not set."""
    path: str
    """Ending of the variable's value, if the provider's own address has one."""


PROVIDERS = (
    Provider("OPENAI_BASE_URL", "https://api.openai.com/v1", "/v1"),
    Provider("ANTHROPIC_BASE_URL", "https://api.anthropic.com", ""),
)


def add_commands(commands: Commands) -> None:
    """Register `wrap`."""
    from drsr.proxy.cli import add_options

    parser = commands.add_parser(
        "wrap",
        help="run a program behind its own proxy, and report what that saved",
        usage="drsr wrap [options] COMMAND ...",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", metavar="URL", help="where all requests go, without /v1")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print what was saved as JSON")
    parser.add_argument("program", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program and its arguments")
    parser.set_defaults(run=run_wrap)


def run_wrap(arguments: argparse.Namespace) -> int:
    """Run the program; returns its exit code."""
    from drsr.proxy.app import ProxyApp
    from drsr.proxy.cli import policy_of, settings_of
    from drsr.proxy.log import log_to_stderr
    from drsr.proxy.settings import UpstreamUrl

    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise SettingsError("names no program", where="drsr wrap", hint="drsr wrap claude")
    policy: Policy = policy_of(arguments)
    with ExitStack() as stack:
        apps, environment = [], dict(os.environ)
        for provider in PROVIDERS:
            upstream, path = upstream_of(provider, arguments.upstream, os.environ)
            app = ProxyApp(policy, settings_of(arguments, UpstreamUrl.parse(upstream), LOOPBACK))
            environment[provider.variable] = stack.enter_context(running(app)) + path
            apps.append(app)
        environment |= not_through_other_proxies(os.environ)
        policy.prepare(choose_threads=True)
        log_to_stderr(as_json=arguments.json, quiet=True)  # the screen is the program's
        code = run_program(program, environment)
    print(said(apps, as_json=arguments.json), file=sys.stderr)
    return code


def upstream_of(provider: Provider, given: str | None, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the address of a provider's requests, without /v1, and the ending of its variable's value."""
    if given is not None:
        return given, provider.path
    found = (environment.get(provider.variable) or provider.upstream).rstrip("/")
    return (found.removesuffix("/v1"), "/v1") if found.endswith("/v1") else (found, "")


def not_through_other_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep our proxy out of a proxy which programs use for everything else."""
    names = [name for name in ("NO_PROXY", "no_proxy") if environment.get(name)] or ["NO_PROXY"]
    return {name: ",".join(filter(None, [environment.get(name), LOOPBACK])) for name in names}


@contextmanager
def running(app: ProxyApp) -> Iterator[str]:
    """Yield the address of a proxy that runs in a thread."""
    from drsr.proxy.server import address_of, bind, make_server

    with bind(LOOPBACK, 0) as bound:
        server = make_server(app, grace=1)
        bound.listen()
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True)
        thread.start()
        try:
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join(LAST_SECONDS)


def run_program(program: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the program with our own streams; return its exit code, or 128 plus the signal's number if a signal ended
    it."""
    try:
        process = subprocess.Popen(program, env=dict(environment))
    except OSError as error:
        raise InputError(f"cannot be started: {error.strerror}", where=program[0]) from None

    def pass_on(number: int, _: object) -> None:
        process.send_signal(number)

    # Ctrl-C reaches the program as it reaches us, and whether it ends is its decision.
    kept = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    kept |= {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        code = process.wait()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def said(apps: Sequence[ProxyApp], *, as_json: bool) -> str:
    """Return what was saved, in one line."""
    import json

    states = [app.activity.to_json() for app in apps]
    names = ("requests", "failed", "eligible", "websockets", "tokens", "tokens_saved")
    total = {name: sum(state[name] for state in states) for name in names}
    pruned = sum(state["reasons"].get("pruned", 0) for state in states)
    would = sum(state["shadow_tokens_saved"] for state in states)
    money = {name: sum(state["money"].get(name, 0.0) for state in states) for name in ("paid", "without_pruning")}
    currency = apps[0].settings.currency
    priced = any(state["money"] for state in states)
    if as_json:
        about = {**total, "pruned": pruned, "shadow_tokens_saved": would, "money": money if priced else None}
        return json.dumps(about)
    line = (
        f"drsr: {total['requests']:,} requests, {pruned:,} of {total['eligible']:,} prunable ones were pruned; "
        f"{total['tokens_saved']:,} of {total['tokens']:,} tokens were not sent"
    )
    if total["eligible"] > pruned and (why := _most_often(states, eligible=True)):
        line += f"; the others were left alone mostly because of {why}"
    elif total["requests"] and not total["eligible"] and (why := _most_often(states, eligible=False)):
        line += f"; none was prunable, mostly because of {why}"
    if would:
        line += f" ({would:,} would not have been sent without --shadow)"
    if total["failed"]:
        line += f"; {total['failed']:,} were answered with an error, and saved nothing"
    if total["websockets"]:
        line += f"; {total['websockets']:,} WebSockets, of which only requests of the Responses API are read"
    if priced:
        line += f"; paid {money['paid']:.4f} instead of {money['without_pruning']:.4f} {currency}, at list prices"
    return line


def _most_often(states: Sequence[Mapping[str, Any]], *, eligible: bool) -> str:
    """Return the most frequent reason for leaving alone requests that could have been pruned, or else those that could
    not; empty if there is none."""
    from collections import Counter

    from drsr.receipts.totals import INELIGIBLE

    reasons = Counter[str]()
    for state in states:
        for why, number in state["reasons"].items():
            if why not in ("pruned", "shadow") and (why not in INELIGIBLE) == eligible:
                reasons[why] += number
    return reasons.most_common(1)[0][0] if reasons else ""
