"""A page of the site has a dead link: find it, find where the target went, repair the page, check it in the browser."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.pages import bullets, link, page, paragraphs, write_site
from drsr.offline.sandbox.words import CITIES, NOUNS, filler_lines, hexadecimal, number, people, write_files

_TOOLS = ("open_page", "read_file", "append_line", "replace_text")
_PROMPTS = (
    "A reader says that a link on /{name} is dead. Find it, find out where its target went, repair "
    "site/{name}.html, and add '<page> <old> <new> <editor>' to fixes.log with the page's editor. Tell me old "
    "target, new target and the page's code.",
    "Please repair the dead link on /{name}. The page moved somewhere; correct site/{name}.html and log the "
    "change in fixes.log as '<page> <old> <new> <editor>'. I want to hear old and new target and the code on the "
    "target page.",
    "One of the links of /{name} goes nowhere. Locate the new address, change site/{name}.html, write '<page> "
    "<old> <new> <editor>' to fixes.log, and report the old address, the new one and the code shown there.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    name, *topics = dice.sample(NOUNS, 4)
    city = dice.choice(CITIES)
    targets = [f"/{topic}-{number(dice, 3)}" for topic in topics]
    dead = dice.randrange(3)
    moved = f"/{dice.choice(('archive', 'docs', 'guides', 'info'))}/{topics[dead]}-{city.lower()}-{number(dice, 2)}"
    titles = [f"{topic.capitalize()} guide" for topic in topics]
    codes = [f"{topic[:2].upper()}{hexadecimal(dice, 5)}" for topic in topics]
    editors = people(dice, 3)
    pages = {
        name: page(
            f"{name.capitalize()} start page",
            bullets([link(target, title) for target, title in zip(targets, titles, strict=True)]),
            paragraphs(filler_lines(dice, 1)[0]),
        )
    }
    for place, (target, title, code) in enumerate(zip(targets, titles, codes, strict=True)):
        path = moved if place == dead else target
        pages[path.strip("/")] = page(title, paragraphs(f"Code {code}", filler_lines(dice, 1)[0]))
    write_site(dice, root, pages)
    others = dice.sample([noun for noun in NOUNS if noun != name], 2)
    lines = [f"/{page_name}: {editor}" for page_name, editor in zip([name, *others], editors, strict=True)]
    dice.shuffle(lines)
    fixed = f"/{others[0]} /old-{number(dice, 3)} /new-{number(dice, 3)} {editors[1]}"
    write_files(root, {"editors.txt": "\n".join(lines), "fixes.log": fixed})
    truth = {"page": name, "old": targets[dead], "new": moved, "code": codes[dead]}
    truth["line"] = f"/{name} {targets[dead]} {moved} {editors[0]}"
    return Scenario(dice.choice(_PROMPTS).format(name=name), truth)


def _page(mind: Mind) -> str:
    return mind.prompt(r"site/(\w+)\.html")


def _links(mind: Mind) -> list[str] | None:
    shown = mind.output("start")
    if shown is None:
        return None
    return [line.split("](")[1].rstrip(")") for line in shown.splitlines() if line.startswith("- [")]


LINKS = Fact("start", _links)
OLD = said(
    "try_links.0 try_links.1 try_links.2",
    r"There is no page (/[a-z]+-\d{3}) on",
    r"html\n(/[a-z]+-\d{3})\n",
    r"(/[a-z]+-\d{3}) is dead",
)


def _word(mind: Mind) -> str:
    return mind(OLD).strip("/").split("-")[0]


NEW = Fact(
    "search", lambda m: m.search(rf"\]\((/\w+/{_word(m)}-\S+?)\)", r"moved to (/\w+/\S+\d)", r"html\n/\S+\n(/\w+/\S+)$")
)
CODE = Fact("target", lambda m: m.search(rf"^Code ({_word(m)[:2].upper()}\w+)$"))
EDITOR = Fact("editors", lambda m: m.search(rf"^/{_page(m)}: (.+)$"))


@move
def start(m: Mind) -> Message:
    return m.say(
        ["Opening the page.", "Which links does /{name} have?", "First the page itself."],
        call("open_page", path=f"/{_page(m)}"),
        name=_page(m),
    )


@move
def try_links(m: Mind) -> Message:
    return m.say(
        ["Trying all three.", "Which of them works?", "Opening every link."],
        *(call("open_page", path=path) for path in m(LINKS)),
    )


@move
def search(m: Mind) -> Message:
    return m.say(
        ["{old} is dead. Searching for its title.", "Where did it go? The search may know.", "Looking for {word}."],
        call("open_page", path=f"/search?q={_word(m)}+guide".replace("+", "%20")),
        old=OLD,
        word=_word(m),
    )


@move
def target(m: Mind) -> Message:
    return m.say(
        ["It moved to {new}, it seems. Is it the right page?", "Opening the candidate.", "Checking that page."],
        call("open_page", path=m(NEW)),
        new=NEW,
    )


@move
def editors(m: Mind) -> Message:
    return m.say(["Who edits the page?", "Looking up the editor."], call("read_file", path="editors.txt"))


@move
def history(m: Mind) -> Message:
    return m.say(
        ["How were earlier fixes logged?", "Looking at the log and the page's source."],
        call("read_file", path="fixes.log"),
    )


@move
def repair(m: Mind) -> Message:
    return m.say(
        ["Repairing the page.", "Replacing {old}.", "The link now goes to {new}."],
        call("replace_text", path=f"site/{_page(m)}.html", old=m(OLD), new=m(NEW)),
        thinks=["{old} has to become {new}, nothing else on the page changes."],
        old=OLD,
        new=NEW,
    )


@move
def look_again(m: Mind) -> Message:
    return m.say(["Reloading the page.", "Does the page show it?"], call("open_page", path=f"/{_page(m)}"))


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Logging the fix.", "The editor is {editor}; now the log.", "One line in fixes.log."],
        call("append_line", path="fixes.log", line=f"/{_page(m)} {m(OLD)} {m(NEW)} {m(EDITOR)}"),
        editor=EDITOR,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The dead link {old} on /{name} now leads to {new}, whose code is {code}.",
        "Repaired: {old} became {new}. The code on that page is {code}.",
        "Code {code}. /{name} pointed to {old}; the page lives at {new} now.",
        old=OLD,
        new=NEW,
        name=_page(m),
        code=CODE,
    )


def plan(dice: Random) -> list[Move]:
    find = [start, try_links, search, target]
    if dice.random() < 0.5:
        find.insert(dice.randrange(0, 3), editors)
    late = [] if editors in find else [editors]
    if dice.random() < 0.25:
        late = [*late, history]
    work = dice.choice(([repair, *late, log], [*late, repair, log], [repair, look_again, *late, log]))
    return mix(dice, [*find, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    source = outcome.text(f"site/{truth['page']}.html")
    repaired = f'"{truth["new"]}"' in source and truth["old"] not in source
    logged = outcome.text("fixes.log").splitlines()[-1] == truth["line"]
    return repaired and logged and outcome.answer_names("old", "new", "code")


FAMILY = Family(
    domain="web",
    name="broken_link",
    system="You maintain a small website with a text browser and access to its files. Repair links, log every fix.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
