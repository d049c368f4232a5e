"""The web page: a form and the results, made by the server as plain HTML."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from debian_search.model import Embedder
from debian_search.store import Filters, Found, Store

RESULTS = 10
QUERY_CHARACTERS_MAX = 1000

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
form {{ display: flex; flex-wrap: wrap; gap: .5rem; }}
input[type=search] {{ flex: 1 0 100%; font-size: 1.1rem; padding: .4rem; }}
li {{ margin: 1.2rem 0; }}
.path, .about {{ color: #666; font-size: .9rem; }}
.error {{ color: #a00; }}
</style>
</head>
<body>
<h1>Search by meaning</h1>
<form action="/">
<input type="search" name="q" value="{query}" maxlength="{most}" aria-label="what to look for" autofocus>
<label>package <select name="package"><option value="">all</option>{packages}</select></label>
<label>kind <select name="kind"><option value="">all</option>{kinds}</select></label>
<label>changed since <input type="date" name="since" value="{since}"></label>
<button>Search</button>
</form>
{body}
</body>
</html>
"""


class RequestError(Exception):
    """The parameters of a request cannot be a search."""


def serve(store: Store, embed: Embedder, port: int) -> ThreadingHTTPServer:
    """A server of the page on 127.0.0.1, for `serve_forever`; port 0 takes any free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path != "/":
                self._send(HTTPStatus.NOT_FOUND, "There is no such page.")
                return
            try:
                self._send(HTTPStatus.OK, answer(store, embed, parse_qs(parts.query)))
            except RequestError as error:
                self._send(HTTPStatus.BAD_REQUEST, str(error))
            except Exception as error:
                print(f"debian_search: {type(error).__name__}: {error}", file=sys.stderr)
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "The search failed; the server's output says why.")

        def _send(self, status: HTTPStatus, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            kind = "text/html" if status == HTTPStatus.OK else "text/plain"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            # The page has no scripts. This header stops scripts in texts, too.
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def answer(store: Store, embed: Embedder, asked: dict[str, list[str]]) -> str:
    """The page for the parameters of a request; RequestError if they cannot be a search."""

    def given(name: str) -> str:
        return asked.get(name, [""])[0].strip()

    query, package, kind, since = (given(name) for name in ("q", "package", "kind", "since"))
    if len(query) > QUERY_CHARACTERS_MAX:
        raise RequestError(f"The query has {len(query)} characters; {QUERY_CHARACTERS_MAX} are possible.")
    filters = Filters(package or None, kind or None, _day(since))
    return _PAGE.format(
        title=escape(f"{query} - search by meaning" if query else "Search by meaning"),
        query=escape(query),
        most=QUERY_CHARACTERS_MAX,
        packages=_options(store.packages(), package),
        kinds=_options(("html", "md", "txt"), kind),
        since=escape(since),
        body=_results(lambda: store.search(embed([query])[0], RESULTS, filters)) if query else "",
    )


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise RequestError(f"{text!r} is not a day, such as 2024-05-01.") from None


def _options(names: Sequence[str], chosen: str) -> str:
    return "".join(f"<option{' selected' if name == chosen else ''}>{escape(name)}</option>" for name in names)


def _results(search: Callable[[], list[Found]]) -> str:
    began = time.perf_counter()
    found = search()
    took = time.perf_counter() - began
    if not found:
        return '<p class="about">Nothing was found.</p>'
    items = "".join(
        f"<li><b>{escape(one.title)}</b><br>{escape(one.text)}<br>"
        f'<span class="path">{escape(one.path)}, {one.modified:%Y-%m-%d}, similarity {one.similarity:.2f}</span></li>'
        for one in found
    )
    return f'<p class="about">{len(found)} passages in {took * 1000:.1f} ms, the embedding included</p><ol>{items}</ol>'
