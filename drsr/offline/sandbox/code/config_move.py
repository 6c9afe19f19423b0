"""Move a service's settings to the new form: read the old file, write the new one, add what is missing, register it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, TEAMS, filler_lines, number, people, write_files

_TOOLS = ("read_file", "write_file", "append_line", "run")
_PROMPTS = (
    "Move the settings of {service} from legacy/{service}.ini to config/{service}.json. tools/validate.py must "
    "accept them. Then register it in deploy/registry.txt as '<service> <fingerprint> <zone>' and tell me "
    "fingerprint, port and zone.",
    "Please convert legacy/{service}.ini into config/{service}.json until tools/validate.py says ok, and add the "
    "line '<service> <fingerprint> <zone>' to deploy/registry.txt. I would like to hear fingerprint, port and "
    "zone.",
    "The {service} service still uses legacy/{service}.ini. Write config/{service}.json instead "
    "(tools/validate.py checks it), put '<service> <fingerprint> <zone>' into deploy/registry.txt, then report "
    "fingerprint, port and zone.",
)
_VALIDATE = '''"""Check a service's settings and print their fingerprint."""

import hashlib
import json
import pathlib
import sys

service = sys.argv[1]
settings = json.loads(pathlib.Path(f"config/{service}.json").read_text())
for key in ("host", "port", "timeout", "{extra}"):
    if key not in settings:
        sys.exit(f"missing: {key} (see docs/{extra_doc}.md)")
