"""Find the address that guessed its way into an account: count, confirm, block, and name the owner of the host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, number, write_files


def prepare(dice: Random, root: Path) -> Scenario:
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
    return Scenario(dice.choice(FAMILY.prompts).format(host=host), truth, (dice.choice(CONSENT),))


def _addresses(dice: Random) -> list[str]:
    return [f"10.{number(dice, 2)}.{dice.randrange(2, 10)}.{last}" for last in dice.sample(range(10, 99), 2)]


def _address(mind: Mind) -> str | None:
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


def done(outcome: Outcome) -> bool:
    return outcome.scenario.truth["entry"] in outcome.text("log.txt").splitlines()


FAMILY = read_family(__file__, prepare, done, address=_address)
