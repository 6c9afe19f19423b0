"""A service uses a package with a published hole: find it, mind the exceptions, upgrade, audit, and file it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, TEAMS, number, write_files

_TOOLS = ("read", "log", "replace", "run")
_PROMPTS = (
    "Go through the packages of {service}.txt and upgrade the one that advisories.csv (advisory, package, fixed in) "
    "calls vulnerable and that is not excepted in exceptions.txt. Then run audit.py, log '<advisory> <stamp>' "
    "and tell me advisory, package, new version and stamp.",
    "Does {service}.txt use anything with an open advisory (advisories.csv: advisory, package, fixed in; accepted ones "
    "are in exceptions.txt)? Fix it there, run audit.py for the stamp, and log '<advisory> <stamp>'. "
    "Summarise advisory, package, new version and stamp.",
    "Security review of {service}.txt: upgrade what an advisory concerns (advisories.csv has advisory, package, fixed "
    "in; those in exceptions.txt stay as they are), prove it with audit.py, log it as '<advisory> "
    "<stamp>', and report advisory, package, new version and stamp.",
)
_AUDIT = """import hashlib, pathlib, sys
text = pathlib.Path("{service}.txt").read_text()
pins = dict(line.split() for line in text.splitlines())
accepted = pathlib.Path("exceptions.txt").read_text()
for line in pathlib.Path("advisories.csv").read_text().splitlines():
    advisory, package, fixed = line.split(",")
    pinned = pins.get(package)
    if pinned and advisory not in accepted and [*map(int, pinned.split("."))] < [*map(int, fixed.split("."))]:
        sys.exit("OPEN " + advisory)