text = json.dumps(settings, sort_keys=True)
print("ok, fingerprint", hashlib.sha256(text.encode()).hexdigest()[:8])
'''


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    service, *others = dice.sample(TEAMS, 4)
    extra = dice.choice(("retry_limit", "pool_size", "batch_rows", "cache_minutes"))
    extra_doc = dice.choice(NOUNS)
    settings = {
        "host": f"{dice.choice(NOUNS)}.{dice.choice(NOUNS)}.example.org",
        "port": number(dice, 4),
        "timeout": str(dice.randrange(5, 90)),
    }
    lines = [f"{key} = {value}" for key, value in settings.items()]
    lines.append(f"colour = {dice.choice(('blue', 'grey', 'none'))}")
    dice.shuffle(lines)
    limits = {name: dice.randrange(2, 60) for name in [service, *others]}
    zones = {
        name: f"{city.lower()}-{dice.randrange(1, 9)}"
        for name, city in zip(limits, dice.sample(CITIES, 4), strict=True)
    }
    write_files(
        root,
        {
            f"legacy/{service}.ini": "\n".join([f"[{service}]", f"# last edited by {people(dice, 1)[0]}", *lines]),
            "tools/validate.py": _VALIDATE.replace("{extra_doc}", extra_doc).replace("{extra}", extra),
            f"docs/{extra_doc}.md": "\n".join(
                [f"{extra} by service", *(f"{name}: {value}" for name, value in limits.items()), *filler_lines(dice, 1)]
            ),
            "deploy/zones.txt": "\n".join(f"{name} runs in {zone}" for name, zone in sorted(zones.items())),
            "deploy/registry.txt": f"{others[0]} {number(dice, 8)} {zones[others[0]]}",
        },
    )
    truth = {"service": service, "zone": zones[service], "extra": extra, "limit": str(limits[service]), **settings}
    return Scenario(dice.choice(_PROMPTS).format(service=service), truth)


def _service(mind: Mind) -> str:
    return mind.prompt(r"legacy/(\w+)\.ini")


def _setting(key: str) -> Fact[str]:
    return said("legacy", rf"^{key} = (\S+)$", rf'"{key}": "?([\w.]+)"?[,}}]')


HOST, PORT, TIMEOUT = _setting("host"), _setting("port"), _setting("timeout")
EXTRA = said("validate", r"missing: (\w+) \(see", r"lacks (\w+_\w+)\b")
EXTRA_DOC = said("validate", r"\(see docs/(\w+)\.md\)", r"^docs/(\w+)\.md$")
LIMIT = Fact("limits", lambda m: m.search(rf"^{_service(m)}: (\d+)$", rf'"{m(EXTRA)}": (\d+)'))
ZONE = Fact("legacy.1", lambda m: m.search(rf"^{_service(m)} runs in (\S+)$", rf"^{_service(m)} \w+ (\S+)$"))
FINGERPRINT = said("accepted", r"ok, fingerprint (\w+)")


def _settings(mind: Mind) -> dict[str, str | int]:
    return {"host": mind(HOST), "port": int(mind(PORT)), "timeout": int(mind(TIMEOUT))}


@move
def legacy(m: Mind) -> Message:
    return m.say(
        ["The old settings, and the zones.", "What is in the old file, and where does {service} run?"],
        call("read_file", path=f"legacy/{_service(m)}.ini"),
        call("read_file", path="deploy/zones.txt"),
        service=_service(m),
    )


@move
def others(m: Mind) -> Message:
    return m.say(
        ["Has any other service been moved already?", "Looking for an example to follow."],
        call("run", command="ls config"),
        call("run", command="ls legacy"),
    )


@move
def first_try(m: Mind) -> Message:
    return m.say(
        ["Writing the new file.", "Host {host}, port {port}: a first version.", "Translating it key by key."],
        call("write_file", path=f"config/{_service(m)}.json", content=json.dumps(_settings(m))),
        host=HOST,
        port=PORT,
    )


@move
def validate(m: Mind) -> Message:
    return m.say(
        ["Is that accepted?", "Validating.", "Let the validator decide."],
        call("run", command=f"python tools/validate.py {_service(m)}"),
    )


@move
def limits(m: Mind) -> Message:
    return m.say(
        ["It lacks {extra}. The page it names should help.", "Something is missing.", "Reading the page it points to."],
        call("read_file", path=f"docs/{m(EXTRA_DOC)}.md"),
        extra=EXTRA,
    )


@move
def complete(m: Mind) -> Message:
    settings = {**_settings(m), m(EXTRA): int(m(LIMIT))}
    return m.say(
        ["With {extra} set to {limit}.", "Now the complete file.", "Adding what was missing."],
        call("write_file", path=f"config/{_service(m)}.json", content=json.dumps(settings)),
        thinks=["{service} has {limit} on that page; everything else stays as it was."],
        extra=EXTRA,
        limit=LIMIT,
        service=_service(m),
    )


@move
def accepted(m: Mind) -> Message:
    return m.say(
        ["Validating again.", "Second attempt.", "This should give the fingerprint."],
        call("run", command=f"python tools/validate.py {_service(m)}"),
    )


@move
def register(m: Mind) -> Message:
    return m.say(
        ["Registering it.", "Into the registry, zone {zone}.", "Fingerprint {fingerprint} goes into the registry."],
        call("append_line", path="deploy/registry.txt", line=f"{_service(m)} {m(FINGERPRINT)} {m(ZONE)}"),
        zone=ZONE,
        fingerprint=FINGERPRINT,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{service} is moved. Fingerprint {fingerprint}, port {port}, zone {zone}.",
        "The new settings are accepted (fingerprint {fingerprint}). Port {port} is unchanged; the zone is {zone}.",
        "Zone {zone}, port {port}, fingerprint {fingerprint}: {service} now uses the new form.",
        service=_service(m),
        fingerprint=FINGERPRINT,
        port=PORT,
        zone=ZONE,
    )


def plan(dice: Random) -> list[Move]:
    look = [legacy, others] if dice.random() < 0.3 else [legacy]
    return mix(dice, [*look, first_try, validate, limits, complete, accepted, register, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    written = json.loads(outcome.text(f"config/{truth['service']}.json") or "{}")
    expected = {"host": truth["host"], "port": int(truth["port"]), "timeout": int(truth["timeout"])}
    expected[truth["extra"]] = int(truth["limit"])
    entry = outcome.text("deploy/registry.txt").splitlines()[-1].split()
    registered = [entry[0], entry[-1]] == [truth["service"], truth["zone"]]
    return written == expected and registered and entry[1] in outcome.answer and outcome.answer_names("port", "zone")


FAMILY = Family(
    domain="code",
    name="config_move",
    system="You migrate services to the new configuration. Copy values exactly and let the validator judge.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
