"""The web tools: a small site served on loopback, fetched over real HTTP, and shown as text.

The site's folder holds `*.html` pages, `_redirects.json` (path -> path) and `_forms.json` (path -> what it takes).
The page `/search?q=word` looks through all pages. The port differs from run to run, so no address is ever shown.
"""

from __future__ import annotations

import hashlib
import html
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

SUBMISSIONS = "_submissions.jsonl"
"""In the site's folder: one line per accepted form, `{"path": ..., "fields": {...}, "number": ...}`."""

_FINE = frozenset({200, 201})
_REASONS = {404: "Not Found", 422: "Unprocessable Entity"}


@contextmanager
def serve_site(folder: Path) -> Iterator[int]:
    """Serve `folder` on a free loopback port, which is the value; the server is gone when the block ends."""
    handler = type("SiteHandler", (_SiteHandler,), {"folder": folder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # A short poll: shutdown waits for it, and every web task ends with a shutdown.
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def open_page(port: int, path: str) -> str:
    """GET a path, following at most one redirect; the page as text, behind a status line where it is not just OK."""
    status, location, body = _exchange(port, "GET", path)
    if status == 301:
        return f"301 Moved Permanently: {location}\n{_shown(*_exchange(port, 'GET', location)[::2])}"
    return _shown(status, body)


def post_form(port: int, form: str) -> str:
    """POST a form given as `/path?name=value`; the answer as text, behind a status line where it was not accepted."""
    path, _, fields = form.partition("?")
    status, _, body = _exchange(port, "POST", path, fields)
    return _shown(status, body)


def _shown(status: int, body: str) -> str:
    text = page_text(body)
    return text if status in _FINE else f"{status} {_REASONS[status]}\n{text}"


def _exchange(port: int, method: str, path: str, form: str | None = None) -> tuple[int, str, str]:
    """One HTTP exchange: status, redirect location, body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        connection.request(method, quote(path, safe="/?=&%+-._~"), body=form, headers=headers)
        response = connection.getresponse()
        return response.status, response.getheader("Location", ""), response.read().decode("utf-8")
    finally:
        connection.close()


def page_text(body: str) -> str:
    """HTML as the agent sees it: one line per block element, links as `[text](target)`, fields as `{name}`."""
    reader = _TextReader()
    reader.feed(body)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(line for line in lines if line)


class _TextReader(HTMLParser):
    """Collects the text of a page."""

    _BLOCKS = frozenset({"h1", "h2", "p", "li", "tr", "title", "form", "div"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self._links.append(values.get("href", ""))
            self.parts.append("[")
        elif tag in {"td", "th"}:
            self.parts.append(" | " if self.parts and not self.parts[-1].endswith("\n") else "")
        elif tag == "form":
            self.parts.append(f"\nform {values.get('action', '')}: ")
        elif tag == "input":
            self.parts.append(f"{{{values.get('name', '')}}} ")
        elif tag in self._BLOCKS:
            self.parts.append("\n- " if tag == "li" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._links:
            self.parts.append(f"]({self._links.pop()})")
        elif tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data.replace("\n", " "))


class _SiteHandler(BaseHTTPRequestHandler):
    """Answers for one site folder."""

    folder: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        path = unquote(address.path)
        redirects = self._settings("_redirects.json")
        if path in redirects:
            self._answer(301, "", location=redirects[path])
            return
        if path == "/search":
            self._answer(200, self._search(parse_qs(address.query).get("q", [""])[0]))
            return
        name = path.strip("/") or "index"
        page = self.folder / f"{name}.html"
        if ".." in name or not page.is_file():
            self._answer(404, f"<p>There is no page {html.escape(path)} on this site.</p>")
            return
        self._answer(200, page.read_text(encoding="utf-8"))

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length", "0"))
        fields = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode("utf-8")).items()}
        form = self._settings("_forms.json").get(path)
        if form is None:
            self._answer(404, f"<p>There is no form {html.escape(path)} on this site.</p>")
            return
        for name, accepted in form["fields"].items():
            if name not in fields:
                self._answer(422, f"<p>Not sent: the field {html.escape(name)} is required.</p>")
                return
            if accepted and fields[name] not in accepted:
                self._answer(422, f"<p>Not sent: {html.escape(fields[name])} is not a valid {html.escape(name)}.</p>")
                return
        number = confirmation_number(form["prefix"], fields)
        with (self.folder / SUBMISSIONS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"path": path, "fields": fields, "number": number}, sort_keys=True) + "\n")
        self._answer(201, f"<p>{html.escape(form['label'])}: {number}</p>")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are in the trajectory already."""

    def _settings(self, name: str) -> dict[str, Any]:
        file = self.folder / name
        settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        return settings

    def _search(self, word: str) -> str:
        found = []
        for page in sorted(self.folder.rglob("*.html")):
            text = page_text(page.read_text(encoding="utf-8"))
            if word and word.lower() in text.lower():
                link = "/" + page.relative_to(self.folder).with_suffix("").as_posix()
                found.append(f'<li><a href="{link}">{html.escape(text.splitlines()[0])}</a></li>')
        return "".join(found) or "<p>No page contains this.</p>"

    def _answer(self, status: int, body: str, location: str | None = None) -> None:
        data = body.encode("utf-8")
        self.send_response(status)
        if location is not None:
            self.send_header("Location", location)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        # One exchange per connection: a kept-alive connection would hold its thread beyond the task.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


def confirmation_number(prefix: str, fields: dict[str, str]) -> str:
    """Return the number a site gives to a submitted form: the same fields always get the same number."""
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode("utf-8")).hexdigest()
    return f"{prefix}{int(digest[:8], 16) % 900 + 100}"
