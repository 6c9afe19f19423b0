"""Move a service's settings to the new form: read the old file, add the documented limit, validate, register it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, NOUNS, TEAMS, number, write_files

_LIMITS = ("retries", "pool", "batch", "cache")
_VALIDATE = """import hashlib, pathlib, sys
text = pathlib.Path("{service}.conf").read_text()
settings = dict(line.split("=") for line in text.split())
for key in ("port", "timeout", "{extra}"):
    if key not in settings:
        sys.exit("missing: " + key)
print("ok, fingerprint", hashlib.sha256(text.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
    team, other = dice.sample(TEAMS, 2)
    service = f"{team}{number(dice, 1)}"
    extra = dice.choice(_LIMITS)
    settings = {"port": number(dice, 4), "timeout": str(dice.randrange(5, 90))}
    zone = f"{dice.choice(CITIES).lower()}-{dice.randrange(1, 9)}"
    lines = [f"{key} = {value}" for key, value in settings.items()]
    lines += [f"zone = {zone}", f"host = {dice.choice(NOUNS)}.example.org"]
    dice.shuffle(lines)
    limits = {name: dice.randrange(2, 60) for name in (service, other)}
    order = dice.sample(sorted(limits), 2)
    write_files(
        root,
        {
            f"{service}.ini": "\n".join([f"[{service}]", *lines]),
            "validate.py": _VALIDATE.replace("{extra}", extra).replace("{service}", service),
            "limits.txt": "\n".join([*(f"{name} {extra}: {limits[name]}" for name in order)]),
        },
    )
    truth = {"service": service, "zone": zone, "extra": extra, "limit": str(limits[service]), **settings}
    return Scenario(dice.choice(FAMILY.prompts).format(service=service), truth)


def _limit(mind: Mind) -> str | None:
    """The limit as a setting, from the list or as it was written since."""
    limits = "|".join(_LIMITS)
    found = mind.search(rf"^{mind['service']} (\w+: \d+)$", rf"^((?:{limits})=\d+)$")
    return found.replace(": ", "=") if found else None


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lines = outcome.text(f"{truth['service']}.conf").split()
    written = lines == [f"{key}={truth[key]}" for key in ("port", "timeout")] + [f"{truth['extra']}={truth['limit']}"]
    entry = outcome.last_line("log.txt").split()
    return written and entry[::2] == [truth["service"], truth["zone"]] and entry[1] in outcome.answer


FAMILY = read_family(__file__, prepare, done, limit=_limit)
