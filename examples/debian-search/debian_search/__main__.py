"""`python -m debian_search`: ingest a folder, search it, serve the page."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pagehop
from debian_search.file_store import FileStore
from debian_search.ingest import ingest
from debian_search.model import Embedder, MiniLM
from debian_search.page import serve
from debian_search.store import Filters, Store, StoreError


def main(arguments: Sequence[str] | None = None, new_model: Callable[[], Embedder] = MiniLM) -> int:
    """Runs a command line; returns the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        _run(asked, new_model)
    except (ImportError, OSError, StoreError, pagehop.Error) as error:
        # The usual reasons: a missing file, package or server.
        print(f"debian_search: {error}", file=sys.stderr)
        return 1
    return 0


def _run(asked: argparse.Namespace, new_model: Callable[[], Embedder]) -> None:
    if asked.command == "ingest" and not asked.folder.is_dir():
        raise NotADirectoryError(f"{asked.folder} is not a folder")
    embed = new_model()
    store = _open(asked, embed.dim)
    try:
        if asked.command == "ingest":
            done = ingest(asked.folder, store, embed, print)
            print(f"{done.files} files read, {done.passages} passages added, {done.removed} files removed")
        elif asked.command == "search":
            filters = Filters(asked.package, asked.kind, asked.since)
            for found in store.search(embed([asked.query])[0], asked.k, filters):
                print(f"{found.similarity:.2f}  {found.path}: {found.title}\n      {found.text[:200]}")
        else:
            with serve(store, embed, asked.port) as server:
                print(f"http://127.0.0.1:{server.server_address[1]}/, until Ctrl-C", flush=True)
                server.serve_forever()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        store.close()


def _open(asked: argparse.Namespace, dim: int) -> Store:
    if asked.postgres is None:
        return FileStore(asked.file, write=asked.command == "ingest")
    from debian_search.postgres_store import PostgresStore

    return PostgresStore(asked.postgres, dim)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m debian_search", description=__doc__)
    parser.add_argument("--file", default="debian.pagehop", help="the index file (default: %(default)s)")
    parser.add_argument("--postgres", metavar="DSN", help="a database with the extension, instead of a file")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("ingest", help="read what is new or changed in a folder")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("search", help="find passages")
    one.add_argument("query")
    one.add_argument("-k", type=int, default=5, help="passages to find (default: %(default)s)")
    one.add_argument("--package", help="the first folder of the path")
    one.add_argument("--kind", choices=["html", "md", "txt"])
    one.add_argument("--since", type=datetime.date.fromisoformat, metavar="YYYY-MM-DD", help="changed since")
    one = commands.add_parser("serve", help="the web page, on 127.0.0.1")
    one.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
