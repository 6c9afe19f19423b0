"""Check whether a policy can prune on this machine, and how quickly: for `drsr doctor`, and `drsr serve` as it starts.

    checkup = examine("drsr_policy_light")
    checkup.works, checkup.to_text()

Decisions are timed on made-up requests of several lengths, each decided on its own, as the first of a run is.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drsr.decide.decision import Reason
from drsr.decide.representation import FrozenRepresentation, LazyRepresentation
from drsr.errors import BackboneNotFetched, DrsrError, SettingsError
from drsr.policy.loading import load_policy
from drsr.policy.location import LIGHT_PACKAGE, LIGHT_PROJECT, install_line, is_installed
from drsr.policy.policy import Policy
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.settings import cache_folder
from drsr.tables import table

LENGTHS = (1_000, 5_000, 20_000)
"""Tokens of the requests that are decided about."""
QUICK = 500.0
"""Milliseconds that go unnoticed before a model call."""
LONGEST = 60.0
"""Seconds: once a decision takes longer than this, longer requests are not tried."""
_WORDS = "the build of package {0} failed at line {0} because module {0} was not found in the list of sources"


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    found: str
    problem: bool = False
    """True if it keeps every request from being pruned."""
    mend: str = ""
    """Advice on how to mend it."""


class Timing(NamedTuple):
    """One decision about a request of this length."""

    tokens: int
    milliseconds: float
    reason: str | None
    """Reason why nothing was removed; None if something was."""


@dataclass(slots=True)
class Checkup:
    """Everything that was found."""

    findings: list[Finding] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    @property
    def works(self) -> bool:
        return not any(finding.problem for finding in self.findings)

    def to_text(self) -> str:
        lines = [table(("looked at", "found"), [(each.name, each.found) for each in self.findings])]
        if self.timings:
            rows = [(each.tokens, f"{each.milliseconds:,.0f} ms", each.reason or "pruned") for each in self.timings]
            lines += ["", table(("request tokens", "a decision takes", "outcome"), rows)]
        lines += ["", *(f"BROKEN: {each.name}: {each.found}" for each in self.findings if each.problem)]
        lines += [f"  to fix it: {each.mend}" for each in self.findings if each.problem and each.mend]
        lines += self.advice
        return "\n".join([*lines, "pruning works here" if self.works else "pruning cannot work here"])

    def to_json(self) -> dict[str, Any]:
        return {
            "works": self.works,
            "findings": [each._asdict() for each in self.findings],
            "timings": [each._asdict() for each in self.timings],
            "advice": self.advice,
        }


def examine(
    location: str | None = None,
    *,
    backbone: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    lengths: Sequence[int] = LENGTHS,
) -> Checkup:
    """Look at a policy and this machine, and time decisions."""
    checkup = Checkup([*_machine(device)])
    try:
        policy = load_policy(location, backbone=backbone, device=device, dtype=dtype)
        checkup.findings.append(_described(policy))
        policy.prepare()
    except DrsrError as error:
        if isinstance(error, BackboneNotFetched):
            checkup.findings = [_needed(finding) for finding in checkup.findings]
        name = "settings" if isinstance(error, SettingsError) else "policy"
        said = f"{error.where}: {error.what}" if error.where else error.what
        checkup.findings.append(Finding(name, said, True, error.hint or ""))
        return checkup
    checkup.findings += _threads(policy)
    if policy.numbers.always_abstains:
        what = "it abstains always: calibration found nothing admissible"
        checkup.findings.append(Finding("calibration", what, True, "install a policy that prunes: drsr policy list"))
    checkup.findings.append(_prices(policy))
    for length in lengths:
        found = time_decision(policy, length)
        checkup.timings.append(found)
        if found.reason == Reason.INTERNAL_FAILURE:
            checkup.findings.append(Finding("decision", f"fails at {length} tokens", True, "drsr prune FILE --explain"))
        if found.milliseconds > 1000 * LONGEST:
            break
    checkup.advice += _advice(policy, device or "cpu", checkup.timings)
    return checkup


def slow_start(policy: Policy, deadline_seconds: float) -> list[str]:
    """Return the short form for a server that has just loaded its policy: what to change, one sentence each; usually
    nothing."""
    if policy.numbers.always_abstains:
        return []  # the server says so itself
    found = time_decision(policy, LENGTHS[0])
    if found.reason == Reason.INTERNAL_FAILURE:
        return ["a decision about a made-up request fails: drsr doctor says more"]
    # A full view is read once per run at least; reading grows at least in proportion.
    whole = found.milliseconds * min(policy.numbers.view_cap, LENGTHS[1]) / found.tokens
    if policy.numbers.light is not None or whole <= 1000 * deadline_seconds:
        return []
    return [
        f"a decision takes about {whole / 1000:.0f} s here, the deadline is {deadline_seconds:g} s: most first "
        f"decisions of a run will be late, and serve its next call. {_quicker()}"
    ]


def time_decision(policy: Policy, tokens: int) -> Timing:
    """Decide about a made-up request of about this length; reading the tokenizer's file is not timed."""
    body, counted = made_up_request(policy, tokens)
    start = time.perf_counter()
    decision = policy.prune(request=body, session=None)
    spent = 1000 * (time.perf_counter() - start)
    return Timing(counted, spent, None if decision.reason is None else str(decision.reason))


