"""Order a product in a web shop: find it, read its code and price, the fee for the customer's zone, send the form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, COLORS, CONSENT, PRODUCTS, hexadecimal, number
from drsr.offline.sandbox.workshop.pages import accepts, bullets, form, link, page, paragraphs, write_site


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
    return Scenario(
        dice.choice(FAMILY.prompts).format(name=name, client=number(dice, 3)), truth, (dice.choice(CONSENT),)
    )


FAMILY = read_family(__file__, prepare)
