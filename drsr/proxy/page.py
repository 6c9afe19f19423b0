"""The page at `/`: recent decisions, savings, reasons, latency. It loads nothing from elsewhere and shows no text."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from drsr.pages import style

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def page_routes() -> list[Route]:
    """Return one route per file of the page; its style sheet is that of every page."""
    folder = files("drsr.proxy").joinpath("page")
    return [
        _route("/", folder.joinpath("index.html").read_text(encoding="utf-8"), "text/html"),
        _route("/drsr/page.js", folder.joinpath("page.js").read_text(encoding="utf-8"), "text/javascript"),
        _route("/drsr/page.css", style(), "text/css"),
    ]


def _route(path: str, content: str, kind: str) -> Route:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return Route(path, answer)
