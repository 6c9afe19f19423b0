"""The bill of recorded runs through the proxy, with and without pruning: `python -m benchmarks.bill [LOCATION ...]`.

A recorded run is repeated, call by call, through `drsr serve` with its defaults, in front of a mock endpoint that
answers with the recorded outputs. The endpoint checks every request as a provider would, counts its tokens with the
policy's tokenizer, and caches prompts by the longest prefix that it has seen in the run: its `usage` says what was read
from the cache. The same counts for the original requests are the bill without pruning. The wait of a call is its
client's time beyond the endpoint's own; if the machine is shared, look at the CPU time next to it.

`--seeded BACKBONE` takes a full policy with seeded weights, because none is released: its waits are those of a real
one, its savings mean nothing. `--thinks` matters then, because requests are read on while the endpoint answers.

Runs can have any format that `drsr ingest` reads; without a location the bundled samples are used. With a Claude model
they are sent in Anthropic's form, each request marked for caching as Claude Code does.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from benchmarks.proxy import cpu_seconds
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import RequestError
from drsr.offline import samples
from drsr.offline.bench.price_report import PrefixCache
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory
from drsr.policy.loading import load_policy
from drsr.request.contracts import Tokenizer
from drsr.request.history import read_history
from drsr.request.protocol import violations
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import render
from drsr.request.request import Protocol, read_request
from drsr.sessions.price_table import PriceTable
from drsr.sessions.prices import Prices
from drsr.tables import table
from tests.seeded_policies import tiny_policy

LONGEST_WAIT = 0.5
"""Seconds that a call may wait for its decision."""
Body = dict[str, Any]


class Call(NamedTuple):
    """One call as the endpoint saw it."""

    tokens: int
    cached: int
    output: int
    seconds: float
    """Seconds that the endpoint itself took."""
    problem: str | None
    """Reason why a provider would refuse it."""


class Total(NamedTuple):
    """The calls of one run together."""

    tokens: int
    cached: int
    money: float


class RunRow(NamedTuple):
    name: str
    calls: int
    longest: int
    """Tokens of its longest request."""
    pruned: int
    waits: list[float]
    """Milliseconds of each call."""
    cpu: float
    """Milliseconds of the proxy's processor time per call."""
    without: Total
    sent: Total
    invalid: int
    """Requests that a provider would refuse although it would have accepted the original."""

    @property
    def change(self) -> float:
        return self.sent.money / self.without.money - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("locations", nargs="*", default=[str(samples.CORPUS)], metavar="LOCATION", help="recorded runs")
    add("--model", default="gpt-4o", help="whose list prices count (%(default)s)")
    add("--policy", metavar="POLICY", help="its folder, wheel or installed package (default: light first)")
    add("--seeded", metavar="BACKBONE", help="instead: a full policy with seeded weights on this language model")
    add("--deadline-ms", metavar="MS", help="of drsr serve (its default)")
    add("--warm", action="store_true", help="as of drsr serve")
    add("--runs", type=int, default=5, metavar="N", help="of each location, evenly spread (%(default)s)")
    add("--calls", type=int, default=0, metavar="N", help="only runs with at least so many")
    add("--tokens", type=int, metavar="N", help="runs end before their first request that is longer")
    add("--json", action="store_true", help="print every call's numbers")
    add("--thinks", type=float, default=0.0, metavar="SECONDS", help="what the endpoint takes to answer (%(default)s)")
    add("--pause", action="store_true", help="wait for Enter before the proxy ends, to look at its page")
    options = parser.parse_args()
    prices = PriceTable.chosen().of(options.model)
    if prices is None:
        parser.error(f"{options.model} has no list price; see drsr/sessions/list_prices.json")
    rows = []
    with ExitStack() as stack:
        location = options.policy
        if options.seeded:
            location = seeded(options.seeded, stack.enter_context(tempfile.TemporaryDirectory()))
        counter = RememberedTokens(load_policy(location).frozen.representation.tokenizer)
        mock = stack.enter_context(endpoint(counter, prices, options.thinks))
        more = ["--deadline-ms", options.deadline_ms] if options.deadline_ms else []
        more += ["--warm"] if options.warm else []
        address, pid = stack.enter_context(serving(mock.address, location, more))
        for place in options.locations:
            for run in chosen(place, options.calls, options.runs):
                row = replay(run, options.model, mock, address, pid, options.tokens)
                if row is not None:
                    rows.append(row)
                    print(f"{row.name}: {row.change:+.2%}", file=sys.stderr, flush=True)
        page = json.loads(urllib.request.urlopen(f"{address}/drsr/state.json").read())
        if options.pause:
            print(f"{address}/ shows it; Enter ends it", file=sys.stderr)
            input()
    if not rows:
        parser.error("no run was found there")
    print(json.dumps([row._asdict() for row in rows]) if options.json else shown(rows, options.model, page))
    met = all(not row.invalid and max(row.waits) <= 1000 * LONGEST_WAIT for row in rows)
    return 0 if met and sum(row.sent.money for row in rows) <= sum(row.without.money for row in rows) else 1