print("clean, stamp", hashlib.sha256(text.encode()).hexdigest()[:4])
"""
_LISTS = ("pins", "advisories", "advisories.1")


class Finding(NamedTuple):
    """An advisory that concerns the service and is not excepted."""

    advisory: str
    package: str
    pinned: str
    fixed: str


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    service = f"{dice.choice(TEAMS)}{number(dice, 2)}"
    packages = dice.sample(NOUNS, 4)
    used = packages[:3]
    pins = {package: f"{dice.randrange(2, 6)}.{dice.randrange(3, 30)}" for package in used}
    advisories = [f"ADV-{digits}" for digits in dice.sample(range(100, 1000), 4)]
    fixed = [_later(dice, pins[used[0]]), _later(dice, pins[used[1]]), f"1.{dice.randrange(2, 9)}", "4.1"]
    rows = [
        f"{advisory},{package},{version}"
        for advisory, package, version in zip(advisories, packages, fixed, strict=False)
    ]
    dice.shuffle(rows)
    lines = [f"{package} {version}" for package, version in pins.items()]
    dice.shuffle(lines)
    write_files(
        root,
        {
            f"{service}.txt": "\n".join(lines),
            "advisories.csv": "\n".join(rows),
            "exceptions.txt": f"{advisories[1]} accepted, behind the gateway",
            "audit.py": _AUDIT.replace("{service}", service),
        },
    )
    truth = {"service": service, "advisory": advisories[0], "package": used[0], "fixed": fixed[0]}
    return Scenario(dice.choice(_PROMPTS).format(service=service), truth | {"kept": f"{used[1]} {pins[used[1]]}"})


def _later(dice: Random, version: str) -> str:
    major, minor = version.split(".")
    return f"{major}.{int(minor) + dice.randrange(1, 9)}"


def _service(mind: Mind) -> str:
    return mind.prompt(r"(?:packages of|Does|review of) (\w+)\.txt")


def _is_older(version: str, than: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in than.split(".")]


def _finding(mind: Mind) -> Finding | None:
    """Return what is open, worked out from the three lists; or as the upgrade that was made since shows it."""
    lists = [mind.output(name) for name in _LISTS]
    if None not in lists:
        pins, advisories, exceptions = (text or "" for text in lists)
        pinned = dict(line.split() for line in pins.splitlines())
        for line in advisories.splitlines():
            advisory, package, fixed = line.split(",")
            if package in pinned and advisory not in exceptions and _is_older(pinned[package], fixed):
                return Finding(advisory, package, pinned[package], fixed)
    return _finding_from_upgrade(mind)


def _finding_from_upgrade(mind: Mind) -> Finding | None:
    open_advisory = mind.search(r"^OPEN (ADV-\d+)", r"(ADV-\d+) is the one that counts", r"^(ADV-\d+) [0-9a-f]{4}$")
    upgrade = mind.search(r"\.txt\n([a-z]+ [\d.]+\n[a-z]+ [\d.]+)$")
    if open_advisory is None or upgrade is None:
        return None
    package, pinned, _, fixed = upgrade.split()
    return Finding(open_advisory, package, pinned, fixed)


FINDING = Fact(" ".join(_LISTS), _finding)
STAMP = said("audit", r"clean, stamp (\w+)")


@move
def pins(m: Mind) -> Message:
    return m.say(
        ["What does {service} use?", "The packages of {service} first.", "Reading the pinned versions."],
        call("read", path=f"{_service(m)}.txt"),
        service=_service(m),
    )


@move
def advisories(m: Mind) -> Message:
    return m.say(
        ["The advisories, and the exceptions.", "Which holes have been published?", "Now the list of known problems."],
        call("read", path="advisories.csv"),
        call("read", path="exceptions.txt"),
    )


@move
def first_audit(m: Mind) -> Message:
    return m.say(
        ["What does the audit say right now?", "Running the audit before the change, to see it fail."],
        call("run", command="python audit.py"),
    )


@move
def upgrade(m: Mind) -> Message:
    found = m(FINDING)
    return m.say(
        [
            "{advisory} is the one that counts.",
            "{package} {pinned} is too old; {fixed} has the fix.",
            "Changing the pin of {package}.",
        ],
        call(
            "replace",
            path=f"{_service(m)}.txt",
            old=f"{found.package} {found.pinned}",
            new=f"{found.package} {found.fixed}",
        ),
        thinks=["Compare each pin with the fixed version, skip what is excepted: that leaves {package}."],
        advisory=found.advisory,
        package=found.package,
        pinned=found.pinned,
        fixed=found.fixed,
    )


@move
def audit(m: Mind) -> Message:
    return m.say(
        ["Auditing again.", "Now it should be clean."],
        call("run", command="python audit.py"),
    )


@move
def close(m: Mind) -> Message:
    return m.say(
        ["Closing the ticket.", "Recording it."],
        call("log", line=f"{m(FINDING).advisory} {m(STAMP)}"),
    )


@move
def answer(m: Mind) -> Message:
    found = m(FINDING)
    return m.tell(
        "{advisory}: {package} is now {fixed}, stamp {stamp}.",
        "Upgraded {package} to {fixed} for {advisory}, stamp {stamp}.",
        "Stamp {stamp}: {package} {fixed} closes {advisory}.",
        brief=(
            "The audit is clean, stamp {stamp}, so {advisory} is closed.",
            "Done: {advisory} is closed with stamp {stamp}.",
        ),
        advisory=found.advisory,
        package=found.package,
        fixed=found.fixed,
        stamp=STAMP,
    )


def plan(dice: Random) -> list[Move]:
    look = [advisories, pins]
    if dice.random() < 0.2:
        look.insert(dice.randrange(1, 3), first_audit)
    return mix(dice, [*look, upgrade, audit, close, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    pinned = outcome.text(f"{truth['service']}.txt").splitlines()
    closed = outcome.last_line("log.txt").split()
    return (
        f"{truth['package']} {truth['fixed']}" in pinned
        and truth["kept"] in pinned
        and closed[:1] == [truth["advisory"]]
        and closed[-1] in outcome.answer
        and outcome.answer_names("advisory", "package", "fixed", brief=("advisory",))
    )


FAMILY = Family(
    domain="security",
    name="vulnerable_package",
    role="You keep third-party packages free of known holes. Change only what an advisory demands. A package is "
    "vulnerable when its pinned version is older than the one that fixes the hole. Exceptions were accepted by people "
    "who had their reasons. The audit prints a stamp when nothing is open.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
