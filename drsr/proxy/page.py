"""The page at `/`: recent decisions, savings, reasons, latency. It loads nothing from elsewhere and shows no text."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_FILES = {
    "/": ("index.html", "text/html"),
    "/drsr/page.js": ("page.js", "text/javascript"),
    "/drsr/page.css": ("page.css", "text/css"),
}


def page_routes() -> list[Route]:
    """One route per file of the page."""
    return [_route(path, name, kind) for path, (name, kind) in _FILES.items()]


def _route(path: str, name: str, kind: str) -> Route:
    content = files("drsr.proxy").joinpath("page", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return Route(path, answer)
