"""Order a product in a web shop: find it, read its code and price, the fee for the customer's zone, send the form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.words import CITIES, COLORS, CONSENT, PRODUCTS, hexadecimal, number
from drsr.offline.sandbox.workshop.pages import accepts, bullets, form, link, page, paragraphs, submissions, write_site

_TOOLS = ("open", "post")
_PROMPTS = (
    "Order the {name} from the shop for client {client}. The products are on /catalog, my zone and my voucher on "
    "/account, the fees on /shipping. Ask me before you send code and voucher to the form at /order. Tell me the "
    "order number, the price and the fee for my zone.",
    "I need the {name} for client {client}. Please buy it on the site: see /catalog, my data is on /account, fees are "
    "on /shipping, and the form at /order takes code and voucher; ask me before you send it. In the end I want order "
    "number, price and shipping fee.",
    "Could you buy the {name} for me (client {client})? Look at /catalog, /account for zone and voucher, /shipping "
    "for the fee. The form at /order wants code and voucher, but check with me first. Let me know the order number, "
    "the price and the fee.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    color, other_color = dice.sample(COLORS, 2)
    product, other_product = dice.sample(PRODUCTS, 2)
    name = f"{color} {product}"
    codes = [f"{letter}{number(dice, 3)}" for letter in dice.sample("ABKMRX", 3)]
    prices = dice.sample(range(11, 99), 3)
    zone = dice.choice("ABC")
    fees = dict(zip("ABC", dice.sample(range(2, 20), 3), strict=True))
    voucher = f"V{hexadecimal(dice, 3)}"
    slugs = dice.sample(range(100, 999), 3)
    titles = [name, f"{other_color} {product}", f"{color} {other_product}"]
    catalog = [link(f"/p/{slug}", title) for slug, title in zip(slugs, titles, strict=True)]
    dice.shuffle(catalog)
    pages = {
        "catalog": page("Catalog", bullets(catalog)),
        "account": page(
            "Account",
            paragraphs(f"City: {dice.choice(CITIES)}", f"Zone: {zone}", f"Voucher: {voucher}"),
        ),
        "order": page("Order", form("/order", "code", "voucher")),
        "shipping": page("Shipping", bullets([f"Zone {letter}: {fee} credits" for letter, fee in fees.items()])),
    }
    for slug, title, code, price in zip(slugs, titles, codes, prices, strict=True):
        pages[f"p/{slug}"] = page(title, paragraphs(f"Code {code}, {price} credits"))
    write_site(dice, root, pages, forms={"/order": accepts("Order", "W", code=codes, voucher=[voucher])})
    truth = {"code": codes[0], "price": f"{prices[0]} credits", "fee": str(fees[zone])}
    return Scenario(dice.choice(_PROMPTS).format(name=name, client=number(dice, 3)), truth, (dice.choice(CONSENT),))


def _name(mind: Mind) -> str:
    return mind.prompt(rf"((?:{'|'.join(COLORS)}) (?:{'|'.join(PRODUCTS)}))")


SLUG = Fact("catalog", lambda m: m.search(rf"\[{_name(m)}\]\(/p/(\d+)\)", r"^/p/(\d+)$"))
CODE = said("product", r"^Code (\S+), \d", r"code=(\w+)")
PRICE = said("product", r"^Code \S+, (\d+) credits$", r"(\d+) credits\. (?:Shall|Order)")
ZONE = said("account", r"^Zone: (\w)$", r"zone ([ABC])\b")
VOUCHER = said("account", r"^Voucher: (\w+)$", r"voucher=(\w+)")
FEE = Fact("account.1", lambda m: m.search(rf"Zone {m(ZONE)}: (\d+) "))
ORDER = said("submit", r"^Order: (W\d+)")


@move
def catalog(m: Mind) -> Message:
    return m.say(
        ["Looking for the {name}.", "The catalog should have it.", "Opening the catalog."],
        call("open", path="/catalog"),
        name=_name(m),
    )


@move
def product(m: Mind) -> Message:
    return m.say(
        ["There it is. Now the details.", "Opening the product page.", "The {name} has a page of its own."],
        call("open", path=f"/p/{m(SLUG)}"),
        name=_name(m),
    )


@move
def account(m: Mind) -> Message:
    return m.say(
        ["Your data and the fees.", "Account and shipping, side by side.", "Zone and voucher first."],
        call("open", path="/account"),
        call("open", path="/shipping"),
    )


@move
def order_form(m: Mind) -> Message:
    return m.say(["What does the form want?", "Opening the order form."], call("open", path="/order"))


@question
def ask(m: Mind) -> Message:
    return m.tell(
        "It costs {price} credits. Shall I order?",
        "Found it: {code}, {price} credits. Order it?",
        code=CODE,
        price=PRICE,
    )


@move
def submit(m: Mind) -> Message:
    return m.say(
        ["Sending the order.", "Ordering it."],
        call("post", form=f"/order?code={m(CODE)}&voucher={m(VOUCHER)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Order {order}: {price} credits, and the fee is {fee}.",
        "The order is {order}, {price} credits plus {fee} for zone {zone}.",
        "Done, {order}. You pay {price} credits and a fee of {fee}.",
        brief=("It is ordered for {price} credits; the order is {order}.", "Done: order {order}, {price} credits."),
        order=ORDER,
        price=PRICE,
        fee=FEE,
        zone=ZONE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([account, catalog, product], [account, catalog, product], [catalog, account, product]))
    if dice.random() < 0.2:
        look.insert(dice.randrange(1, 3), order_form)
    return mix(dice, [*look, ask, submit, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = sent[0]["fields"]["code"] == truth["code"]
    return right and sent[0]["number"] in outcome.answer and outcome.answer_names("price", "fee", brief=("price",))


FAMILY = Family(
    domain="web",
    name="order",
    role="You shop on the user's behalf through a text browser. Read pages, fill in forms, report numbers exactly. A "
    "form is sent once, when every field is known; a voucher that the customer owns is always used. Links are shown as "
    "[text](target), prices are in credits. Do not order anything that only looks similar.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
