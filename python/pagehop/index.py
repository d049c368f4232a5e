"""An open index: search it, change it, measure it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from pagehop import _pagehop
from pagehop.arrays import (
    Float32,
    PathLike,
    as_count,
    as_queries,
    as_query,
    as_text,
)
from pagehop.columns import as_columns
from pagehop.conditions import as_filter
from pagehop.errors import ArgumentError
from pagehop.hits import Hits, hits_of
from pagehop.ids import as_objects, as_row_ids, as_rows, int_batches, text_batches
from pagehop.options import Progress, as_payload, check_progress, check_search
from pagehop.recall_warnings import RecallWarnings
from pagehop.reports import (
    AddReport,
    BackupReport,
    Calibration,
    CheckReport,
    DeleteReport,
    Info,
    RecallReport,
    VacuumReport,
    calibration_of,
    info_of,
)

_FLOAT32 = np.dtype(np.float32)
_ID_MAX = (1 << 63) - 1
_BATCH_MAX = 1 << 26


class Index:
    """An open index, from `build`, `create` or `open`. Every method may be called from any thread.

    One process at a time may have a file open for writing. Many readers, in this and in other
    processes, may have it open beside the writer; they see each change when it is complete.

    `add`, `delete` and other changes are atomic: they take place completely or not at all. What a
    method did is safe when it returns, whatever happens to the process. Ctrl-C that comes after the
    change, during a vacuum or a calibration of the same call, is raised although the change took
    place. Until a checkpoint, part of it is in a file beside the index, so close the index before
    you copy or move its file.
    """

    __slots__ = ("_cache", "_dim", "_direct", "_index", "_path", "_texts", "_warnings")

    def __init__(self, index: _pagehop.Index, path: str, cache_bytes: int, direct: bool | None) -> None:
        self._cache = cache_bytes
        self._direct = direct
        self._dim: int = index.dim
        self._index = index
        self._path = path
        self._texts: bool = index.has_text_ids
        self._warnings = RecallWarnings(path)

    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        recall: float | None = None,
        search_list: int | None = None,
        slack: float | None = None,
        where: Any = None,
        beam_width: int | None = None,
        threads: int = 0,
        payload: bool = False,
        strict: bool = False,
    ) -> Hits:
        """Find the `k` rows nearest to one vector, or to each row of a matrix.

        `ids, distances = index.search(query)` unpacks the result.

        query: one vector, or a matrix with one query per row: an array or a list of numbers. Values
            are rounded to float32.
        k: rows to find, 1 to 100,000.
        recall: the share of the true nearest rows to find, on average, above 0 and at most 1. Uses
            the search_list and slack that `calibrate`, or the build, measured for it. A recall
            above what the calibration reached searches as hard as the calibration tried, and in an
            index that was never calibrated with a list of 400 and a slack of 0.4; a `RecallWarning`
            says so once. 1 compares the query with every row. Default: 0.98, or the highest recall
            below it that the calibration reached (`info().default_recall`).
        search_list: candidates kept while searching, 1 to 100,000; at least `k` are kept. A longer
            list finds more and takes longer. Without slack, the whole list is expanded. Default, if
            no calibration reached a recall: 100, with a slack of 0.2.
        slack: 0 or more: stop when the best estimate left is beyond 1 + slack times the distance of
            the k-th row.
        where: which rows may be found. A condition such as
            `(pagehop.column("topic") == 7) & (pagehop.column("price") < 20)`, or its text,
            `"topic = 7 and price < 20"`; or an array or a list of ids; or a mask, which has True at
            the ids that may be found. `pagehop.ids(...)` joins ids or a mask with conditions. Fewer
            than `k` rows are found only if fewer may be.
        beam_width: most pages read at the same time, 1 to 64. Default: 8.
        threads: for a matrix of many queries, up to 4,096; 0 means one per core.
        payload: whether `Hits.payload` has the payloads of the rows, as they were for this search.
            A row costs about one page more.
        strict: refuse a value that float32 cannot hold exactly, instead of rounding it.
        """
        if type(query) is not np.ndarray or query.dtype != _FLOAT32:
            query = as_query("query", query, strict=strict)
        try:
            only = None if where is None else as_filter(where, self._texts, self._path)
            buffer, found, warned, texts, payloads = self._index.search(
                query, k, only, recall, search_list, slack, beam_width, threads, bool(payload)
            )
        except (OverflowError, TypeError):
            check_search(k, recall, search_list, slack, beam_width, threads)
            raise
        if warned is not None:
            self._warnings.of_plan(k, recall, *warned)
        hits = hits_of(buffer, len(query) if query.ndim == 2 else None, int(k), found, texts)
        if payloads is not None:
            hits._payload = payloads if query.ndim == 2 else payloads[0]
        return hits

    def add(
        self,
        ids: Any,
        vectors: Any,
        *,
        columns: Any = None,
        payload: Any = None,
        threads: int = 0,
        progress: Progress | None = None,
        strict: bool = False,
    ) -> AddReport:
        """Add rows in one transaction. A row whose id is in the index replaces the row there.

        ids: one whole number per row, from 0 to 2**63 - 1, or one number for one vector; in an
            index whose ids are texts a str, of 1 to 1,024 bytes of UTF-8. If an id repeats, its
            last row is used.
        vectors: a matrix, or one vector. Values are rounded to float32.
        columns: values of the rows, as for `build`, of columns that the index has. A row has no
            value in a column that is not given, also if it replaces a row that has one.
        payload: bytes or None for each row, of an index that keeps payloads. A row without one has
            none, also if it replaces a row that has one.
        threads: up to 4,096; 0 means one per core. With more than one, which edges a row gets
            depends on the turns that threads take; with 1 the same calls make the same index.
        progress: called with the phase, the steps done and the steps in all (0: unknown). Return
            False to stop: `Interrupted` is raised, and nothing has changed. After the commit, in a
            calibration or a vacuum of the same call, only that ends, and the rows are in. An
            exception of the callback is raised, and so is Ctrl-C, before and after the commit.
        strict: refuse a value that float32 cannot hold exactly, instead of rounding it.

        Calls with some hundred rows or more are fastest. If the rows do not fit in memory, add them
        in several calls. The first rows train the model of an empty index. Later rows train it
        again each time the index has grown eightfold, up to about 100,000 rows or 1 GiB of pages:
        such a call takes as long as a build.
        """
        self._index.may_change()
        numbers, array = as_rows(ids, vectors, self._dim, texts=self._texts, path=self._path, strict=bool(strict))
        check_progress(progress)
        values = None if columns is None else as_columns(columns, len(numbers), self.columns)
        kept = as_payload(payload, len(numbers))
        threads = as_count("threads", threads, 0, _pagehop.THREADS_MAX)
        done = self._index.add(numbers, array, columns=values, payload=kept, threads=threads, progress=progress)
        return AddReport(*done)

    def update_columns(self, ids: Any, columns: Any) -> int:
        """Give rows other values in some columns, in one transaction; returns how many changed.

        ids: whole numbers or texts, or one. An id that is not in the index is an `ArgumentError`
            that names it. If an id repeats, its last values are used.
        columns: as for `build`, one value for each id. Values of other columns and vectors stay.

        Costs as much as to add the rows: each gets a new place. The old one becomes free as that of
        a deleted row.
        """
        self._index.may_change()
        numbers = as_row_ids(ids, self._texts, self._path)
        values = as_columns(columns, len(numbers), self.columns)
        return self._index.update_columns(numbers, values or [], None)

    def update_payload(self, ids: Any, payload: Any) -> int:
        """Give rows other payloads, in one transaction; returns how many changed.

        ids: as for `update_columns`.
        payload: bytes or None for each id. Vectors and values of columns stay.
        """
        self._index.may_change()
        numbers = as_row_ids(ids, self._texts, self._path)
        return self._index.update_columns(numbers, [], as_payload(payload, len(numbers)))

    @property
    def columns(self) -> dict[str, str]:
        """The names and kinds of the columns whose values searches can filter by."""
        return self._index.columns

    def ids(self, batch: int = 65_536) -> Iterator[npt.NDArray[Any]]:
        """Iterate over the ids of all rows, in arrays of up to `batch` ids: numbers in ascending
        order, texts as arrays of str objects in an internal order.

        Changes may go on at the same time. A row that stays in the index comes exactly once; one
        that is added or deleted during the iteration may come or not.
        """
        count = as_count("batch", batch, 1, _BATCH_MAX)
        return text_batches(self._index, count) if self._texts else int_batches(self._index, count)

    @overload
    def get(self, ids: Any, *, payload: Literal[False] = False) -> Float32: ...

    @overload
    def get(self, ids: Any, *, payload: Literal[True]) -> tuple[Float32, Any]: ...

    def get(self, ids: Any, *, payload: bool = False) -> Float32 | tuple[Float32, Any]:
        """Vectors of rows by id: one for one id, a matrix for several, in their order.

        ids: whole numbers or texts, which may repeat, or one. An id that is not in the index is an
            `ArgumentError` that names it.

        An index that keeps vectors returns what was added, rounded to float16 if that is what it
        keeps. Otherwise it has codes of 12 bits per dimension: what comes back is off by about
        1/2000 of the vector's distance from the mean of the rows, and under "cosine" it has length
        1.

        payload: return a pair: the vectors, and the payload of the row or a list of payloads, bytes
            or None.
        """
        numbers = as_row_ids(ids, self._texts, self._path)
        vectors = self._matrix(self._index.vectors(numbers), ids)
        if not payload:
            return vectors
        payloads = self._index.payloads(numbers)
        return vectors, payloads[0] if np.ndim(ids) == 0 else payloads

    def pop(self, ids: Any) -> Float32:
        """Delete rows by id, and return their vectors as `get` does, in one transaction.

        ids: as for `get`. If one of them is not in the index, no row is deleted.
        """
        self._index.may_change()
        numbers = as_row_ids(ids, self._texts, self._path)
        return self._matrix(self._index.pop(numbers), ids)

    def _matrix(self, buffer: bytearray, ids: Any) -> Float32:
        vectors: Float32 = np.frombuffer(buffer, np.float32).reshape(-1, self._dim)
        return vectors[0] if np.ndim(ids) == 0 else vectors

    def delete(self, ids: Any) -> DeleteReport:
        """Delete rows by id, in one transaction. Ids that are not in the index are reported.

        ids: whole numbers or texts, or one. If an id repeats, it counts once.

        `vacuum` makes the space of deleted rows free for new ones; `auto_vacuum` of
        `pagehop.open` says when that happens by itself.
        """
        self._index.may_change()
        numbers = as_row_ids(ids, self._texts, self._path)
        if isinstance(numbers, list):
            deleted, unknown = self._index.delete(list(dict.fromkeys(numbers)))
            return DeleteReport(deleted, as_objects(unknown))
        first = np.unique(numbers, return_index=True)[1]
        deleted, unknown = self._index.delete(numbers[np.sort(first)])
        return DeleteReport(deleted, np.array(unknown, dtype=np.int64))

    def vacuum(self, *, progress: Progress | None = None) -> VacuumReport:
        """Remove deleted and replaced rows, and free their space for new rows.

        Frees all dead rows in one call, in many transactions, while `auto_vacuum` of `open` frees
        some in each change. Searches continue, and if it is stopped, the part that was done stays
        done. Then the index is calibrated, if a fifth of its rows has changed since the last time,
        unless it was calibrated with your queries.

        progress: as for `add`.
        """
        self._index.may_change()
        check_progress(progress)
        return VacuumReport(*self._index.vacuum(progress=progress))

    def retrain(self, *, progress: Progress | None = None) -> None:
        """Train the model again with the rows that there are, and build the graph again.

        For an index whose rows have become unlike those that it was trained with: by itself, it is
        trained again only while it is small. After the training it is calibrated, unless it was
        calibrated with your queries. Takes as long as a build. All vectors are in memory as
        float32, what a build of them needs, and the pages of the new graph. If these are more than
        1 GiB, a `FullError` says so at once: `compact` trains, too, in a new file and within its
        `memory`. Searches go on at the same time; changes wait.

        progress: as for `add`: a stop before the new graph is committed changes nothing, and one in
            the calibration after it leaves the settings of the last calibration.
        """
        self._index.may_change()
        check_progress(progress)
        self._index.retrain(progress=progress)

    def calibrate(
        self,
        queries: Any = None,
        *,
        threads: int = 0,
        progress: Progress | None = None,
        strict: bool = False,
    ) -> Calibration | None:
        """Measure which settings reach which recall, and store it for `search(..., recall=...)`.

        queries: a matrix of at least 50 of your queries; the recall is then that of queries like
            them. If there are more than 8,000, it uses 8,000 of them, evenly spaced. Without it, up
            to 8,000 vectors of the index serve as queries.
        threads: up to 4,096; 0 means one per core.
        progress: as for `add`.
        strict: as for `add`.

        A calibration with queries stays until the next call. One with vectors of the index is
        repeated when the model is trained again, by `vacuum` when a fifth of the rows has changed,
        and by `add` when the rows added and deleted since the last calibration are as many as the
        index had then. Reads the index about once; does not block searches or changes. Returns None
        for an index of fewer than 1,000 rows: it stores nothing, and a search with a recall visits
        all rows. It is calibrated when it reaches 1,000.
        """
        self._index.may_change()
        given = None if queries is None else as_queries("queries", queries, self._dim, self._path, strict=bool(strict))
        check_progress(progress)
        threads = as_count("threads", threads, 0, _pagehop.THREADS_MAX)
        known = self._index.calibrate(given, threads, progress=progress)
        return None if known is None else calibration_of(known)

    def load_row_codes(self, *, threads: int = 0, progress: Progress | None = None) -> int:
        """Read a code of each row into memory, so that searches read fewer pages from storage.

        threads: up to 4,096; 0 means one per core.
        progress: as for `add`.

        For an index that is larger than its cache. Reads every page once, and keeps 2 bits a
        dimension of each row (4 up to 160 dimensions) and 10 bytes, beside the cache: 106 bytes a
        row in 384 dimensions, 4% of the index. Returns these bytes. From then on searches of this
        `Index` without a filter read fewer pages: for a recall of .95 a quarter fewer of 150,000
        rows, and nearly half of ten million. With the same settings, or the same recall asked, they
        find about as much, or more. In memory they take more time than without.

        Rows that are added later have no code until another call. `retrain` drops the codes. Raises
        MemoryError if the system does not give the memory.
        """
        check_progress(progress)
        threads = as_count("threads", threads, 0, _pagehop.THREADS_MAX)
        return self._index.load_row_codes(threads, progress)

    @property
    def calibration(self) -> Calibration | None:
        """The result of the last calibration; None if there was none."""
        known = self._index.calibration()
        return None if known is None else calibration_of(known)

    def recall(
        self,
        k: int = 10,
        samples: int = 400,
        queries: Any = None,
        *,
        recall: float | None = None,
        search_list: int | None = None,
        slack: float | None = None,
        threads: int = 0,
        progress: Progress | None = None,
        strict: bool = False,
    ) -> RecallReport:
        """Measure the recall of searches for `k` rows against exact answers.

        samples: number of vectors of the index to use as queries.
        queries: a matrix of queries to use instead.
        recall, search_list, slack: as for `search`. If the recall is missed by more than chance
            explains, a `RecallWarning` says so.
        threads: up to 4,096; 0 means one per core.
        progress: as for `add`.
        strict: as for `add`.

        Reads the index about once. Does not block searches or changes. If the index is open for
        writing, the result is stored, and `info().audit` shows it.
        """
        k = as_count("k", k, 1, _pagehop.SEARCH_LIST_MAX)
        samples = as_count("samples", samples, 1, _pagehop.SAMPLES_MAX)
        given = None if queries is None else as_queries("queries", queries, self._dim, self._path, strict=bool(strict))
        check_search(k, recall, search_list, slack, None, threads)
        if recall == 1:
            raise ArgumentError("recall is 1, which is what a search is measured against; give one below 1")
        check_progress(progress)
        found, is_missed, warned = self._index.recall(
            k,
            samples,
            given,
            recall=recall,
            search_list=search_list,
            slack=slack,
            threads=threads,
            progress=progress,
        )
        report = RecallReport(**found)
        if warned is not None:
            self._warnings.of_plan(k, recall, *warned)
        if is_missed:
            self._warnings.of_audit(report, given is not None)
        return report

    def backup(self, target: PathLike, *, overwrite: bool = False, progress: Progress | None = None) -> BackupReport:
        """Copy the index, as of its newest commit, to a new file at `target`, which needs no log.

        Searches and changes go on at the same time, here and in other processes. Every page is
        verified. The file appears when it is complete and on the disk. If the backup fails or is
        stopped, what was at `target` stays.

        overwrite: replace the file at `target`.
        progress: as for `add`, with the phases "copy" and "log".
        """
        check_progress(progress)
        return BackupReport(*self._index.backup(as_text(target), overwrite=bool(overwrite), progress=progress))

    def checkpoint(self) -> None:
        """Write every commit into the index file, which is then complete by itself.

        This also happens when the log has reached its size, and when the index is closed.
        """
        self._index.may_change()
        self._index.checkpoint()

    def check(self) -> CheckReport:
        """Read every page and prove the structure. `CorruptIndexError` says where it is broken.

        Changes by this object wait. If another process changes the index, a `BusyError` may say so
        instead.
        """
        return CheckReport(**self._index.check())

    def info(self) -> Info:
        """The description of the index as of its newest commit."""
        return info_of(self._index.info())

    def close(self) -> None:
        """Close the file when the running searches are done. Closing twice does nothing.

        If it was open for writing, this waits for running changes and writes every commit into the
        index file. An index that is never closed loses nothing: the next `open` finds every commit.
        """
        self._index.close()

    @property
    def dim(self) -> int:
        """Components of each vector."""
        return self._dim

    @property
    def writable(self) -> bool:
        """Whether rows can be added and deleted. False once it is closed."""
        return self._index.writable

    @property
    def path(self) -> str:
        """The path that it was opened with."""
        return self._path

    def __len__(self) -> int:
        """Rows as of the newest commit; of a closed index, when it was closed."""
        return self._index.rows()

    def __contains__(self, row_id: object) -> bool:
        """Whether there is a row with this id, as of the newest commit."""
        if self._texts:
            return self._index.contains(as_row_ids(row_id, True, self._path))
        number = as_count("id", row_id, -(1 << 63), (1 << 64) - 1)
        return 0 <= number <= _ID_MAX and self._index.contains(np.array([number], np.uint64))

    def __reduce__(self) -> tuple[Callable[..., Index], tuple[str, int, bool | None]]:
        """Pickles where the file is: the copy opens it for reading, with a cache as large."""
        return _reopened, (str(self._index.file()), self._cache, self._direct)

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._index.closed else ", for writing" if self.writable else ""
        return f"<pagehop.Index {self._path!r}: {len(self)} rows of {self._dim} dimensions{state}>"


def _reopened(path: str, cache_bytes: int, direct: bool | None) -> Index:
    index = _pagehop.open(
        path, cache_bytes, direct=direct, write=False, durability="commit", log_bytes=0, auto_vacuum=None
    )
    return Index(index, path, cache_bytes, direct)
