"""Which address guessed its way into an account: count, confirm, block, and name the owner of the host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, mail_address, number, numbers, people, write_files

_TOOLS = ("read_file", "append_line", "run")
_PROMPTS = (
    "Host {host} raised a login alarm. Find the address that guessed passwords on {host}, see whether it got in, "
    "block it in etc/blocklist.txt as the policy says, and tell me account, address and whom to inform.",
    "Please investigate the failed logins on {host}: which address is behind them, and did it succeed? Add it to "
    "etc/blocklist.txt in the format of the policy. I need the account, the address and the host's owner.",
    "We suspect a password attack on {host}. Work out the attacker's address and the account it entered, block "
    "the address by the book (etc/blocklist.txt), then report account, address and the contact for the machine.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    host, *other_hosts = [f"{noun}-{dice.randrange(2, 60)}" for noun in dice.sample(NOUNS, 4)]
    accounts = dice.sample(NOUNS, 4)
    attacker, bystander, third = _addresses(dice)
    owners = [mail_address(name) for name in people(dice, 4)]
    tries = [attacker] * dice.randrange(3, 5) + [bystander] * 2 + [third]
    dice.shuffle(tries)
    log = [f"sshd: Failed password for {dice.choice(accounts)} from {address}" for address in tries]
    log.append(f"sshd: Accepted password for {accounts[0]} from {attacker}")
    log.append(f"sshd: Accepted publickey for {accounts[1]} from {bystander}")
    (case, old_case), desk = numbers(dice, 5, 2), f"{dice.choice(CITIES).upper()}-{number(dice, 3)}"
    hosts = [f"{name} owner={owner}" for name, owner in zip([host, *other_hosts], owners, strict=True)]
    dice.shuffle(hosts)
    write_files(
        root,
        {
            f"logs/{host}.log": "\n".join(log),
            f"logs/{other_hosts[0]}.log": f"sshd: session closed for {accounts[2]}",
            "policy/blocking.md": f"Case number for this week: SEC-{case}\n"
            f"One line per address: <address> <case> <desk>\nThe desk on duty is {desk}.",
            "etc/blocklist.txt": f"{third.rsplit('.', 1)[0]}.7 SEC-{old_case} {desk[:-3]}{number(dice, 3)}",
            "inventory/hosts.txt": "\n".join(hosts),
        },
    )
    entry = f"{attacker} SEC-{case} {desk}"
    truth = {"address": attacker, "account": accounts[0], "owner": owners[0], "entry": entry}
    return Scenario(dice.choice(_PROMPTS).format(host=host), truth)


def _addresses(dice: Random) -> list[str]:
    parts = [(dice.randrange(20, 220), dice.randrange(9, 250), dice.randrange(9, 250)) for _ in range(3)]
    return [f"{a}.{b}.{c}.{last}" for (a, b, c), last in zip(parts, dice.sample(range(8, 250), 3), strict=True)]


def _host(mind: Mind) -> str:
    return mind.prompt(r"\b([a-z]+-\d+)\b")


def _busiest(mind: Mind) -> str | None:
    """The address with most failures, counted in the log's lines, or as it was stated or used since."""
    failures = mind.output("failures")
    if failures is None:
        return mind.search(r"come from ([\d.]+\d)", r"^grep -n ([\d.]+) logs/", r"blocklist\.txt\n([\d.]+) SEC-")
    return Counter(line.rsplit(" ", 1)[1] for line in failures.splitlines()).most_common(1)[0][0]


ADDRESS = Fact("failures", _busiest)
ACCOUNT = said("confirm", r"Accepted password for (\w+) from", r"got into the account (\w+)")
CASE = said("policy", r"Case number for this week: (SEC-\d+)", r"blocklist\.txt\n[\d.]+ (SEC-\d+)")
DESK = said("policy", r"desk on duty is ([A-Z]+-\d+)", r"blocklist\.txt\n[\d.]+ SEC-\d+ (\S+)")
OWNER = Fact("owner", lambda mind: mind.search(rf"{_host(mind)} owner=(\S+)"))


@move
def policy(m: Mind) -> Message:
    return m.say(
        [
            "The policy decides the format, so I read it first.",
            "What does the policy ask for?",
            "Policy before action.",
        ],
        call("read_file", path="policy/blocking.md"),
    )


@move
def logs(m: Mind) -> Message:
    return m.say(
        ["Which logs do we have?", "Listing the logs.", "The log of {host} should be in logs."],
        call("run", command="ls logs"),
        host=_host(m),
    )


@move
def failures(m: Mind) -> Message:
    return m.say(
        ["All failed logins on {host}.", "Pulling out every failure.", "Now the failures themselves."],
        call("run", command=f"grep Failed logs/{_host(m)}.log"),
        thinks=["I should count the failures per address and take the largest."],
        host=_host(m),
    )


@move
def confirm(m: Mind) -> Message:
    return m.say(
        ["Most of them come from {address}. Did it get in?", "One address stands out. What else did it do?"],
        call("run", command=f"grep -n {m(ADDRESS)} logs/{_host(m)}.log | tail -n 2"),
        address=ADDRESS,
    )


@move
def owner(m: Mind) -> Message:
    return m.say(
        [
            "It got into the account {account}. Who owns {host}?",
            "Whom do we inform about {host}?",
            "Now the inventory.",
        ],
        call("read_file", path="inventory/hosts.txt"),
        account=ACCOUNT,
        host=_host(m),
    )


@move
def current(m: Mind) -> Message:
    return m.say(
        ["What is on the list already?", "Looking at the list before I add to it."],
        call("read_file", path="etc/blocklist.txt"),
    )


@move
def block(m: Mind) -> Message:
    return m.say(
        ["Blocking {address} now.", "Adding the line that the policy asks for.", "Writing the entry, case {case}."],
        call("append_line", path="etc/blocklist.txt", line=f"{m(ADDRESS)} {m(CASE)} {m(DESK)}"),
        thinks=["The line needs the address, then {case}, then the desk."],
        address=ADDRESS,
        case=CASE,
    )


@move
def verify(m: Mind) -> Message:
    return m.say(
        ["Is the entry there?", "Checking the list."], call("run", command=f"grep -n {m(CASE)} etc/blocklist.txt")
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The address {address} guessed the password of {account} on {host} and got in. It is blocked under {case}. "
        "Please inform {owner}.",
        "Done. Account: {account}. Address: {address}, now in the blocklist with {case}. The owner is {owner}.",
        "{owner} should be told that {account} was entered from {address}; I blocked the address as {case}.",
        address=ADDRESS,
        account=ACCOUNT,
        host=_host(m),
        case=CASE,
        owner=OWNER,
    )


def plan(dice: Random) -> list[Move]:
    opening = dice.choice(([policy, failures], [policy, logs, failures], [logs, failures, policy], [failures, policy]))
    middle = dice.choice(([owner, current], [current, owner], [owner]))
    ending = [block, verify, answer] if dice.random() < 0.3 else [block, answer]
    return mix(dice, [*opening, confirm, *middle, *ending], _TOOLS)


def check(outcome: Outcome) -> bool:
    blocked = outcome.text("etc/blocklist.txt").splitlines()
    return outcome.scenario.truth["entry"] in blocked and outcome.answer_names("address", "account", "owner")


FAMILY = Family(
    domain="security",
    name="brute_force",
    system="You are the on-call security analyst. You work in one folder of logs and lists, with tools. Be exact.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
