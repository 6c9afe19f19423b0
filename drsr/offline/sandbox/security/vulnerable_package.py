"""A service uses a package with a published hole: find it, mind the exceptions, upgrade, audit, and file it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, TEAMS, filler_lines, hexadecimal, number, write_files

_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "Go through the packages of {service} and upgrade the one that is vulnerable and not excepted. Then run "
    "tools/audit.py, add '<advisory> <service> <stamp>' to tickets/closed.txt and tell me advisory, package, new "
    "version and stamp.",
    "Does {service} use anything with an open advisory? Fix it in its requirements, run tools/audit.py for the "
    "stamp, and record '<advisory> <service> <stamp>' in tickets/closed.txt. Summarise advisory, package, new "
    "version and stamp.",
    "Security review of {service}: upgrade what an advisory concerns (accepted exceptions stay as they are), "
    "prove it with tools/audit.py, close it in tickets/closed.txt as '<advisory> <service> <stamp>', and report "
    "all four facts.",
)
_AUDIT = '''"""Check a service's requirements against the advisories."""

import hashlib
import pathlib
import sys

service = sys.argv[1]
text = pathlib.Path(f"services/{service}/requirements.txt").read_text()
pins = dict(line.split("==") for line in text.split())
accepted = pathlib.Path("policy/exceptions.txt").read_text()
findings = 0
for line in pathlib.Path("advisories.csv").read_text().splitlines()[1:]:
    advisory, package, fixed, severity = line.split(",")
    pinned = pins.get(package)
    if pinned and [int(n) for n in pinned.split(".")] < [int(n) for n in fixed.split(".")]:
        state = "accepted" if advisory in accepted else "OPEN"
        findings += state == "OPEN"
        print(f"{state} {advisory} {package} {pinned}")
if findings:
    sys.exit(f"{findings} open finding")
