"""Writes the small sites that web tasks happen on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from drsr.offline.sandbox.noise import background_pages
from drsr.offline.sandbox.words import write_files
from drsr.offline.sandbox.workshop.website import SUBMISSIONS
from drsr.offline.sandbox.workshop.workspace import SITE

Json = dict[str, Any]


def write_site(
    dice: Random,
    root: Path,
    pages: dict[str, str],
    redirects: dict[str, str] | None = None,
    forms: dict[str, Json] | None = None,
) -> None:
    """Write a site: these pages (`name -> body`) and the background ones, redirects and forms (see `website.py`)."""
    files = {f"{SITE}/{name}.html": body for name, body in {**background_pages(dice), **pages}.items()}
    files[f"{SITE}/_redirects.json"] = json.dumps(redirects or {})
    files[f"{SITE}/_forms.json"] = json.dumps(forms or {})
    write_files(root, files)


def page(title: str, *blocks: str) -> str:
    return f"<h1>{title}</h1>" + "".join(blocks)


def paragraphs(*texts: str) -> str:
    return "".join(f"<p>{text}</p>" for text in texts)


def bullets(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{text}</li>" for text in texts) + "</ul>"


def link(path: str, text: str) -> str:
    return f'<a href="{path}">{text}</a>'


def form(action: str, *fields: str) -> str:
    inputs = "".join(f'<input name="{name}">' for name in fields)
    return f'<form action="{action}">{inputs}</form>'


def accepts(label: str, prefix: str, **fields: Sequence[str]) -> Json:
    """Return a form's rules: its fields are required, and a field with a list takes only what is in the list."""
    return {"label": label, "prefix": prefix, "fields": {name: list(ok) for name, ok in fields.items()}}


def submissions(root: Path) -> list[Json]:
    """Return what the site accepted, in order."""
    file = root / SITE / SUBMISSIONS
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
