"""A service uses a package with a published hole: find it, mind the exceptions, upgrade, audit, and file it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import NOUNS, TEAMS, number, write_files

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
    return Scenario(dice.choice(FAMILY.prompts).format(service=service), truth | {"kept": f"{used[1]} {pins[used[1]]}"})


def _later(dice: Random, version: str) -> str:
    major, minor = version.split(".")
    return f"{major}.{int(minor) + dice.randrange(1, 9)}"


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


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    pinned = outcome.text(f"{truth['service']}.txt").splitlines()
    closed = outcome.last_line("log.txt").split()
    return (
        f"{truth['package']} {truth['fixed']}" in pinned
        and truth["kept"] in pinned
        and closed[:1] == [truth["advisory"]]
        and closed[-1] in outcome.answer
    )


FAMILY = read_family(__file__, prepare, done, finding=_finding)
