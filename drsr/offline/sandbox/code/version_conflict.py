"""The resolver reports a conflict: choose the highest version that fits and is not withdrawn, pin it with its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, hexadecimal, number, write_files

_RESOLVE = """import hashlib, pathlib, sys
text = pathlib.Path("{app}.lock").read_text()
pins = {{line.split()[0]: line for line in text.splitlines()}}
if not {low} <= int(pins["{package}"].split()[1].split(".")[0]) < {high}:
    sys.exit("conflict: {user} needs {package} from {low} below {high}, but the pin is " + pins["{package}"])
print("resolved, digest", hashlib.sha256(text.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
    app, package, user, other = dice.sample(NOUNS, 4)
    app = f"{app}{number(dice, 1)}"
    low = dice.randrange(3, 8)
    high = low + 2
    old = f"{low - 1}.{dice.randrange(1, 9)}"
    small, large = sorted(dice.sample(range(1, 10), 2))
    versions = [old, f"{high - 1}.{small}", f"{high - 1}.{large}"]
    hashes = {version: hexadecimal(dice, 3) for version in versions}
    best = versions[1]
    pins = [f"{name} {dice.randrange(1, 9)}.{dice.randrange(1, 20)} {hexadecimal(dice, 3)}" for name in (user, other)]
    pins.append(f"{package} {old} {hashes[old]}")
    dice.shuffle(pins)
    listed = [f"{version} {hashes[version]}" for version in versions]
    write_files(
        root,
        {
            f"{app}.lock": "\n".join(pins),
            f"index/{package}.txt": "\n".join([*listed[:2], f"{listed[2]} withdrawn by {dice.choice(FIRST_NAMES)}"]),
            f"index/{other}.txt": f"2.1 {hexadecimal(dice, 4)}",
            "resolve.py": _RESOLVE.format(app=app, package=package, user=user, low=low, high=high),
        },
    )
    truth = {"app": app, "package": package, "version": best, "hash": hashes[best], "user": user}
    return Scenario(dice.choice(FAMILY.prompts).format(app=app), truth)


def _choice(mind: Mind) -> list[str] | None:
    """Version and hash of the highest version in range that is not withdrawn; or as it was written since."""
    versions, wanted = mind.output("versions"), mind.search(r"needs \w+ (from \d+ below \d+)")
    if versions is None or wanted is None:
        written = mind.search(rf"lock\n{mind['package']} \S+ \w+\n{mind['package']} (\S+ \w+)$")
        return written.split() if written else None
    low, high = (int(word) for word in wanted.split() if word.isdigit())
    usable = [line.split() for line in versions.splitlines() if "withdrawn" not in line]
    fitting = [line for line in usable if low <= int(line[0].split(".")[0]) < high]
    return max(fitting, key=lambda line: [int(part) for part in line[0].split(".")])


def _version(mind: Mind) -> str:
    written = mind.search(rf"^{mind['package']} (\S+) [0-9a-f]{{4}}$")
    return written or mind["choice"][0]


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lock = outcome.text(f"{truth['app']}.lock")
    pin = f"{truth['package']} {truth['version']}"
    digest = hashlib.sha256(lock.encode()).hexdigest()[:4]
    return f"{pin} {truth['hash']}" in lock.splitlines() and outcome.last_line("log.txt") == f"{pin} {digest}"


FAMILY = read_family(__file__, prepare, done, choice=_choice, version=_version)
