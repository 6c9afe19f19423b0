"""File a complaint at a help desk: the order's number, the article's serial, the right category, the desk in charge."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.pages import accepts, bullets, form, link, page, paragraphs, submissions, write_site
from drsr.offline.sandbox.words import CITIES, PRODUCTS, filler_lines, mail_address, number, numbers, people

_TROUBLES = {
    "arrived broken": "damage",
    "never arrived": "loss",
    "came in the wrong colour": "mixup",
    "stopped working": "warranty",
    "was charged twice": "billing",
}
_TOOLS = ("open_page", "submit_form")
_PROMPTS = (
    "My {product} {trouble}. Please file a ticket with the help desk: order number and serial are under /orders, "
    "the category codes under /help. Ask me how I want it settled. Then give me ticket number, order number and "
    "the desk's address.",
    "The {product} I bought {trouble}. Open a ticket for me (see /orders and /help), after asking what I would "
    "like to get. I need the ticket number, the order number and the mail address of the desk in charge.",
    "Can you complain for me? The {product} {trouble}. Everything is on the site: /orders, /help. Check with me "
    "what outcome I want. Finally tell me ticket number, order number and whom to write to.",
)
_WISHES = {
    "refund": ("I want my money back.", "A refund, please."),
    "replacement": ("Send me a new one, please.", "I would like a replacement."),
    "voucher": ("A voucher is fine.", "Just give me a voucher."),
}


def prepare(dice: Random, root: Path) -> Scenario:
    product, *others = dice.sample(PRODUCTS, 4)
    trouble = dice.choice(sorted(_TROUBLES))
    orders, serials = numbers(dice, 7, 4), [f"{letter}{number(dice, 6)}" for letter in dice.sample("KLMNPQ", 4)]
    codes = {
        kind: f"{kind[0].upper()}{digits}" for kind, digits in zip(_TROUBLES.values(), numbers(dice, 3, 5), strict=True)
    }
    desks = {kind: mail_address(name) for kind, name in zip(codes, people(dice, 5), strict=True)}
    wish = dice.choice(sorted(_WISHES))
    listed = [
        link(f"/orders/{order}", f"order {order}: {name}")
        for order, name in zip(orders, [product, *others], strict=True)
    ]
    dice.shuffle(listed)
    pages = {
        "index": page(
            "Your account", bullets([link("/orders", "Orders"), link("/help", "Help"), link("/ticket", "New ticket")])
        ),
        "orders": page("Orders", bullets(listed)),
        "help": page("Help desk", bullets([f"{kind}: category {code}" for kind, code in codes.items()])),
        "desks": page("Desks", bullets([f"{codes[kind]} goes to {desk}" for kind, desk in sorted(desks.items())])),
        "ticket": page("New ticket", form("/ticket", "order", "serial", "category", "wish")),
    }
    for order, serial, name in zip(orders, serials, [product, *others], strict=True):
        pages[f"orders/{order}"] = page(
            f"Order {order}",
            paragraphs(name, f"Serial {serial}", f"Sent to {dice.choice(CITIES)}", filler_lines(dice, 1)[0]),
        )
    fields = {"order": orders, "serial": serials, "category": list(codes.values()), "wish": sorted(_WISHES)}
    write_site(
        dice, root, pages, {"/support": "/help"}, {"/ticket": accepts("Received", "Ticket number", "H", **fields)}
    )
    kind = _TROUBLES[trouble]
    truth = {"order": orders[0], "serial": serials[0], "category": codes[kind], "wish": wish, "desk": desks[kind]}
    return Scenario(
        dice.choice(_PROMPTS).format(product=product, trouble=trouble), truth, (dice.choice(_WISHES[wish]),)
    )


def _product(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(PRODUCTS)})")


def _kind(mind: Mind) -> str:
    return _TROUBLES[mind.prompt(rf"({'|'.join(_TROUBLES)})")]


def _wish(mind: Mind) -> str | None:
    words = {"money back": "refund", "refund": "refund", "new one": "replacement", "replacement": "replacement"}
    said_word = mind.search(r"(money back|[Aa] refund|new one|a replacement|[Aa] voucher|a voucher)[ .,]")
    return words.get(said_word.lower().removeprefix("a "), "voucher") if said_word else None


ORDER = Fact(
    "orders", lambda m: m.search(rf"order (\d{{7}}): {_product(m)}\]", r"^/orders/(\d{7})$", r'"order": "(\d+)"')
)
SERIAL = said("order_page", r"^Serial (\w+)$", r'"serial": "(\w+)"', r"serial (\w\d{6})")
CATEGORY = Fact("help_page", lambda m: m.search(rf"{_kind(m)}: category (\w+)", r'"category": "(\w+)"'))
DESK = Fact("desks", lambda m: m.search(rf"{m(CATEGORY)} goes to (\S+@\S+\w)"))
WISH = Fact("ask", _wish)
TICKET = said("submit", r"Ticket number: (H\d+)")


@move
def orders(m: Mind) -> Message:
    return m.say(
        ["Which order was the {product}?", "Looking through your orders.", "First the list of orders."],
        call("open_page", path="/orders"),
        product=_product(m),
    )


@move
def order_page(m: Mind) -> Message:
    return m.say(
        ["It was order {order}. The serial is on its page.", "Opening that order.", "Now the details of the order."],
        call("open_page", path=f"/orders/{m(ORDER)}"),
        order=ORDER,
    )


@move
def help_page(m: Mind) -> Message:
    return m.say(
        ["Which category fits?", "The category codes.", "This is a case of {kind}; what is its code?"],
        call("open_page", path="/support"),
        kind=_kind(m),
    )


@move
def desks(m: Mind) -> Message:
    return m.say(
        ["Which desk takes {category}?", "And the desk in charge.", "There should be a page on the desks."],
        call("open_page", path="/desks"),
        category=CATEGORY,
    )


@move
def search(m: Mind) -> Message:
    return m.say(
        ["Is there anything on the site about the {product}?", "Searching for known problems first."],
        call("open_page", path=f"/search?q={_product(m).split()[1]}"),
        product=_product(m),
    )


@question
def ask(m: Mind) -> Message:
    return m.tell(
        "It is order {order}, serial {serial}. What would you like: refund, replacement or voucher?",
        "I found order {order} with serial {serial}. How should it be settled (refund, replacement, voucher)?",
        order=ORDER,
        serial=SERIAL,
    )


@move
def form_page(m: Mind) -> Message:
    return m.say(["Opening the form.", "What does the ticket form need?"], call("open_page", path="/ticket"))


@move
def submit(m: Mind) -> Message:
    fields = {"order": m(ORDER), "serial": m(SERIAL), "category": m(CATEGORY), "wish": m(WISH)}
    return m.say(
        ["Filing it.", "Category {category}, order {order}. Sending.", "Now I send the ticket."],
        call("submit_form", path="/ticket", fields=fields),
        thinks=["{kind} means category {category}; the serial is {serial}."],
        category=CATEGORY,
        order=ORDER,
        kind=_kind(m),
        serial=SERIAL,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Ticket {ticket} is open for order {order}. The desk in charge is {desk}.",
        "Your ticket number is {ticket} (order {order}). Write to {desk} if you want to add anything.",
        "Filed as {ticket}. {desk} takes care of order {order}.",
        ticket=TICKET,
        order=ORDER,
        desk=DESK,
    )


def plan(dice: Random) -> list[Move]:
    find = [orders, order_page] if dice.random() < 0.7 else [search, orders, order_page]
    rules = [help_page, desks]
    look = dice.choice(([*find, *rules], [*rules, *find], [help_page, *find, desks]))
    middle = dice.choice(([ask, form_page], [form_page, ask], [ask]))
    return mix(dice, [*look, *middle, submit, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = all(sent[0]["fields"][name] == truth[name] for name in ("order", "serial", "category", "wish"))
    return right and sent[0]["number"] in outcome.answer and outcome.answer_names("order", "desk")


FAMILY = Family(
    domain="web",
    name="support_ticket",
    system="You deal with help desks for customers through a text browser. Ask what they want, then file it once.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
