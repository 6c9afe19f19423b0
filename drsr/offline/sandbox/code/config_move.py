"""Move a service's settings to the new form: read the old file, add the documented limit, validate, register it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, TEAMS, number, write_files

_LIMITS = ("retries", "pool", "batch", "cache")
_TOOLS = ("read", "write", "log", "run")
_PROMPTS = (
    "Move the settings of {service} from {service}.ini to {service}.conf: port, timeout and the limit from limits.txt, "
    "one per line as key=value. validate.py must accept them. Then log it as '<service> "
    "<fingerprint> <zone>' and tell me fingerprint, port and zone.",
    "Please convert {service}.ini into {service}.conf (port, timeout, and the limit from limits.txt, as key=value "
    "lines) until validate.py says ok, and log the line '<service> <fingerprint> <zone>'. I would like "
    "to hear fingerprint, port and zone.",
    "The {service} service still uses {service}.ini. Write {service}.conf instead, with port=, timeout= and the limit "
    "of limits.txt (validate.py checks it), log '<service> <fingerprint> <zone>', then report "
    "fingerprint, port and zone.",
)
_VALIDATE = """import hashlib, pathlib, sys
text = pathlib.Path("{service}.conf").read_text()
settings = dict(line.split("=") for line in text.split())
for key in ("port", "timeout", "{extra}"):
    if key not in settings:
        sys.exit("missing: " + key)
print("ok, fingerprint", hashlib.sha256(text.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
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
    return Scenario(dice.choice(_PROMPTS).format(service=service), truth)


def _service(mind: Mind) -> str:
    return mind.prompt(r"\b(\w+)\.ini")


PORT = said("legacy", r"^port = (\d+)$", r"port=(\d+)")
TIMEOUT = said("legacy", r"^timeout = (\d+)$", r"timeout=(\d+)")
ZONE = Fact("legacy", lambda m: m.search(r"^zone = (\S+)$", rf"^{_service(m)} [0-9a-f]{{4}} (\S+)$"))
LIMIT = Fact("limits", lambda m: m.search(rf"^{_service(m)} (\w+: \d+)$", rf"^((?:{'|'.join(_LIMITS)})=\d+)$"))
FINGERPRINT = said("accepted", r"ok, fingerprint (\w+)")


@move
def legacy(m: Mind) -> Message:
    return m.say(
        ["The old settings.", "What is in the old file?", "Reading what {service} has now."],
        call("read", path=f"{_service(m)}.ini"),
        service=_service(m),
    )


@move
def limits(m: Mind) -> Message:
    return m.say(
        ["Which limit applies?", "Reading the limits.", "The limit of {service} is documented."],
        call("read", path="limits.txt"),
        service=_service(m),
    )


@move
def convert(m: Mind) -> Message:
    limit = m(LIMIT).replace(": ", "=")
    return m.say(
        ["Port {port}, and the limit.", "Now the new file.", "Translating it key by key."],
        call("write", path=f"{_service(m)}.conf", text=f"port={m(PORT)}\ntimeout={m(TIMEOUT)}\n{limit}"),
        thinks=["Port {port} and timeout stay as they were; the limit is {limit}."],
        port=PORT,
        limit=limit,
    )


@move
def accepted(m: Mind) -> Message:
    return m.say(
        ["Validating.", "Let the validator decide."],
        call("run", command="python validate.py"),
    )


@move
def register(m: Mind) -> Message:
    return m.say(
        ["Logging the move.", "Zone {zone}."],
        call("log", line=f"{_service(m)} {m(FINGERPRINT)} {m(ZONE)}"),
        zone=ZONE,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Moved. Fingerprint {fingerprint}, port {port}, zone {zone}.",
        "Fingerprint {fingerprint}; port {port} stays, zone {zone}.",
        "Zone {zone}, port {port}, fingerprint {fingerprint}.",
        brief=(
            "The service is moved, with fingerprint {fingerprint}, in {zone}.",
            "Done: fingerprint {fingerprint} is logged for zone {zone}.",
        ),
        fingerprint=FINGERPRINT,
        port=PORT,
        zone=ZONE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([legacy, limits], [limits, legacy]))
    return mix(dice, [*look, convert, accepted, register, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lines = outcome.text(f"{truth['service']}.conf").split()
    written = lines == [f"{key}={truth[key]}" for key in ("port", "timeout")] + [f"{truth['extra']}={truth['limit']}"]
    entry = outcome.last_line("log.txt").split()
    registered = entry[::2] == [truth["service"], truth["zone"]]
    return (
        written and registered and entry[1] in outcome.answer and outcome.answer_names("port", "zone", brief=("zone",))
    )


FAMILY = Family(
    domain="code",
    name="config_move",
    role="You migrate services to the new configuration. Copy values exactly and let the validator judge. A service "
    "counts as moved when it stands in the log with the fingerprint that the validator printed. Hosts, colours "
    "and comments are not carried over; ports, timeouts and zones never change.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
