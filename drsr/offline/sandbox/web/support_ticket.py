"""File a complaint at a help desk: the order's number, the article's serial, the right kind, the desk in charge."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.words import CITIES, FIRST_NAMES, PRODUCTS, mail_address, number, numbers
from drsr.offline.sandbox.workshop.pages import accepts, bullets, link, page, paragraphs, submissions, write_site

_TROUBLES = {
    "arrived broken": "damage",
    "never arrived": "loss",
    "came in the wrong colour": "mixup",
    "stopped working": "warranty",
    "was charged twice": "billing",
}
_TOOLS = ("open", "post")
_PROMPTS = (
    "My {product} {trouble}. Please file a ticket with the help desk: my orders are under /orders, each with a page "
    "that shows the serial, the kinds of trouble under /help, and the form at /ticket takes serial, kind and wish. Ask "
    "me how I want it settled. Then give me ticket number, order number and the desk's address.",
    "The {product} I bought {trouble}. Open a ticket for me at /ticket (serial, kind, wish; see /orders and "
    "/help), after asking what I would like to get. I need the ticket number, the order number and the mail address "
    "of the desk in charge.",
    "Can you complain for me? The {product} {trouble}. Everything is on the site: /orders, /help, and /ticket, which "
    "wants serial, kind and wish. Check with me what outcome I want. Finally tell me ticket number, order number "
    "and whom to write to.",
)
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
        dice.choice(_PROMPTS).format(product=product, trouble=trouble), truth, (dice.choice(_WISHES[wish]),)
    )


def _product(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(PRODUCTS)})")


def _kind(mind: Mind) -> str:
    return _TROUBLES[mind.prompt(rf"({'|'.join(_TROUBLES)})")]


def _wish(mind: Mind) -> str | None:
    words = {"money back": "refund", "refund": "refund", "new one": "exchange", "exchange": "exchange"}
    said_word = mind.search(r"^(?:My|Send me a|An?|Just a) (money back|refund|new one|exchange|voucher)\b")
    return words.get(said_word, "voucher") if said_word else None


ORDER = Fact("orders", lambda m: m.search(rf"\[{_product(m)}\]\(/orders/(\d{{4}})\)", r"^/orders/(\d{4})$"))
SERIAL = said("order_page", r"^Serial (\w+)$", r"serial=(\w+)", r"serial (\w\d{3})\b")
KIND = Fact("help_page", lambda m: m.search(rf"{_kind(m)}: kind (\w+)", r"kind=(\w+)"))
DESK = Fact("help_page", lambda m: m.search(rf"{_kind(m)}: kind \w+, (\S+@\S+\w)"))
WISH = Fact("ask", _wish)
TICKET = said("submit", r"^Ticket: (H\d+)")


@move
def orders(m: Mind) -> Message:
    return m.say(
        ["Which order was the {product}?", "Looking through your orders.", "First the list of orders."],
        call("open", path="/orders"),
        product=_product(m),
    )


@move
def order_page(m: Mind) -> Message:
    return m.say(
        ["It was order {order}. The serial is on its page.", "Opening that order.", "Now the details of the order."],
        call("open", path=f"/orders/{m(ORDER)}"),
        order=ORDER,
    )


@move
def help_page(m: Mind) -> Message:
    return m.say(
        ["Which kind is it?", "The kinds of trouble.", "This is a case of {kind}; what is its code?"],
        call("open", path="/help"),
        kind=_kind(m),
    )


@move
def support(m: Mind) -> Message:
    return m.say(["Is there a support page?", "Trying the support page."], call("open", path="/support"))


@question
def ask(m: Mind) -> Message:
    return m.tell(
        "Found serial {serial}. Refund, exchange or voucher?",
        "It is order {order}. Refund, exchange or voucher?",
        order=ORDER,
        serial=SERIAL,
    )


@move
def submit(m: Mind) -> Message:
    form = f"/ticket?serial={m(SERIAL)}&kind={m(KIND)}&wish={m(WISH)}"
    return m.say(["Filing it.", "Now I send the ticket."], call("post", form=form))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Ticket {ticket}, order {order}; write to {desk}.",
        "Your ticket is {ticket} (order {order}), desk {desk}.",
        "Filed as {ticket}; {desk} has order {order}.",
        brief=(
            "The ticket is filed as {ticket}, and it asks for the {wish}.",
            "Done: ticket {ticket} asks for a {wish}.",
        ),
        ticket=TICKET,
        order=ORDER,
        desk=DESK,
        wish=WISH,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(
        ([orders, order_page, help_page], [help_page, orders, order_page], [orders, help_page, order_page])
    )
    if dice.random() < 0.2:
        look.insert(dice.randrange(3), support)
    return mix(dice, [*look, ask, submit, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = all(sent[0]["fields"][name] == truth[name] for name in ("serial", "kind", "wish"))
    return right and sent[0]["number"] in outcome.answer and outcome.answer_names("order", "desk", brief=("wish",))


FAMILY = Family(
    domain="web",
    name="support_ticket",
    role="You deal with help desks for customers through a text browser. Ask what they want, then file it once. Each "
    "kind of trouble has a code of its own and a desk that answers for it. Tickets without a serial are ignored. "
    "Links are shown as [text](target).",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
