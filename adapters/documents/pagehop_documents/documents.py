"""An index with the documents of its rows, and the order in which a change writes both.

A change has three steps. Each is on the disk before the next one starts:

1. The plan, in SQLite: new documents are coming; replaced and deleted documents are going.
2. The index: one transaction adds the new rows, and then another one deletes the old rows.
3. The end, in SQLite: coming documents become live, and going ones are removed.

A document gets a new number with every change. So the index never has a row whose document is not
in SQLite, and the document of a row belongs to the row's vector. After a crash, the first coming
row shows whether the index has made the change. If it has, the change is completed, otherwise
undone.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

import pagehop
from pagehop import ArgumentError
from pagehop_documents.table import Row, Table

DEFAULT_METRIC = "cosine"
_FOUND_MAX = 100_000
"""Most rows that one search of the index returns."""
_TRIES_MAX = 100
"""Searches that are repeated because rows lost their document; the last one leaves those rows out.
"""


class Document(NamedTuple):
    """A document with its number."""

    key: str
    text: str
    metadata: dict[str, Any]
    source: str | None
    number: int
    """The id of its row in the index."""


class Hit(NamedTuple):
    """A document that a search found."""

    key: str
    text: str
    metadata: dict[str, Any]
    source: str | None
    number: int
    """The id of its row in the index."""
    distance: float
    """Squared distance for `l2`, negative inner product for `ip`, 1 - cosine for `cosine`."""


class Documents:
    """An index file and the documents of its rows. Every method may be called from any thread.

    One process at a time may have it open for writing, and many processes for reading. A change is
    complete or did not happen, also after a crash. It is on the disk when the method returns.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        metric: str | None = None,
        columns: Mapping[str, str] | None = None,
        write: bool = True,
        cache: int | str = "256MiB",
    ) -> None:
        """Opens the index at `path`. If there is none, the first `add` creates it.

        metric: "cosine" (the default), "l2" or "ip". For an existing index, its own metric or None.
        columns: names and kinds of the metadata to filter by, such as `{"year": "int"}`; the kinds
            are bool, int, float, text, timestamp, tags and uuid. For an existing index, its own
            columns or None.
        write: opens it for changes, too. Without it, the index must exist.
        cache: most bytes of the index's pages to keep in memory.

        Raises ArgumentError for another metric or other columns than those of an existing index,
        and FormatError if the index and its documents do not belong together.
        """
        self._path = Path(path)
        self._metric, self._columns, self._cache = metric, columns, cache
        self._write = bool(write)
        self._changing = threading.RLock()
        self._index: pagehop.Index | None = None
        self._table: Table | None = None
        if self._path.exists() or not self._write:
            index = pagehop.open(self._path, cache, write=self._write)
            try:
                self._start(index)
            except BaseException:
                index.close()
                raise

    def _start(self, index: pagehop.Index) -> None:
        """Opens the documents of `index`, settles an unfinished change, and compares both files."""
        info = index.info()
        if self._metric not in (None, info.metric):
            raise ArgumentError(f"{self._path} has the metric {info.metric!r}, not {self._metric!r}")
        if self._columns is not None and dict(self._columns) != index.columns:
            raise ArgumentError(f"{self._path} has the columns {index.columns}, not {dict(self._columns)}")
        table = Table(self._path.with_name(f"{self._path.name}-documents"), write=self._write)
        try:
            if self._write:
                _settle(index, table)
                if len(table) != len(index):
                    raise pagehop.FormatError(
                        f"{self._path} has {len(index)} rows, and there are {len(table)} documents beside it: "
                        "the two files are not of one time; take both from one backup"
                    )
        except BaseException:
            table.close()
            raise
        self._index, self._table = index, table

    # ---- changes ----

    def add(
        self,
        keys: Sequence[str],
        vectors: Any,
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        sources: Sequence[str | None] | None = None,
    ) -> None:
        """Adds documents. A document whose key exists replaces the earlier one.

        keys: one text per document. If a key repeats, its last document is used.
        vectors: a matrix, shape [documents, dim].
        metadata: one dict per document, with values that JSON has, dates and times; or None.
        sources: one text per document that names what it is a part of, for `delete_source`; or
            None.
        """
        array = _as_matrix(vectors)
        dicts = metadata or [None] * len(keys)
        origins = sources or [None] * len(keys)
        for what, values in (("vectors", array), ("texts", texts), ("metadata", dicts), ("sources", origins)):
            if len(values) != len(keys):
                raise ArgumentError(f"there are {len(keys)} keys and {len(values)} {what}")
        if not len(keys):
            return
        last = sorted({key: at for at, key in enumerate(keys)}.values())
        chosen = [dict(dicts[at] or {}) for at in last]
        rows = [
            (_as_key(keys[at]), origins[at], texts[at], _as_json(keys[at], values))
            for at, values in zip(last, chosen, strict=True)
        ]
        with self._changing:
            index, table = self._opened(array.shape[1])
            columns = _column_values(index.columns, chosen)
            self._change(
                lambda: table.plan(rows, [row[0] for row in rows]),
                lambda numbers: index.add(numbers, array[last], columns=columns),
            )

    def delete(self, keys: Iterable[str]) -> list[str]:
        """Deletes documents by key. Returns the keys that existed, in the order of `keys`, each
        once.
        """
        listed = list(dict.fromkeys(_as_key(key) for key in keys))
        with self._changing:
            if self._table is None:
                return []
            table = self._table
            there = table.by_key(listed)
            if there:
                self._change(lambda: table.plan([], there))
            return [key for key in listed if key in there]

    def delete_source(self, source: str) -> list[str]:
        """Deletes all documents of a source. Returns their keys, in the order of `of_source`."""
        with self._changing:
            return self.delete(document.key for document in self.of_source(source))

    def clear(self) -> None:
        """Deletes all documents."""
        with self._changing:
            if self._table is not None:
                self._change(self._table.plan_to_empty)

    def _change(self, plan: Callable[[], object], make: Callable[[Any], object] | None = None) -> None:
        """Plans a change, adds its rows to the index, and settles it, also after an error."""
        index, table = self._opened(None)
        # An earlier change may have failed before it could be settled.
        _settle(index, table)
        numbers = plan()
        try:
            if make is not None:
                make(numbers)
        finally:
            _settle(index, table)
        self._vacuum_some(index)

    def _vacuum_some(self, index: pagehop.Index) -> None:
        """Frees the space of replaced and deleted rows if they are more than 1,000 and more than a
        fifth of the live rows.
        """
        if index.info().dead_rows > max(1000, len(index) // 5):
            index.vacuum()

    def _opened(self, dim: int | None) -> tuple[pagehop.Index, Table]:
        """The open files; they are created for vectors of `dim` components if there are none."""
        if not self._write:
            raise ArgumentError(f"{self._path} is open for reading; open it with write=True to change it")
        if self._index is None and dim is not None:
            metric = self._metric or DEFAULT_METRIC
            index = pagehop.create(self._path, dim, metric, columns=self._columns, cache=self._cache)
            self._start(index)
        assert self._index is not None
        assert self._table is not None
        return self._index, self._table

    # ---- reading ----

    def search(self, vector: Any, k: int = 10, *, recall: float | None = None, where: Any = None) -> list[Hit]:
        """The `k` documents nearest to a vector, nearest first; fewer if fewer meet the condition.

        vector: shape [dim].
        where: a condition on the columns, as `pagehop.Index.search` takes it.
        recall: share of the true nearest documents to find, on average; by default 0.98, or the
            highest recall below it that the calibration reached.
        """
        if self._index is None or self._table is None or k < 1:
            return []
        query = np.asarray(vector, np.float32)
        wanted, tries = k, 0
        while True:
            ids, distances = self._index.search(query, wanted, where=where, recall=recall)
            rows = self._table.by_number(ids.tolist())
            if len(rows) < len(ids) and tries < _TRIES_MAX:
                # Another change was completed after the search and removed these documents. A new
                # search does not find their rows.
                tries += 1
                continue
            hits = _newest(rows, ids.tolist(), distances.tolist())
            if len(hits) >= k or len(ids) < wanted or wanted >= _FOUND_MAX:
                return hits[:k]
            # A document was being replaced, and both its old and its new row were found.
            wanted = min(2 * wanted, _FOUND_MAX)

    def matching(self, where: Any) -> list[Document]:
        """All documents that meet a condition on the columns, in ascending order of their numbers.

        Raises ArgumentError for 100,000 documents or more.
        """
        if self._index is None or self._table is None or not len(self._index):
            return []
        k = min(len(self._index), _FOUND_MAX)
        anywhere = np.ones(self._index.dim, np.float32)
        ids = self._index.search(anywhere, k, where=where, recall=1).ids
        if len(ids) == _FOUND_MAX:
            raise ArgumentError(f"{_FOUND_MAX} documents or more meet the condition; give a narrower one")
        return [_document(row) for row in self._table.by_number(sorted(ids.tolist())).values()]

    def get(self, keys: Iterable[str]) -> list[Document]:
        """Documents by key, in the order of `keys`; keys without a document are left out."""
        listed = [_as_key(key) for key in keys]
        found = {} if self._table is None else self._table.by_key(listed)
        return [_document(found[key]) for key in listed if key in found]

    def of_source(self, source: str) -> list[Document]:
        """Documents of a source, in the order in which they were added or last replaced."""
        return [] if self._table is None else [_document(row) for row in self._table.by_source(source)]

    def sources(self) -> list[str]:
        """The sources of all documents, each once, in ascending order."""
        return [] if self._table is None else self._table.sources()

    def vectors(self, numbers: Sequence[int]) -> npt.NDArray[np.float32]:
        """The vectors of documents by number, shape [numbers, dim], as the index keeps them
        (`pagehop.Index.get`).
        """
        if self._index is None:
            raise ArgumentError(f"{self._path} has no documents yet")
        return self._index.get(list(numbers))

    def keys(self) -> Iterator[str]:
        """Iterates over the keys of all documents, in the order in which they were added or last
        replaced.
        """
        return iter(()) if self._table is None else self._table.keys()

    @property
    def index(self) -> pagehop.Index | None:
        """The index, for searches, audits and calibrations; None before the first document.

        Rows are only changed by the methods of this object.
        """
        return self._index

    @property
    def metric(self) -> str:
        """The metric of the index, or the one that it will have."""
        return self._index.info().metric if self._index is not None else self._metric or DEFAULT_METRIC

    @property
    def columns(self) -> dict[str, str]:
        """Names and kinds of the metadata that searches can filter by."""
        return dict(self._columns or {}) if self._index is None else self._index.columns

    def __len__(self) -> int:
        return 0 if self._table is None else len(self._table)

    def close(self) -> None:
        """Closes both files. Closing twice does nothing."""
        with self._changing:
            if self._index is not None and self._table is not None:
                self._index.close()
                self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _settle(index: pagehop.Index, table: Table) -> None:
    """Completes a planned change if the index has made it or only has to delete; otherwise undoes
    it.
    """
    coming, going = table.unsettled()
    # The index adds the rows of a change in one transaction: it has all of them or none.
    if coming and coming[0] not in index:
        table.undo()
    elif coming or going:
        if going:
            index.delete(going)
        table.complete()


def _newest(rows: Mapping[int, Row], numbers: list[int], distances: list[float]) -> list[Hit]:
    """The documents of rows, nearest first. Of two rows with the same key, only the newer one."""
    newest: dict[str, int] = {}
    for number, row in rows.items():
        newest[row.key] = max(number, newest.get(row.key, 0))
    return [
        Hit(*_document(rows[number]), distance)
        for number, distance in zip(numbers, distances, strict=True)
        if number in rows and newest[rows[number].key] == number
    ]


def _column_values(kinds: Mapping[str, str], metadata: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
    if not kinds:
        return None
    return {name: [_column_value(kind, values.get(name)) for values in metadata] for name, kind in kinds.items()}


def _column_value(kind: str, value: Any) -> Any:
    if kind == "timestamp" and isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ArgumentError(f"{value!r} is not a time in ISO format, such as 2024-05-01T12:30") from None
    return value


def _document(row: Row) -> Document:
    return Document(row.key, row.text, json.loads(row.metadata), row.source, row.number)


def _as_matrix(vectors: Any) -> npt.NDArray[np.float32]:
    """Vectors as a matrix of float32; ArgumentError if they are not one."""
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"vectors must be a matrix of numbers: {error}") from None
    if array.ndim != 2 and array.size:
        raise ArgumentError(f"vectors has {array.ndim} dimensions, it must be a matrix")
    return array


def _as_key(key: Any) -> str:
    if not isinstance(key, str):
        raise ArgumentError(f"the key of a document must be a str, not {key!r}")
    return key


def _as_json(key: str, metadata: dict[str, Any]) -> str:
    try:
        return json.dumps(metadata, ensure_ascii=False, default=_as_text)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"metadata of document {key!r}: {error}") from None


def _as_text(value: Any) -> Any:
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r:.80} is of a type that JSON does not have")
