"""The SQLite file beside an index: one table of documents, with a state for each.

| state | the document |
|---|---|
| live | is in the index |
| coming | is being added to the index |
| going | is being deleted from the index |

A document's number is the id of its row in the index. No number is used twice. `synchronous` is
EXTRA, because a commit must survive a loss of power before the index changes.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pagehop import ArgumentError, BusyError, Error, FormatError, FullError, IoError

_VERSION = 1
_APPLICATION = 0x70616765
"""The application id in the header of the file: "page"."""
_BUSY_SECONDS = 30.0

_SCHEMA = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('live', 'coming', 'going')),
    source TEXT,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_key ON documents (key) WHERE state <> 'coming';
CREATE INDEX documents_source ON documents (source) WHERE source IS NOT NULL;
CREATE INDEX documents_unsettled ON documents (state, number) WHERE state <> 'live';
"""


class Row(NamedTuple):
    """A document as it is stored; `metadata` is JSON."""

    number: int
    key: str
    source: str | None
    text: str
    metadata: str


_COLUMNS = ", ".join(Row._fields)


class Table:
    """The table of documents. Its methods may be called from any thread."""

    def __init__(self, path: Path, *, write: bool) -> None:
        if not write and not path.exists():
            raise FormatError(f"{path} is missing: the documents of an index are in a file beside it")
        self._path = path
        self._lock = threading.RLock()
        with self._explained():
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = EXTRA")
            version = self._one("PRAGMA user_version")
            if write and version == 0 and self._one("SELECT count(*) FROM sqlite_schema") == 0:
                self._create()
            elif (self._one("PRAGMA application_id"), version) != (_APPLICATION, _VERSION):
                raise FormatError(f"{path} is not a file of documents of version {_VERSION}")
            if not write:
                self._connection.execute("PRAGMA query_only = ON")

    def _create(self) -> None:
        self._connection.executescript(
            f"BEGIN; {_SCHEMA} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}; COMMIT;"
        )

    def plan(self, rows: Sequence[tuple[str, str | None, str, str]], keys: Iterable[str]) -> list[int]:
        """Commits a plan: `rows` are coming, and documents with these keys are going.

        Rows are (key, source, text, metadata). Returns their new numbers, in the order of `rows`.
        """
        with self._transaction():
            self._connection.execute(
                "UPDATE documents SET state = 'going' WHERE state = 'live' AND key IN (SELECT value FROM json_each(?))",
                [json.dumps(list(keys))],
            )
            statement = "INSERT INTO documents (key, state, source, text, metadata) VALUES (?, 'coming', ?, ?, ?)"
            return [int(self._connection.execute(statement, row).lastrowid or 0) for row in rows]

    def plan_to_empty(self) -> None:
        """Commits a plan in which all documents are going."""
        with self._transaction():
            self._connection.execute("UPDATE documents SET state = 'going' WHERE state = 'live'")

    def unsettled(self) -> tuple[list[int], list[int]]:
        """The numbers of coming documents, and of going ones, both ascending."""
        with self._lock, self._explained():
            found = self._connection.execute("SELECT state, number FROM documents WHERE state <> 'live'").fetchall()
        of = {state: sorted(number for name, number in found if name == state) for state in ("coming", "going")}
        return of["coming"], of["going"]

    def complete(self) -> None:
        """Ends a change that the index has made."""
        with self._transaction():
            self._connection.execute("DELETE FROM documents WHERE state = 'going'")
            self._connection.execute("UPDATE documents SET state = 'live' WHERE state = 'coming'")

    def undo(self) -> None:
        """Ends a change that the index has not made."""
        with self._transaction():
            self._connection.execute("DELETE FROM documents WHERE state = 'coming'")
            self._connection.execute("UPDATE documents SET state = 'live' WHERE state = 'going'")

    def by_number(self, numbers: Iterable[int]) -> dict[int, Row]:
        """Documents by number, in any state, in ascending order; unknown numbers are left out."""
        return {row.number: row for row in self._rows("number", list(numbers))}

    def by_key(self, keys: Iterable[str]) -> dict[str, Row]:
        """Documents by key; keys without one are left out."""
        return {row.key: row for row in self._rows("state <> 'coming' AND key", list(keys))}

    def by_source(self, source: str) -> list[Row]:
        """Documents of a source, in ascending order of their numbers."""
        return self._rows("state <> 'coming' AND source", [source])

    def sources(self) -> list[str]:
        """All sources, each once, in ascending order."""
        query = "SELECT DISTINCT source FROM documents WHERE source IS NOT NULL AND state <> 'coming' ORDER BY source"
        with self._lock, self._explained():
            return [source for (source,) in self._connection.execute(query)]

    def __len__(self) -> int:
        with self._lock, self._explained():
            return int(self._one("SELECT count(*) FROM documents WHERE state <> 'coming'"))

    def keys(self) -> Iterator[str]:
        """Iterates over all keys, in ascending order of the documents' numbers, 1,000 a query."""
        last = 0
        while True:
            with self._lock, self._explained():
                found = self._connection.execute(
                    "SELECT number, key FROM documents "
                    "WHERE number > ? AND state <> 'coming' ORDER BY number LIMIT 1000",
                    [last],
                ).fetchall()
            if not found:
                return
            last = found[-1][0]
            yield from (key for _, key in found)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _rows(self, column: str, values: list[Any]) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM documents WHERE {column} IN (SELECT value FROM json_each(?)) ORDER BY number"
        with self._lock, self._explained():
            return [Row(*row) for row in self._connection.execute(query, [json.dumps(values)])]

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Reads of other threads wait. The connection is shared, so they would see uncommitted rows.
        with self._lock, self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns errors of SQLite into errors of Pagehop that name the file."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise ArgumentError(f"{self._path}: {error}") from error
        except sqlite3.OperationalError as error:
            if self._connection_in_transaction():
                self._connection.execute("ROLLBACK")
            raise _kind(error)(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{self._path}: {error}") from error

    def _connection_in_transaction(self) -> bool:
        return hasattr(self, "_connection") and self._connection.in_transaction


def _kind(error: sqlite3.OperationalError) -> type[Error]:
    name = error.sqlite_errorname
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return BusyError
    return FullError if name.startswith("SQLITE_FULL") else IoError
