"""A page of the site has a dead link: find it, find where the target went, repair the page, look at the target."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, filler_lines, number
from drsr.offline.sandbox.workshop.pages import bullets, link, page, paragraphs, write_site

_TOOLS = ("open", "replace")
_PROMPTS = (
    "A reader says that a link on /{name} is dead. Find it, find out where its target went (the site has /search?q=), "
    "and after asking me repair site/{name}.html. Tell me old and new target and who edits /{name}.",
    "Please repair the dead link on /{name}. The page moved somewhere, /search?q= finds it; correct site/{name}.html. "
    "I want to be asked first, and to hear old and new target and the editor of /{name}.",
    "One of the links of /{name} goes nowhere. Locate the new address with /search?q=, change site/{name}.html, and "
    "report old and new address and the editor named on /{name}. Ask before you change it.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    name, *topics = dice.sample(NOUNS, 3)
    targets = [f"/{topic}-{number(dice, 2)}" for topic in topics]
    dead = dice.randrange(2)
    moved = f"/{dice.choice(('archive', 'docs', 'guides', 'info'))}/{number(dice, 3)}"
    titles = [f"{topic.capitalize()} guide" for topic in topics]
    editor = dice.choice(FIRST_NAMES)
    pages = {
        name: page(
            name.capitalize(),
            bullets([link(target, title) for target, title in zip(targets, titles, strict=True)]),
            paragraphs(f"Edited by {editor}", filler_lines(dice, 1)[0]),
        )
    }
    for place, (target, title) in enumerate(zip(targets, titles, strict=True)):
        path = moved if place == dead else target
        pages[path.strip("/")] = page(title, paragraphs(f"Version {number(dice, 2)}"))
    write_site(dice, root, pages)
    truth = {"page": name, "old": targets[dead], "new": moved, "editor": editor}
    return Scenario(dice.choice(_PROMPTS).format(name=name), truth, (dice.choice(CONSENT),))


def _page(mind: Mind) -> str:
    return mind.prompt(r"site/(\w+)\.html")


def _links(mind: Mind) -> list[str] | None:
    shown = mind.output("start")
    if shown is None:
        return None
    return [line.split("](")[1].rstrip(")") for line in shown.splitlines() if line.startswith("- [")]


LINKS = Fact("start", _links)
OLD = said(
    "try_links.0 try_links.1", r"There is no page (/[a-z]+-\d\d) on", r"html\n(/[a-z]+-\d\d)\n", r"(/\S+) is dead"
)


def _word(mind: Mind) -> str:
    return mind(OLD).strip("/").split("-")[0]


NEW = Fact(
    "search",
    lambda m: m.search(
        rf"\[{_word(m).capitalize()} guide\]\((/\w+/\S+?)\)",
        r"html\n/\S+\n(/\w+/\S+)$",
        r"(?:moved|link) to (/\w+/\d+)",
    ),
)
EDITOR = said("start", r"^Edited by (\w+)$")


@move
def start(m: Mind) -> Message:
    return m.say(
        ["Opening the page.", "Which links does /{name} have?", "First the page itself."],
        call("open", path=f"/{_page(m)}"),
        name=_page(m),
    )


@move
def try_links(m: Mind) -> Message:
    return m.say(
        ["Trying both.", "Which of them works?", "Opening every link."],
        *(call("open", path=path) for path in m(LINKS)),
    )


@move
def search(m: Mind) -> Message:
    return m.say(
        ["{old} is dead. Searching for its title.", "Where did it go?", "Looking for {word}."],
        call("open", path=f"/search?q={_word(m)}%20guide"),
        old=OLD,
        word=_word(m),
    )


@move
def target(m: Mind) -> Message:
    return m.say(["Opening the new page.", "Is it the right page?"], call("open", path=m(NEW)))


@question
def ask(m: Mind) -> Message:
    return m.tell("It moved to {new}. Shall I?", "Set the link to {new}?", new=NEW)


@move
def repair(m: Mind) -> Message:
    return m.say(
        ["Repairing the page.", "The link has to change."],
        call("replace", path=f"site/{_page(m)}.html", old=m(OLD), new=m(NEW)),
        thinks=["{old} has to become {new}, nothing else on the page changes."],
        old=OLD,
        new=NEW,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{old} is {new} now. Editor: {editor}.",
        "Repaired: {old} became {new}; tell {editor}.",
        "The link {old} leads to {new}; {editor} edits the page.",
        brief=("The dead link is repaired; it leads to {new} now.", "Done, the page points to {new} again."),
        old=OLD,
        new=NEW,
        editor=EDITOR,
    )


def plan(dice: Random) -> list[Move]:
    look = [start, try_links, search, target] if dice.random() < 0.25 else [start, try_links, search]
    return mix(dice, [*look, ask, repair, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    source = outcome.text(f"site/{truth['page']}.html")
    repaired = f'"{truth["new"]}"' in source and truth["old"] not in source
    return repaired and outcome.answer_names("old", "new", "editor", brief=("new",))


FAMILY = Family(
    domain="web",
    name="broken_link",
    role="You maintain a small website with a text browser and access to its files. Pages lie below site, one file "
    "each. Links are shown as [text](target). Repair a link where it stands, change nothing else on the page, and make "
    "sure that the new target is the page that was meant: its title is what the link said.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
