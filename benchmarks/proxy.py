"""Two hundred agents through one proxy with a light policy: `python -m benchmarks.proxy`.

The proxy is a process of its own (`drsr serve`); agents and a mock endpoint, a double that answers at once, are in this
one, all on loopback. Each agent's run grows by a Step per request and starts afresh after some. Measured about the
proxy: the share of requests that it decided in time, its CPU milliseconds per request in each round of the agents, and
its memory after the first requests and after the last. The policy has seeded weights of the real shapes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from drsr.backbone.catalogue import identity_of, load_tokenizer, read_tokenizer_file
from drsr.policy.light_representation import LightRepresentation
from tests.seeded_policies import seeded_light_policy

UNDECIDED = ("busy", "deadline_exceeded", "internal_failure", "too_large", "stopping")
DECIDED_SHARE, CPU_MILLISECONDS, GROWTH = 0.95, 150.0, 1.1
"""At least, at most, at most."""
STEPS = 12
"""Steps of a run. The first requests have too few candidates, as those of every agent."""
SETTLED = 0.3
"""Memory is compared with that after this part of the requests, when buffers and sessions have been filled once."""
ANSWER = json.dumps(
    {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


class Measured(NamedTuple):
    reasons: Counter[str]
    cpu: list[float]
    """CPU milliseconds of the proxy per request, by round."""
    settled: float
    """Megabytes of the proxy."""
    last: float
    seconds: float

    @property
    def requests(self) -> int:
        return sum(self.reasons.values())

    @property
    def decided(self) -> float:
        return 1 - sum(self.reasons[reason] for reason in UNDECIDED) / self.requests

    @property
    def p95(self) -> float:
        return sorted(self.cpu)[max(-(-95 * len(self.cpu) // 100) - 1, 0)]

    @property
    def is_met(self) -> bool:
        return self.decided >= DECIDED_SHARE and self.p95 <= CPU_MILLISECONDS and self.last <= GROWTH * self.settled


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=200, help="at once (%(default)s)")
    parser.add_argument("--requests", type=int, default=10_000, help="of all of them (%(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="no round begins later (%(default)s)")
    parser.add_argument("--backbone", default="smollm2-135m", help="whose tokens are counted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        name = options.backbone
        read = LightRepresentation(read_tokenizer_file(name), name=name, identity=identity_of(name))
        seeded_light_policy(read, load_tokenizer(name).window).save(Path(folder) / "policy")
        measured = asyncio.run(measure(Path(folder), options.agents, options.requests, options.seconds))
    print(shown(measured, options.agents))
    return 0 if measured.is_met else 1


async def measure(folder: Path, agents: int, requests: int, seconds: float) -> Measured:
    """Send that many requests, in rounds of one per agent."""
    upstream = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2 * agents)
    port = upstream.sockets[0].getsockname()[1]
    options = ["--upstream", f"http://127.0.0.1:{port}", "--policy", "policy", "--port", "0", "--quiet", "--json"]
    # Told that runs are long, the proxy prunes them: rewritten requests are what costs time and memory.
    sessions = ["--max-sessions", str(2 * agents), "--expected-calls", str(10 * STEPS)]
    command = [sys.executable, "-m", "drsr", "serve", *options, *sessions]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        return await rounds(process.pid, int(json.loads(line)["address"].rpartition(":")[2]), agents, requests, seconds)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        upstream.close()


async def rounds(pid: int, port: int, agents: int, requests: int, seconds: float) -> Measured:
    reasons: Counter[str] = Counter()
    cpu, settled, start = [], 0.0, time.monotonic()
    working = [Agent(number, port) for number in range(agents)]
    while sum(reasons.values()) < requests and time.monotonic() - start < seconds:
        before = cpu_seconds(pid)
        reasons.update(await asyncio.gather(*(agent.ask() for agent in working)))
        cpu.append(1000 * (cpu_seconds(pid) - before) / agents)
        if sum(reasons.values()) <= max(SETTLED * requests, 2 * STEPS * agents):
            settled = megabytes(pid)
    for agent in working:
        agent.close()
    return Measured(reasons, cpu, settled, megabytes(pid), time.monotonic() - start)


class Agent:
    """One agent with one connection; its runs follow each other."""

    def __init__(self, number: int, port: int) -> None:
        self._number, self._port = number, port
        self._asked = number  # so that not all begin at the same time
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> str:
        """Send the next request; returns the reason that the proxy gives."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        run, step = divmod(self._asked, STEPS)
        self._asked += 1
        body = json.dumps(request(f"{self._number}-{run}", step + 1)).encode()
        length = f"content-length: {len(body)}".encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + length + b"\r\n\r\n" + body)
        headers, _ = await read_message(reader)
        return headers[b"x-drsr-reason"].decode()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def request(marker: str, steps: int) -> dict[str, Any]:
    """Return a request of a run whose every message differs from those of other runs."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You watch logs."},
        {"role": "user", "content": f"Find the fault in {marker}."},
    ]
    for step in range(steps):
        call = {"name": "read_log", "arguments": json.dumps({"path": f"/{marker}/{step}"})}
        called = {"id": f"call_{step}", "type": "function", "function": call}
        messages.append({"role": "assistant", "content": f"Looking into {step}.", "tool_calls": [called]})
        lines = "".join(f"{marker} {step} line {line}: service answered in {line * 7} ms\n" for line in range(15))
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "content": lines})
    return {"model": "mock", "messages": messages}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the mock endpoint's side of one connection."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
    try:
        while True:
            await read_message(reader)
            writer.write(head + ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        writer.close()


async def read_message(reader: asyncio.StreamReader) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body of a request or an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[1:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    return headers, await reader.readexactly(int(headers.get(b"content-length", b"0")))


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, of user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Memory of a process that is in use."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def shown(measured: Measured, agents: int) -> str:
    met = "met" if measured.is_met else "not met"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in measured.reasons.most_common())
    return "\n".join(
        [
            f"{measured.requests:,} requests of {agents} agents at once in {measured.seconds:.0f} s: {met}",
            f"  decided {measured.decided:.1%} (at least {DECIDED_SHARE:.0%}): {reasons}",
            f"  CPU per request {statistics.median(measured.cpu):.1f} ms, p95 of the rounds {measured.p95:.1f} ms "
            f"(at most {CPU_MILLISECONDS:.0f})",
            f"  memory {measured.settled:.0f} MB after the first requests, {measured.last:.0f} MB after the last "
            f"(at most {GROWTH:.1f} times)",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
