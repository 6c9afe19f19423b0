"""A test fails because a constant differs from the specification: find it, mend it, run the tests, note it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, filler_lines, hexadecimal, number, people, write_files

_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "The tests of the {module} module fail. Find out why, mend the code so that it follows docs/{module}_spec.md, "
    "and add a line to CHANGES.txt as the spec asks. Tell me which constant was wrong, its new value and the "
    "ticket.",
    "tests/test_{module}.py is red. Please fix {module}.py according to docs/{module}_spec.md and note the fix in "
    "CHANGES.txt in the form that the spec prescribes. I want constant, new value and ticket in your answer.",
    "Someone broke {module}.py: pytest fails. The truth is in docs/{module}_spec.md. Correct the code, write the "
    "line that the spec wants into CHANGES.txt and report the constant, the value it has now, and the ticket.",
)


class Rule(NamedTuple):
    """A function whose result hangs on one constant."""

    function: str
    constant: str
    body: str
    """What it returns, as code, with the constant's name as {c}."""
    result: Callable[[int, int], int]
    """The same arithmetic: amount and constant to result."""


_RULES = (
    Rule("discounted", "DISCOUNT_PERCENT", "amount * (100 - {c}) // 100", lambda a, c: a * (100 - c) // 100),
    Rule("with_fee", "HANDLING_FEE", "amount + {c}", lambda a, c: a + c),
    Rule("late_charge", "CHARGE_PER_DAY", "amount * {c}", lambda a, c: a * c),
    Rule("ships_for", "SHIPPING_BASE", "{c} + amount // 10", lambda a, c: c + a // 10),
    Rule("after_tax", "TAX_PERCENT", "amount + amount * {c} // 100", lambda a, c: a + a * c // 100),
    Rule("points", "POINTS_FACTOR", "amount * {c} + 1", lambda a, c: a * c + 1),
    Rule("deposit", "DEPOSIT_SHARE", "amount // {c}", lambda a, c: a // c),
    Rule("leftover", "LOT_SIZE", "amount - amount // {c}", lambda a, c: a - a // c),
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    module, rules = dice.choice(NOUNS), dice.sample(_RULES, 3)
    right = {rule.constant: dice.randrange(3, 90) for rule in rules}
    broken = dice.choice(rules)
    wrong = right[broken.constant] + dice.randrange(1, 9)
    code = [f'"""Prices of the {module} desk."""', ""]
    code += [f"{rule.constant} = {wrong if rule is broken else right[rule.constant]}" for rule in rules]
    tests = [f"import {module}", ""]
    for rule in rules:
        code += ["", "", f"def {rule.function}(amount):", f"    return {rule.body.format(c=rule.constant)}"]
        amount = dice.randrange(20, 90) * 100
        expected = rule.result(amount, right[rule.constant])
        tests += [
            "",
            f"def test_{rule.function}():",
            f"    assert {module}.{rule.function}({amount}) == {expected}",
            "",
        ]
    ticket, editor = f"{module[:2].upper()}-{number(dice, 4)}", dice.choice(people(dice, 3)).split()[0]
    spec = [f"{rule.constant}: {right[rule.constant]}" for rule in rules]
    dice.shuffle(spec)
    spec.insert(dice.randrange(4), f"Log fixes as: <constant> <value> {ticket} {editor}")
    write_files(
        root,
        {
            f"{module}.py": "\n".join(code),
            f"tests/test_{module}.py": "\n".join(tests),
            f"docs/{module}_spec.md": "\n".join([f"# {module} {hexadecimal(dice, 4)}", *spec, *filler_lines(dice, 1)]),
            "CHANGES.txt": f"{dice.choice(_RULES).constant} {number(dice, 2)} {ticket[:2]}-{number(dice, 4)} Lee",
        },
    )
    value = str(right[broken.constant])
    truth = {"module": module, "constant": broken.constant, "value": value, "ticket": ticket}
    truth["line"] = f"{broken.constant} {value} {ticket} {editor}"
    return Scenario(dice.choice(_PROMPTS).format(module=module), truth)


def _module(mind: Mind) -> str:
    return mind.prompt(r"docs/(\w+)_spec\.md")


FUNCTION = said("tests", r"FAILED \S+::test_(\w+)", r"test_(\w+) fails")
CONSTANT = Fact(
    "source", lambda m: m.search(rf"def {m(FUNCTION)}\(amount\):\n\s+return .*?\b([A-Z]\w*_\w+)", r"([A-Z_]+) is off")
)
OLD = Fact("source", lambda m: m.search(rf"^{m(CONSTANT)} = (\d+)$"))
NEW = Fact("spec", lambda m: m.search(rf"^{m(CONSTANT)}: (\d+)$", rf"^{m(CONSTANT)} = \d+\n{m(CONSTANT)} = (\d+)$"))
TICKET = said("spec", r"<value> (\w\w-\d+) ", r"CHANGES\.txt\n\w+ \d+ (\w\w-\d+) ")
EDITOR = said("spec", r"<value> \w\w-\d+ (\w+)$")


@move
def tests(m: Mind) -> Message:
    return m.say(
        ["Running the tests first.", "Let me see the failure.", "What exactly is red?"],
        call("run", command=f"pytest -q tests/test_{_module(m)}.py"),
    )


@move
def spec(m: Mind) -> Message:
    return m.say(
        ["The spec decides what is right.", "Reading the spec of {module}.", "What should the values be?"],
        call("read_file", path=f"docs/{_module(m)}_spec.md"),
        module=_module(m),
    )


@move
def source(m: Mind) -> Message:
    return m.say(
        ["test_{function} fails. Now the code.", "Opening the module.", "Let me look at {function} itself."],
        call("read_file", path=f"{_module(m)}.py"),
        function=FUNCTION,
    )


@move
def changes(m: Mind) -> Message:
    return m.say(
        ["How do earlier entries look?", "Checking the change log and the tests folder."],
        call("read_file", path="CHANGES.txt"),
        call("run", command="ls tests"),
    )


@move
def mend(m: Mind) -> Message:
    constant = m(CONSTANT)
    return m.say(
        ["{constant} is off: the spec says {new}.", "So the constant has to change.", "Correcting {constant}."],
        call("replace_text", path=f"{_module(m)}.py", old=f"{constant} = {m(OLD)}", new=f"{constant} = {m(NEW)}"),
        thinks=["{function} uses {constant}; compare with the spec."],
        constant=constant,
        function=FUNCTION,
        new=NEW,
    )


@move
def rerun(m: Mind) -> Message:
    return m.say(
        ["Green now?", "Running the tests again.", "That should do it."],
        call("run", command=f"pytest -q tests/test_{_module(m)}.py"),
    )


@move
def log(m: Mind) -> Message:
    return m.say(
        ["The note for the change log.", "Logging it under {ticket}.", "As the spec asks, one line."],
        call("append_line", path="CHANGES.txt", line=f"{m(CONSTANT)} {m(NEW)} {m(TICKET)} {m(EDITOR)}"),
        ticket=TICKET,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{constant} was wrong. It is {new} now, all tests pass, and the fix is logged under {ticket}.",
        "Fixed: {constant} has the value {new} as specified. Ticket: {ticket}.",
        "Ticket {ticket} can be closed: {constant} is back to {new}.",
        constant=CONSTANT,
        new=NEW,
        ticket=TICKET,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([tests, spec, source], [spec, tests, source], [tests, source, spec]))
    if dice.random() < 0.3:
        look.insert(dice.randrange(3), changes)
    work = dice.choice(([mend, rerun, log], [mend, log, rerun]))
    return mix(dice, [*look, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    code = outcome.text(f"{truth['module']}.py").splitlines()
    logged = outcome.text("CHANGES.txt").splitlines()[-1] == truth["line"]
    return (
        f"{truth['constant']} = {truth['value']}" in code
        and logged
        and outcome.answer_names("constant", "value", "ticket")
    )


FAMILY = Family(
    domain="code",
    name="failing_test",
    system="You are a careful Python developer. The specification is right, the code may be wrong.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
