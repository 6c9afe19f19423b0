"""Order a product in a web shop: find it, read its code and price, the fee for the customer's zone, send the form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.pages import accepts, bullets, form, link, page, paragraphs, submissions, write_site
from drsr.offline.sandbox.words import CITIES, COLORS, PRODUCTS, cents, filler_lines, hexadecimal, money, number

_TOOLS = ("open_page", "submit_form")
_PROMPTS = (
    "Order {quantity} of the {name} from the shop. My customer page is /account. Use the code of the product, my "
    "zone and my voucher. Tell me the order number and what it costs including the fee for my zone.",
    "I need {quantity} of the {name}. Please buy them on the site: my data is on /account, and the voucher there "
    "should be used. In the end I want the order number and the total with shipping.",
    "Could you buy the {name} for me, {quantity} of them? Zone and voucher are on /account. Let me know the order "
    "number and the full price, shipping fee included.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    color, *colors = dice.sample(COLORS, 3)
    product, *products = dice.sample(PRODUCTS, 3)
    name, quantity = f"{color} {product}", dice.randrange(2, 9)
    codes = [f"{letters}-{number(dice, 5)}" for letters in dice.sample(("AX", "BK", "CM", "DR", "EL", "FW", "GT"), 4)]
    price, zone = dice.randrange(500, 9_000), dice.choice("ABCDEF")
    fees = {letter: dice.randrange(200, 1_900) for letter in "ABCDEF"}
    voucher, token = f"V{hexadecimal(dice, 6)}", hexadecimal(dice, 8)
    slugs = dice.sample(range(100, 999), 4)
    titles = [name, f"{colors[0]} {product}", f"{color} {products[0]}", f"{colors[1]} {products[1]}"]
    catalog = [link(f"/p/{slug}", title) for slug, title in zip(slugs, titles, strict=True)]
    dice.shuffle(catalog)
    pages = {
        "index": page(
            "Shop", bullets([link("/catalog", "Catalog"), link("/shipping", "Shipping"), link("/order", "Order")])
        ),
        "catalog": page("Catalog", bullets(catalog)),
        "account": page(
            f"Customer {number(dice, 6)}",
            paragraphs(f"City: {dice.choice(CITIES)}", f"Zone: {zone}", f"Voucher: {voucher}"),
        ),
        "shipping": page("Shipping", bullets([f"Zone {letter}: {money(fee)}" for letter, fee in fees.items()])),
        "order": page("Order form", form("/order", "code", "quantity", "zone", "voucher", token=token)),
    }
    for slug, title, code in zip(slugs, titles, codes, strict=True):
        cost = price if title == name else dice.randrange(500, 9_000)
        pages[f"p/{slug}"] = page(title, paragraphs(f"Code {code}", f"Price {money(cost)}", filler_lines(dice, 1)[0]))
    fields = {"code": codes, "quantity": [], "zone": list("ABCDEF"), "voucher": [voucher], "token": [token]}
    write_site(dice, root, pages, forms={"/order": accepts("Thank you", "Order number", "W", **fields)})
    truth = {"code": codes[0], "quantity": str(quantity), "zone": zone, "total": money(price * quantity + fees[zone])}
    return Scenario(dice.choice(_PROMPTS).format(name=name, quantity=quantity), truth)


def _name(mind: Mind) -> str:
    return mind.prompt(rf"((?:{'|'.join(COLORS)}) (?:{'|'.join(PRODUCTS)}))")


def _quantity(mind: Mind) -> str:
    return mind.prompt(r"\b(\d)\b")


SLUG = Fact("catalog", lambda m: m.search(rf"\[{_name(m)}\]\(/p/(\d+)\)", r"^/p/(\d+)$"))
CODE = said("product", r"^Code (\S+)$", r'"code": "(\S+?)"', r"code is (\w\w-\d+)")
PRICE = said("product", r"^Price (\d+\.\d\d)$", r"costs (\d+\.\d\d)")
ZONE = said("account", r"^Zone: (\w)$", r"zone ([A-F])\b", r'"zone": "(\w)"')
VOUCHER = said("account", r"^Voucher: (\w+)$", r'"voucher": "(\w+)"')
TOKEN = said("order_form", r"\{token: (\w+)\}", r'"token": "(\w+)"')
FEE = Fact("shipping", lambda m: m.search(rf"Zone {m(ZONE)}: (\d+\.\d\d)"))
ORDER = said("submit", r"Order number: (W\d+)")


@move
def home(m: Mind) -> Message:
    return m.say(["Starting at the front page.", "What does the shop offer?"], call("open_page", path="/"))


@move
def catalog(m: Mind) -> Message:
    return m.say(
        ["Looking for the {name}.", "The catalog should have it.", "Opening the catalog."],
        call("open_page", path="/catalog"),
        name=_name(m),
    )


@move
def product(m: Mind) -> Message:
    return m.say(
        ["There it is. Now the details.", "Opening the product page.", "The {name} has a page of its own."],
        call("open_page", path=f"/p/{m(SLUG)}"),
        name=_name(m),
    )


@move
def account(m: Mind) -> Message:
    return m.say(
        ["Zone and voucher are on the account page.", "Your data, please.", "Reading the customer page."],
        call("open_page", path="/account"),
    )


@move
def shipping(m: Mind) -> Message:
    return m.say(
        ["What is the fee for zone {zone}?", "Now the shipping fees.", "One costs {price}. And shipping?"],
        call("open_page", path="/shipping"),
        zone=ZONE,
        price=PRICE,
    )


@move
def order_form(m: Mind) -> Message:
    return m.say(["What does the form want?", "Opening the order form."], call("open_page", path="/order"))


@move
def hasty(m: Mind) -> Message:
    return m.say(
        ["Let me try to order right away.", "Maybe code and quantity are enough."],
        call("submit_form", path="/order", fields={"code": m(CODE), "quantity": _quantity(m)}),
    )


@move
def submit(m: Mind) -> Message:
    fields = {"code": m(CODE), "quantity": _quantity(m), "zone": m(ZONE), "voucher": m(VOUCHER), "token": m(TOKEN)}
    return m.say(
        ["Sending the order.", "The code is {code}. Ordering.", "All fields are known, so here it goes."],
        call("submit_form", path="/order", fields=fields),
        thinks=["Fields: code {code}, quantity, zone, voucher and the token of the form."],
        code=CODE,
    )


def _total(mind: Mind) -> str:
    return money(cents(mind(PRICE)) * int(_quantity(mind)) + cents(mind(FEE)))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Ordered: {quantity} of the {name}, order number {order}. With shipping it costs {total}.",
        "The order number is {order}. You pay {total} in total, fee for your zone included.",
        "Done, {order}. Total: {total} for {quantity} pieces of {code}.",
        quantity=_quantity(m),
        name=_name(m),
        order=ORDER,
        total=_total(m),
        code=CODE,
    )


def plan(dice: Random) -> list[Move]:
    find = dice.choice(([home, catalog, product], [catalog, product], [catalog, product]))
    data = dice.choice(([account, shipping], [shipping, account]))
    look = dice.choice(([*find, *data], [*data, *find], [data[0], *find, data[1]]))
    tried = [hasty] if dice.random() < 0.3 else []
    return mix(dice, [*look, *tried, order_form, submit, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = all(sent[0]["fields"][name] == truth[name] for name in ("code", "quantity", "zone"))
    return right and sent[0]["number"] in outcome.answer and outcome.answer_names("total")


FAMILY = Family(
    domain="web",
    name="order",
    system="You shop on the user's behalf through a text browser. Read pages, fill in forms, report numbers exactly.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
