"""A page of the site has a dead link: find it, find where the target went, repair the page, look at the target."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, filler_lines, number
from drsr.offline.sandbox.workshop.pages import bullets, link, page, paragraphs, write_site


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
    return Scenario(dice.choice(FAMILY.prompts).format(name=name), truth, (dice.choice(CONSENT),))


def _links(mind: Mind) -> list[str] | None:
    shown = mind.output("start")
    if shown is None:
        return None
    return [line.split("](")[1].rstrip(")") for line in shown.splitlines() if line.startswith("- [")]


def _word(mind: Mind) -> str:
    return str(mind["old"]).strip("/").split("-")[0]


def _title(mind: Mind) -> str:
    return f"{mind['word'].capitalize()} guide"


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    source = outcome.text(f"site/{truth['page']}.html")
    return f'"{truth["new"]}"' in source and truth["old"] not in source


FAMILY = read_family(__file__, prepare, done, links=_links, word=_word, title=_title)