def seeded(backbone: str, folder: str) -> str:
    """Return where a full policy with seeded weights on this language model was saved."""
    place, model = Path(folder) / "policy", load_backbone(backbone)
    assert isinstance(model, FrozenLM)  # the scripted double reads nothing
    tiny_policy(model).save(place)
    return str(place)


def chosen(location: str, calls: int, number: int) -> Iterator[Trajectory]:
    """Yield the runs to repeat: those that are long enough, evenly spread."""
    runs = [run for run in read_runs(location) if isinstance(run, Trajectory) and _calls(run) >= max(calls, 1)]
    yield from runs[:: max(len(runs) // number, 1)][:number] if number else runs


def _calls(run: Trajectory) -> int:
    try:
        return len(read_history(read_request(run.request, protocol=run.protocol)).steps)
    except RequestError:
        return 0


def replay(
    run: Trajectory, model: str, mock: Endpoint, address: str, pid: int, longest: int | None = None
) -> RunRow | None:
    """Repeat a run, call by call. Return None if it cannot be expressed in the model's form."""
    is_claude = model.startswith("claude")
    body = run.request if run.protocol == "anthropic" or not is_claude else in_anthropic_form(run.request)
    path = "/v1/messages" if is_claude or run.protocol == "anthropic" else "/v1/chat/completions"
    whole = read_request(body, protocol=protocol_of(path))
    mock.begin()
    plain = Counter(mock.tokenizer, mock.prices)
    waits, reasons, before, calls = [], [], [], []
    spent = cpu_seconds(pid)
    for step in read_history(whole).steps:
        if step.message == 0:
            continue
        asked = {"model": model, **body, "messages": body["messages"][: step.message]}
        if path == "/v1/messages":
            asked = {"max_tokens": 1024, **with_mark(asked)}
        mock.output = body["messages"][step.message]
        as_it_came = plain.call(asked, path, mock.output)
        if longest is not None and as_it_came.tokens > longest:
            break
        start = time.perf_counter()
        reasons.append(post(address + path, asked))
        took = time.perf_counter() - start
        call = mock.calls[-1]
        waits.append(1000 * (took - call.seconds))
        calls.append(call)
        before.append(as_it_came)
    if not calls:
        return None
    return RunRow(
        run.external_id,
        len(calls),
        max(call.tokens for call in before),
        reasons.count("pruned"),
        waits,
        1000 * (cpu_seconds(pid) - spent) / len(calls),
        total(before, mock.prices),
        total(calls, mock.prices),
        sum(now.problem is not None and then.problem is None for now, then in zip(calls, before, strict=True)),
    )


def total(calls: Sequence[Call], prices: Prices) -> Total:
    money = sum(prices.input_cost(call.tokens, call.cached) + prices.output_cost(call.output) for call in calls)
    return Total(sum(call.tokens for call in calls), sum(call.cached for call in calls), money)


def post(url: str, body: Body) -> str:
    """Send a request; returns the proxy's reason."""
    headers = {"content-type": "application/json", "authorization": "Bearer none", "x-api-key": "none"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        answer.read()
        return str(answer.headers["x-drsr-reason"])


class Counter:
    """A provider's books for one run."""

    def __init__(self, tokenizer: Tokenizer, prices: Prices) -> None:
        self._tokenizer, self._prices = tokenizer, prices
        self._cache = PrefixCache()

    def call(self, body: Body, path: str, output: Body) -> Call:
        start = time.perf_counter()
        request = read_request(body, protocol=protocol_of(path))
        token_ids = render(request, self._tokenizer).token_ids
        cached = self._prices.readable(self._cache.read(token_ids))
        cached = cached if len(token_ids) >= self._prices.cache_minimum else 0
        said = render(request.with_messages((*request.messages, *read_one(output, path))), self._tokenizer)
        spent = time.perf_counter() - start
        return Call(len(token_ids), cached, len(said) - len(token_ids), spent, problem_of(body, path))


def read_one(message: Body, path: str) -> tuple[Any, ...]:
    return tuple(read_request({"messages": [message]}, protocol=protocol_of(path)).messages)


def protocol_of(path: str) -> Protocol:
    return "anthropic" if path == "/v1/messages" else "openai"


def problem_of(body: Body, path: str) -> str | None:
    """Return why a provider would refuse a request: by the official SDK's types, then by the rules of tool calls."""
    try:
        messages_of(path).validate_python(body["messages"])
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    broken = violations(read_request(body, protocol=protocol_of(path)))
    return str(broken[0]) if broken else None


def messages_of(path: str) -> TypeAdapter[Any]:
    if path not in _ADAPTERS:
        if path == "/v1/messages":
            from anthropic.types import MessageParam

            _ADAPTERS[path] = TypeAdapter(list[MessageParam])
        else:
            from openai.types.chat import ChatCompletionMessageParam

            _ADAPTERS[path] = TypeAdapter(list[ChatCompletionMessageParam])
    return _ADAPTERS[path]


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


class Endpoint:
    """The mock endpoint: the books of the present run, and the output to answer with."""

    def __init__(self, tokenizer: Tokenizer, prices: Prices, thinks: float = 0.0) -> None:
        """`thinks` is how many seconds an answer takes."""
        self.tokenizer, self.prices, self.thinks = tokenizer, prices, thinks
        self.address = ""
        self.output: Body = {}
        self.calls: list[Call] = []
        self.begin()

    def begin(self) -> None:
        """Begin another run: nothing of it is cached."""
        self._counter = Counter(self.tokenizer, self.prices)

    def answer(self, path: str, body: Body) -> Body:
        start = time.perf_counter()
        time.sleep(self.thinks)
        call = self._counter.call(body, path, self.output)
        self.calls.append(call._replace(seconds=time.perf_counter() - start))
        if path == "/v1/messages":
            cached = call.cached
            usage = {
                "input_tokens": 0,
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": call.tokens - cached,
                "output_tokens": call.output,
            }
            return {"id": "msg", "type": "message", **self.output, "model": body["model"], "usage": usage}
        counted: Body = {
            "prompt_tokens": call.tokens,
            "completion_tokens": call.output,
            "total_tokens": call.tokens + call.output,
            "prompt_tokens_details": {"cached_tokens": call.cached},
        }
        choice = {"index": 0, "message": self.output, "finish_reason": "stop"}
        return {
            "id": "chat",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [choice],
            "usage": counted,
        }


@contextmanager
def endpoint(tokenizer: Tokenizer, prices: Prices, thinks: float = 0.0) -> Iterator[Endpoint]:
    """Run a mock endpoint on a free port of this machine."""
    mock = Endpoint(tokenizer, prices, thinks)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            content = json.dumps(mock.answer(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    mock.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield mock
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(upstream: str, policy: str | None, more: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """Address and process of `drsr serve` with its defaults, except for `more`."""
    named = ["--policy", str(Path(policy).resolve()) if Path(policy).exists() else policy] if policy else []
    options = ["--upstream", upstream, "--port", "0", "--quiet", "--json", *named, *more]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "drsr", "serve", *options]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield json.loads(process.stdout.readline())["address"], process.pid
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def in_anthropic_form(body: Body) -> Body:
    """Return a chat request as Anthropic's messages."""
    system, messages = [], list[Body]()
    for message in body["messages"]:
        role, text = message["role"], message.get("content") or ""
        if role == "system":
            system.append(text)
            continue
        said: list[Body] = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
        said += [part for part in text if isinstance(part, dict)] if isinstance(text, list) else []
        if role == "tool":
            said = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": said}]
        for call in message.get("tool_calls") or ():
            given = json.loads(call["function"]["arguments"] or "{}")
            name = call["function"]["name"]
            said.append({"type": "tool_use", "id": call["id"], "name": name, "input": given})
        role = "assistant" if role == "assistant" else "user"
        if messages and messages[-1]["role"] == role == "user":
            messages[-1]["content"] += said
        else:
            messages.append({"role": role, "content": said})
    tools = [
        {
            "name": tool["function"]["name"],
            "description": tool["function"].get("description", ""),
            "input_schema": tool["function"].get("parameters", {"type": "object"}),
        }
        for tool in body.get("tools") or ()
    ]
    fields = {"system": "\n".join(system), "tools": tools}
    return {"messages": messages, **{name: value for name, value in fields.items() if value}}


def with_mark(body: Body) -> Body:
    """Return the same with a mark for caching on its last block."""
    *others, last = body["messages"]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[-1:] = [{**block, "cache_control": {"type": "ephemeral"}} for block in blocks[-1:]]
    return {**body, "messages": [*others, {**last, "content": blocks}]}


def shown(rows: Sequence[RunRow], model: str, page: Body) -> str:
    headers = ("run", "calls", "longest", "pruned", "wait max, p95 ms", "CPU ms", "tokens", "sent", "cached", "sent",
               "money", "paid", "change", "invalid")  # fmt: skip
    cells = [
        (
            row.name[-40:],
            row.calls,
            row.longest,
            row.pruned,
            f"{max(row.waits):,.0f}, {p95(row.waits):,.0f}",
            f"{row.cpu:.0f}",
            row.without.tokens,
            row.sent.tokens,
            row.without.cached,
            row.sent.cached,
            f"{row.without.money:.4f}",
            f"{row.sent.money:.4f}",
            f"{row.change:+.2%}",
            row.invalid,
        )
        for row in rows
    ]
    changes = sorted(row.change for row in rows)
    before, paid = sum(row.without.money for row in rows), sum(row.sent.money for row in rows)
    said = page["money"]
    waits = [wait for row in rows for wait in row.waits]
    return "\n".join(
        [
            table(headers, cells),
            "",
            f"{len(rows)} runs at the list prices of {model}: money {statistics.median(changes):+.2%} in the median "
            f"({changes[0]:+.2%} to {changes[-1]:+.2%}), all together {paid:.4f} instead of {before:.4f}, "
            f"{paid / before - 1:+.2%}; dearer than without: {sum(change > 0 for change in changes)}",
            f"the page says {said.get('paid', 0):.4f} instead of {said.get('without_pruning', 0):.4f}",
            f"{sum(row.pruned for row in rows):,} of {sum(row.calls for row in rows):,} requests pruned, "
            f"{sum(row.invalid for row in rows)} invalid; longest wait {max(waits):,.0f} ms (at most "
            f"{1000 * LONGEST_WAIT:.0f}), p95 {p95(waits):,.0f} ms",
        ]
    )


def p95(values: Sequence[float]) -> float:
    return sorted(values)[max(-(-95 * len(values) // 100) - 1, 0)]


if __name__ == "__main__":
    sys.exit(main())