def made_up_request(policy: Policy, tokens: int) -> tuple[dict[str, Any], int]:
    """Return a made-up agent run of about `tokens` tokens in twenty Steps, and its exact number of tokens."""
    tokenizer = policy.frozen.representation.tokenizer
    steps, words = 20, 1
    body = _run(steps, words)
    counted = len(render(read_request(body), tokenizer))
    per_line = max((len(render(read_request(_run(steps, 2)), tokenizer)) - counted) / steps, 1)
    words += max(round((tokens - counted) / (steps * per_line)), 0)
    body = _run(steps, words)
    return body, len(render(read_request(body), tokenizer))


def _run(steps: int, lines: int) -> dict[str, Any]:
    messages: list[Any] = [
        {"role": "system", "content": "You repair a build."},
        {"role": "user", "content": "Make the build pass."},
    ]
    for step in range(steps):
        function = {"name": "read_log", "arguments": f'{{"part": {step}}}'}
        call = {"id": f"c{step}", "type": "function", "function": function}
        result = "\n".join(_WORDS.format(step * lines + line) for line in range(lines))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": result})
    return {"messages": messages}


def _machine(device: str | None) -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("device", device or "cpu")
    yield Finding(
        "processor cores", f"{cores}, load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else f"{cores}"
    )
    free = _free_memory()
    if free is not None:
        yield Finding("free memory", f"{free:,} MB")
    folder = cache_folder()
    above = next(place for place in (folder, *folder.parents) if place.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        yield Finding("cache folder", str(folder))
    else:
        yield Finding(
            "cache folder", f"{folder}: not writable", mend="set DRSR_CACHE to a folder that you may write to"
        )


def _needed(finding: Finding) -> Finding:
    """Return it as a problem if there is something to mend: a language model that must be fetched needs the cache."""
    return finding._replace(problem=bool(finding.mend))


def _threads(policy: Policy) -> Iterator[Finding]:
    if isinstance(policy.frozen.representation, LazyRepresentation):
        import torch

        yield Finding("threads", f"{torch.get_num_threads()}; drsr serve and drsr wrap measure how many are quickest")


def _free_memory() -> int | None:
    """Return the free memory in megabytes, if the system reports it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) // 1024
    except (OSError, KeyError, ValueError):
        return None


def _described(policy: Policy) -> Finding:
    numbers, representation = policy.numbers, policy.frozen.representation
    reads = "needs no language model"
    if numbers.light is None:
        reads = f"reads the last {numbers.view_cap:,} tokens with {representation.name}"
    return Finding("policy", f"{policy.version}, {numbers.kind}: {reads}")


def _prices(policy: Policy) -> Finding:
    table = policy.prices
    if table.any_model is not None:
        return Finding("prices", f"of every model, from {table.source}")
    return Finding("prices", f"of {len(table.models)} models, taken {table.taken}; others: savings in tokens alone")


def _advice(policy: Policy, device: str, timings: Sequence[Timing]) -> list[str]:
    slowest = max(each.milliseconds for each in timings)
    usual = statistics.median(each.milliseconds for each in timings)
    advice = []
    if slowest <= QUICK:
        advice.append(f"a decision is quick here: no deadline needed below {QUICK:.0f} ms")
    else:
        takes = f"a decision takes {usual / 1000:.1f} s here"
        if policy.numbers.light is not None:  # it has nothing to read on with, and a deadline would only lose it
            advice.append(f"{takes}, which is long for a light policy: is the machine busy?")
        else:
            least = 250 * -(-int(min(each.milliseconds for each in timings)) // 250)
            advice.append(
                f"{takes}: give calls a deadline (deadline_ms={max(least, 250)}); reading a late request goes on in "
                "the background and serves the run's next call"
            )
            if device == "cpu":
                advice.append(_quicker())
    reads = "" if policy.numbers.light is not None else "a run's later decisions read only what is new, and "
    advice.append(f"keep sessions on: {reads}what was removed stays removed, so prompt caches stay useful")
    if isinstance(policy.frozen.representation, LazyRepresentation | FrozenRepresentation):
        advice.append("a full policy looks only at the end of longer requests; a light policy looks at all of them")
    return advice


def _quicker() -> str:
    if is_installed(LIGHT_PACKAGE):
        return "The light policy is installed and decides in milliseconds: --policy drsr_policy_light"
    get = install_line(LIGHT_PROJECT)
    return f"A light policy decides in milliseconds: {get}; or use a GPU: --device cuda"
