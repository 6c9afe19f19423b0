"""File a complaint at a help desk: the order's number, the article's serial, the right kind, the desk in charge."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, FIRST_NAMES, PRODUCTS, mail_address, number, numbers
from drsr.offline.sandbox.workshop.pages import accepts, bullets, link, page, paragraphs, write_site

_TROUBLES = {
    "arrived broken": "damage",
    "never arrived": "loss",
    "came in the wrong colour": "mixup",
    "stopped working": "warranty",
    "was charged twice": "billing",
}
_WISHES = {
    "refund": ("My money back.", "A refund, please."),
    "exchange": ("Send me a new one.", "An exchange."),
    "voucher": ("A voucher is fine.", "Just a voucher."),
}


def prepare(dice: Random, root: Path) -> Scenario:
    product, *others = dice.sample(PRODUCTS, 3)
    trouble = dice.choice(sorted(_TROUBLES))
    orders, serials = numbers(dice, 4, 3), [f"{letter}{number(dice, 3)}" for letter in dice.sample("KLMNPQ", 3)]
    kind = _TROUBLES[trouble]
    kinds = [kind, dice.choice([other for other in _TROUBLES.values() if other != kind])]
    codes = {name: f"{name[0].upper()}{digits}" for name, digits in zip(kinds, numbers(dice, 2, 2), strict=True)}
    desks = {name: mail_address(desk) for name, desk in zip(kinds, dice.sample(FIRST_NAMES, 2), strict=True)}
    wish = dice.choice(sorted(_WISHES))
    titles = [product, *others]
    listed = [link(f"/orders/{order}", name) for order, name in zip(orders, titles, strict=True)]
    dice.shuffle(listed)
    pages = {
        "orders": page("Orders", bullets(listed)),
        "help": page("Help desk", bullets([f"{name}: kind {codes[name]}, {desks[name]}" for name in sorted(kinds)])),
    }
    for order, serial, name in zip(orders, serials, titles, strict=True):
        pages[f"orders/{order}"] = page(name, paragraphs(f"Serial {serial}", f"Sent to {dice.choice(CITIES)}"))
    fields = {"serial": serials, "kind": list(codes.values()), "wish": sorted(_WISHES)}
    write_site(dice, root, pages, {"/support": "/help"}, {"/ticket": accepts("Ticket", "H", **fields)})
    truth = {"order": orders[0], "serial": serials[0], "kind": codes[kind], "wish": wish, "desk": desks[kind]}
    return Scenario(
        dice.choice(FAMILY.prompts).format(product=product, trouble=trouble), truth, (dice.choice(_WISHES[wish]),)
    )


def _trouble(mind: Mind) -> str:
    return _TROUBLES[mind.prompt(rf"({'|'.join(_TROUBLES)})")]


def _wish(mind: Mind) -> str | None:
    words = {"money back": "refund", "refund": "refund", "new one": "exchange", "exchange": "exchange"}
    said_word = mind.search(r"^(?:My|Send me a|An?|Just a) (money back|refund|new one|exchange|voucher)\b")
    return words.get(said_word, "voucher") if said_word else None


FAMILY = read_family(__file__, prepare, wish=_wish, trouble=_trouble)