print("clean, stamp", hashlib.sha256(text.encode()).hexdigest()[:8])
'''


_LISTS = ("pins", "advisories", "exceptions")


class Finding(NamedTuple):
    """An advisory that concerns the service and is not excepted."""

    advisory: str
    package: str
    pinned: str
    fixed: str


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    service, *others = [f"{team}{number(dice, 2)}" for team in dice.sample(TEAMS, 3)]
    packages = [f"py{noun}" for noun in dice.sample(NOUNS, 7)]
    used = packages[:5]
    pins = {package: f"{dice.randrange(2, 6)}.{dice.randrange(3, 30)}" for package in used}
    advisories = [f"ADV-{number(dice, 4)}-{number(dice, 3)}" for _ in range(5)]
    fixed = [_later(dice, pins[used[0]]), _later(dice, pins[used[1]]), f"1.{dice.randrange(2, 9)}", "4.1", "3.17"]
    severities = [dice.choice(("high", "critical")), "low", "medium", "high", "critical"]
    rows = [
        f"{advisory},{package},{version},{severity}"
        for advisory, package, version, severity in zip(
            advisories, [used[0], used[1], used[2], packages[5], packages[6]], fixed, severities, strict=True
        )
    ]
    dice.shuffle(rows)
    lines = [f"{package}=={version}" for package, version in pins.items()]
    dice.shuffle(lines)
    write_files(
        root,
        {
            f"services/{service}/requirements.txt": "\n".join(lines),
            f"services/{others[0]}/requirements.txt": f"{packages[6]}==5.2\n{used[3]}=={pins[used[3]]}",
            "advisories.csv": "\n".join(["advisory,package,fixed_in,severity", *rows]),
            "policy/exceptions.txt": f"{advisories[1]} accepted for {service}, behind the gateway\n"
            f"{filler_lines(dice, 1)[0]}",
            "tools/audit.py": _AUDIT,
            "tickets/closed.txt": f"ADV-{number(dice, 4)}-{number(dice, 3)} {others[1]} {hexadecimal(dice, 8)}",
        },
    )
    truth = {
        "service": service,
        "advisory": advisories[0],
        "package": used[0],
        "fixed": fixed[0],
        "kept": pins[used[1]],
    }
    return Scenario(dice.choice(_PROMPTS).format(service=service), truth | {"kept_package": used[1]})


def _later(dice: Random, version: str) -> str:
    major, minor = version.split(".")
    return f"{major}.{int(minor) + dice.randrange(1, 9)}"


def _service(mind: Mind) -> str:
    return mind.prompt(r"(?:packages of|Does|review of) (\w+)")


def _is_older(version: str, than: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in than.split(".")]


def _finding(mind: Mind) -> Finding | None:
    """What is open, worked out from the three lists; or as the upgrade that was made since shows it."""
    lists = [mind.output(name) for name in _LISTS]
    if None not in lists:
        pins, advisories, exceptions = (text or "" for text in lists)
        pinned = dict(line.split("==") for line in pins.splitlines())
        for line in advisories.splitlines()[1:]:
            advisory, package, fixed, _ = line.split(",")
            if package in pinned and advisory not in exceptions and _is_older(pinned[package], fixed):
                return Finding(advisory, package, pinned[package], fixed)
    return _finding_from_upgrade(mind)


def _finding_from_upgrade(mind: Mind) -> Finding | None:
    open_advisory = mind.search(r"^OPEN (ADV-\S+)", r"(ADV-\d+-\d+) is the one that counts")
    upgrade = mind.search(r"requirements\.txt\n(\w+==\S+\n\w+==\S+)$")
    if open_advisory is None or upgrade is None:
        return None
    package, pinned, _, fixed = upgrade.replace("\n", "==").split("==")
    return Finding(open_advisory, package, pinned, fixed)


FINDING = Fact(" ".join(_LISTS), _finding)
STAMP = said("audit", r"clean, stamp (\w+)")


@move
def pins(m: Mind) -> Message:
    return m.say(
        ["What does {service} use?", "The requirements of {service} first.", "Reading the pinned versions."],
        call("read_file", path=f"services/{_service(m)}/requirements.txt"),
        service=_service(m),
    )


@move
def advisories(m: Mind) -> Message:
    return m.say(
        ["And the advisories.", "Which holes have been published?", "Now the list of known problems."],
        call("read_file", path="advisories.csv"),
    )


@move
def exceptions(m: Mind) -> Message:
    return m.say(
        ["Some findings are accepted; which?", "Checking the exceptions before I upgrade anything."],
        call("read_file", path="policy/exceptions.txt"),
    )


@move
def first_audit(m: Mind) -> Message:
    return m.say(
        ["What does the audit say right now?", "Running the audit before the change, to see it fail."],
        call("run", command=f"python tools/audit.py {_service(m)}"),
    )


@move
def upgrade(m: Mind) -> Message:
    found = m(FINDING)
    return m.say(
        [
            "{advisory} is the one that counts. Upgrading {package}.",
            "{package} {pinned} is too old; {fixed} has the fix.",
            "Changing the pin of {package}.",
        ],
        call(
            "replace_text",
            path=f"services/{_service(m)}/requirements.txt",
            old=f"{found.package}=={found.pinned}",
            new=f"{found.package}=={found.fixed}",
        ),
        thinks=["Compare each pin with fixed_in, skip what is excepted: that leaves {package}."],
        advisory=found.advisory,
        package=found.package,
        pinned=found.pinned,
        fixed=found.fixed,
    )


@move
def audit(m: Mind) -> Message:
    return m.say(
        ["Auditing again.", "Now it should be clean.", "The audit gives me the stamp."],
        call("run", command=f"python tools/audit.py {_service(m)}"),
    )


@move
def close(m: Mind) -> Message:
    return m.say(
        ["Closing the ticket.", "Recording it with stamp {stamp}.", "One line for the ticket list."],
        call("append_line", path="tickets/closed.txt", line=f"{m(FINDING).advisory} {_service(m)} {m(STAMP)}"),
        stamp=STAMP,
    )


@move
def answer(m: Mind) -> Message:
    found = m(FINDING)
    return m.tell(
        "{advisory} concerned {package}. I raised it to {fixed}; the audit is clean with stamp {stamp}.",
        "Upgraded {package} to {fixed} because of {advisory}. Stamp of the clean audit: {stamp}.",
        "Stamp {stamp}: {service} is clean after moving {package} to {fixed} ({advisory}).",
        advisory=found.advisory,
        package=found.package,
        fixed=found.fixed,
        service=_service(m),
        stamp=STAMP,
    )


def plan(dice: Random) -> list[Move]:
    opening = [pins, advisories, exceptions]
    dice.shuffle(opening)
    if dice.random() < 0.4:
        opening.insert(dice.randrange(1, 4), first_audit)
    return mix(dice, [*opening, upgrade, audit, close, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    pinned = outcome.text(f"services/{truth['service']}/requirements.txt").splitlines()
    closed = outcome.text("tickets/closed.txt").splitlines()[-1].split()
    return (
        f"{truth['package']}=={truth['fixed']}" in pinned
        and f"{truth['kept_package']}=={truth['kept']}" in pinned
        and closed[:2] == [truth["advisory"], truth["service"]]
        and closed[2] in outcome.answer
        and outcome.answer_names("advisory", "package", "fixed")
    )


FAMILY = Family(
    domain="security",
    name="vulnerable_package",
    system="You keep third-party packages free of known holes. Change only what an advisory demands.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
