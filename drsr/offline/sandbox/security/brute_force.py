"""Which address guessed its way into an account: count, confirm, block, and name the owner of the host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, number, write_files

_TOOLS = ("read", "log", "run")
_PROMPTS = (
    "Host {host} raised a login alarm. Find the address that guessed passwords in {host}.log, see whether it got in, "
    "ask me, log the block as policy.md says, and tell me account, address and whom to inform (hosts.txt).",
    "Please investigate the failed logins in {host}.log: which address is behind them, and did it succeed? Ask me, and "
    "log a block in the format of policy.md. I need the account, the address and the host's owner as in hosts.txt.",
    "We suspect a password attack on {host} (see {host}.log). Work out the attacker's address and the account it "
    "entered, ask me, log its block by the book (policy.md), then report account, address and the contact "
    "in hosts.txt.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    host, *other_hosts = [f"{noun}-{dice.randrange(2, 60)}" for noun in dice.sample(NOUNS, 3)]
    accounts = dice.sample(NOUNS, 4)
    attacker, bystander = _addresses(dice)
    owners = dice.sample(FIRST_NAMES, 3)
    tries = [attacker] * 3 + [bystander]
    dice.shuffle(tries)
    log = [f"failed {dice.choice(accounts)} from {address}" for address in tries]
    log.append(f"accepted {accounts[0]} from {attacker}")
    log.append(f"accepted {accounts[1]} from {bystander}")
    case = number(dice, 3)
    hosts = [f"{name} owner={owner}" for name, owner in zip([host, *other_hosts], owners, strict=True)]
    dice.shuffle(hosts)
    write_files(
        root,
        {
            f"{host}.log": "\n".join(log),
            "policy.md": f"Log one line: <address> <case>\nThe case this week is SEC-{case}.",
            "hosts.txt": "\n".join(hosts),
        },
    )
    truth = {"address": attacker, "account": accounts[0], "owner": owners[0], "entry": f"{attacker} SEC-{case}"}
    return Scenario(dice.choice(_PROMPTS).format(host=host), truth, (dice.choice(CONSENT),))


def _addresses(dice: Random) -> list[str]:
    return [f"10.{number(dice, 2)}.{dice.randrange(2, 10)}.{last}" for last in dice.sample(range(10, 99), 2)]


def _host(mind: Mind) -> str:
    return mind.prompt(r"\b([a-z]+-\d+)\b")


def _busiest(mind: Mind) -> str | None:
    """The address with most failures, counted in the log's lines, or as it was stated or used since."""
    failures = mind.output("failures")
    if failures is None:
        return mind.search(
            r"come from ([\d.]+\d)",
            r"block ([\d.]+\d)\?",
            r"It is ([\d.]+\d)\. ",
            r"^grep 'accepted\.\*([\d.]+)' ",
            r"^([\d.]+) SEC-\d+$",
        )
    return Counter(line.rsplit(" ", 1)[1] for line in failures.splitlines()).most_common(1)[0][0]


ADDRESS = Fact("failures", _busiest)
ACCOUNT = Fact("confirm", lambda m: m.search(rf"accepted (\w+) from {m(ADDRESS)}$"))
CASE = said("policy", r"case this week is (SEC-\d+)", r"^[\d.]+ (SEC-\d+)$")
OWNER = Fact("policy.1", lambda m: m.search(rf"^{_host(m)} owner=(\S+)"))


@move
def policy(m: Mind) -> Message:
    return m.say(
        ["Policy and inventory first.", "What does the policy ask for, and who owns {host}?"],
        call("read", path="policy.md"),
        call("run", command=f"grep {_host(m)} hosts.txt"),
        host=_host(m),
    )


@move
def failures(m: Mind) -> Message:
    return m.say(
        ["All failed logins on {host}.", "Pulling out every failure.", "Now the failures themselves."],
        call("run", command=f"grep failed {_host(m)}.log"),
        thinks=["I should count the failures per address and take the largest."],
        host=_host(m),
    )


@move
def confirm(m: Mind) -> Message:
    return m.say(
        ["Most of them come from {address}. Did it get in?", "One address stands out. Did it get in?"],
        call("run", command=f"grep 'accepted.*{m(ADDRESS)}' {_host(m)}.log"),
        address=ADDRESS,
    )


@question
def ask(m: Mind) -> Message:
    return m.tell("May I block {address}?", "It is {address}. Shall I block it?", address=ADDRESS)


@move
def block(m: Mind) -> Message:
    return m.say(
        ["Blocking it now.", "Adding the line."],
        call("log", line=f"{m(ADDRESS)} {m(CASE)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{address} got into {account}. Please inform {owner}.",
        "Account: {account}. Address: {address}. Owner: {owner}.",
        "Tell {owner} that {account} was entered from {address}.",
        brief=(
            "The address {address} is blocked now, under {case}.",
            "Done: {address} is blocked and logged as {case}.",
        ),
        address=ADDRESS,
        account=ACCOUNT,
        owner=OWNER,
        case=CASE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([policy, failures, confirm], [failures, policy, confirm], [policy, failures, confirm]))
    return mix(dice, [*look, ask, block, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    blocked = outcome.text("log.txt").splitlines()
    return outcome.scenario.truth["entry"] in blocked and outcome.answer_names(
        "address", "account", "owner", brief=("address",)
    )


FAMILY = Family(
    domain="security",
    name="brute_force",
    role="You are the on-call security analyst. You work in one folder of logs and lists, with tools. Be exact: an "
    "address that failed once or twice is somebody with a bad memory, the one that failed most is the attacker. Blocks "
    "are entered by the policy of the week and reported to the owner of the host.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
