"""Servers with MongoDB's protocol: their common interface, and running servers by their URLs."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

from devserver import DevServerError
from devserver.running import shown
from devserver.waits import STATEMENT_S

_SECONDS_MAX = 10
_LIMIT = "serverSelectionTimeoutMS"
_COMMAND_LIMIT = "socketTimeoutMS"


class Database:
    """A database by its URL, such as mongodb://127.0.0.1:27017/lab."""

    def __init__(self, url: str) -> None:
        self.shown = shown(url)
        self._url = url
        self._limit_s = STATEMENT_S

    def limit(self, seconds: float) -> None:
        """Sets the longest time of a command."""
        self._limit_s = seconds

    def url(self) -> str:
        """The URL for clients."""
        return self._url

    def command(self, name: str, value: Any = 1, **more: Any) -> dict[str, Any]:
        """The server's answer to a command."""
        import pymongo.errors

        try:
            with connected(self._url, **{_COMMAND_LIMIT: round(1000 * self._limit_s)}) as client:
                return dict(client.get_default_database().command(name, value, **more))
        except pymongo.errors.PyMongoError as error:
            # The rest of the message has the timeouts and the states of the servers.
            raise DevServerError(f"{self.shown}: {str(error).partition(' (configured timeouts')[0]}") from None

    def answers(self) -> bool:
        """Whether the server answers."""
        try:
            self.command("ping")
        except DevServerError:
            return False
        return True

    def version(self) -> str:
        """The version as the server reports it, with the name of FerretDB if it is one."""
        told = self.command("buildInfo")
        ferretdb = told.get("ferretdb", {}).get("version") or told.get("ferretdbVersion")
        return f"FerretDB {ferretdb.removeprefix('v')}" if ferretdb else str(told["version"])

    def data_bytes(self) -> int:
        """Bytes of all collections with their indexes."""
        told = self.command("dbStats")
        return int(told["storageSize"] + told["indexSize"])


class Running(Database):
    """A database of a running server. Its processes are not known, and so neither are its costs."""

    pid: None = None

    def __init__(self, url: str, collection: str) -> None:
        """`collection` is the lab's. DevServerError if the URL is not of such a database."""
        super().__init__(url)
        self._collection = collection
        self._made = False
        parts = urlsplit(url)
        if parts.scheme not in ("mongodb", "mongodb+srv") or not parts.path.strip("/"):
            raise DevServerError(f"{self.shown}: write it as mongodb://USER:PASSWORD@HOST:PORT/DATABASE")

    @property
    def running(self) -> bool:
        return self.answers()

    def start(self) -> None:
        """Tests that the lab's collection does not exist yet."""
        found = self.command("listCollections", filter={"name": self._collection})
        if found["cursor"]["firstBatch"]:
            raise DevServerError(
                f"{self.shown} has a collection {self._collection} already: give an empty database, or drop it, "
                "for a killed run may have left it"
            )
        self._made = True

    def settle(self) -> None:
        """Writes changed pages to files, if that is permitted."""
        with contextlib.suppress(DevServerError):
            self.command("fsync")

    def remove(self) -> None:
        """Drops the lab's collection."""
        if self._made:
            with contextlib.suppress(DevServerError):
                self.command("drop", self._collection)


def connected(url: str, **options: Any) -> Any:
    """A client of pymongo; leaving its context closes it."""
    import pymongo

    # An argument here would override the URL.
    limits: dict[str, Any] = {} if _LIMIT.lower() in url.lower() else {_LIMIT: 1000 * _SECONDS_MAX}
    return pymongo.MongoClient(url, **limits, **options)


def lent(client: Any) -> Any:
    """A connection of a client, logged in; `conn.get_conn` is its socket, used by no other code."""
    # pymongo has no public name for it; its version is locked.
    connection = client._conn_for_writes(None, "").__enter__()
    connection.conn.get_conn.settimeout(None)
    return connection
