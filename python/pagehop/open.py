"""How an index is opened, `build`, `create` and `open`, and written again, `compact`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pagehop import _pagehop
from pagehop.arrays import PathLike, as_bytes, as_cache, as_count, as_text
from pagehop.columns import as_columns, as_kinds
from pagehop.errors import ArgumentError
from pagehop.index import Index
from pagehop.options import Progress, as_payload, check_progress
from pagehop.reports import CompactReport
from pagehop.sources import as_source

_SEED_MAX = (1 << 64) - 1
_VECTORS = ("codes", "float16", "float32")
_CACHE = "auto"
_LOG = "1GiB"
_AUTO_VACUUM = 0.2


def build(
    path: PathLike,
    source: Any,
    ids: Any = None,
    metric: str = "l2",
    *,
    vectors: str = "codes",
    columns: Any = None,
    payload: Any = None,
    memory: int | str = "2GiB",
    threads: int = 0,
    seed: int = 1,
    calibrate: bool = True,
    overwrite: bool = False,
    write: bool = False,
    progress: Progress | None = None,
    strict: bool = False,
) -> Index:
    """Build an index over all vectors at `path`, and open it.

    If the build fails or is stopped, what was at `path` before stays.

    source: a two-dimensional array, in memory or memory-mapped, or a source such as `from_hdf5`
        returns.
    ids: a whole number per row, from 0 to 2**63 - 1, or a str of 1 to 1,024 bytes of UTF-8, which
        makes an index of text ids. None numbers the rows from 0.
    metric: "l2" (squared Euclidean distance), "ip" (negative inner product) or "cosine".
    vectors: what is kept of vectors. "codes" have 12 bits per dimension. "float16" and "float32"
        keep the vectors, too: searches rank their last candidates by them, so that distances are
        exact (to the vector after rounding to float16), and `get` returns what was added. The
        index grows by 2 or 4 bytes for each component; a search reads up to `k` + 2 more pages.
    columns: values of each row, for searches with `where`: a dict of names and sequences, or a
        table of Arrow or pandas, in the order of the rows. Up to 7 columns of bool, integers,
        floats, str, datetime64, UUID, or lists of str (tags); None, NaN, NaT and masked values are
        missing. Each takes 8 bytes a row, and about as much as its edge code in its list of rows.
    payload: bytes or None for each row, in the order of the rows: the index keeps them on pages of
        their own, up to 64 MiB each, and `search` and `get` give them back. Such an index takes
        payloads in `add`, too; an index that was built without payloads never does.
    memory: bytes that the build may use. Rows that do not fit are put aside in temporary files
        beside `path`. `memory` must hold about a quarter of what a build in memory takes.
    threads: up to 4,096; 0 means one per core. The index does not depend on it.
    seed: the same vectors, options and seed give the same file, but for six bytes of identity.
    calibrate: measure at the end which settings reach which recall, as `Index.calibrate` does.
    overwrite: replace the file at `path`.
    write: open the index for adding and deleting rows, as `open` with `write=True` does.
    progress: called with the phase, the steps done and the steps in all (0: unknown); return False
        to stop.
    strict: refuse a value that float32 cannot hold exactly, instead of rounding it.
    """
    given = as_source(source, ids, strict=bool(strict))
    _check_metric(metric)
    _check_vectors(vectors)
    check_progress(progress)
    _pagehop.build(
        as_text(path),
        given,
        given.dim,
        texts=given.text_ids(),
        columns=as_columns(columns, None),
        payload=as_payload(payload, None),
        metric=metric,
        vectors=vectors,
        memory_bytes=as_bytes("memory", memory),
        threads=as_count("threads", threads, 0, _pagehop.THREADS_MAX),
        seed=as_count("seed", seed, 0, _SEED_MAX),
        calibrate=bool(calibrate),
        overwrite=bool(overwrite),
        progress=progress,
    )
    return open(path, write=write)


def create(
    path: PathLike,
    dim: int,
    metric: str = "l2",
    *,
    id_kind: str = "int",
    vectors: str = "codes",
    columns: Any = None,
    payload: bool = False,
    seed: int = 1,
    overwrite: bool = False,
    cache: int | str = _CACHE,
    durability: str = "commit",
    auto_vacuum: float | None = _AUTO_VACUUM,
) -> Index:
    """Create an empty index at `path`, and open it for writing.

    If all rows exist already, `build` is faster.

    dim: components of each vector.
    metric: "l2" (squared Euclidean distance), "ip" (negative inner product) or "cosine".
    id_kind: "int" for ids that are whole numbers from 0 to 2**63 - 1, "text" for ids that are str
        of 1 to 1,024 bytes of UTF-8. It never changes. With "text", a search reads up to `k` more
        pages.
    vectors: what is kept of vectors. "codes" have 12 bits per dimension. "float16" and "float32"
        keep the vectors, too: searches rank their last candidates by them, so that distances are
        exact (to the vector after rounding to float16), and `get` returns what was added. The
        index grows by 2 or 4 bytes for each component; a search reads up to `k` + 2 more pages.
    columns: names and kinds of columns, for searches with `where`: a dict such as
        `{"topic": "int", "price": "float"}`. The kinds are bool, int, float, text, timestamp, tags
        and uuid.
    payload: whether rows may have payloads: bytes that `search` and `get` give back.
    seed: seed of everything random.
    overwrite: replace the file at `path`.
    cache, durability, auto_vacuum: as for `open`.
    """
    _check_metric(metric)
    _check_vectors(vectors)
    as_cache(cache)
    _check_durability(durability)
    share = _as_share(auto_vacuum)
    _pagehop.create(
        as_text(path),
        as_count("dim", dim, 1, _pagehop.DIM_MAX),
        id_kind=str(id_kind),
        columns=as_kinds(columns),
        payload=bool(payload),
        metric=metric,
        vectors=vectors,
        seed=as_count("seed", seed, 0, _SEED_MAX),
        overwrite=bool(overwrite),
    )
    return open(path, cache, write=True, durability=durability, auto_vacuum=share)


def open(
    path: PathLike,
    cache: int | str = _CACHE,
    *,
    direct: bool | None = None,
    write: bool = False,
    durability: str = "commit",
    log: int | str = _LOG,
    auto_vacuum: float | None = _AUTO_VACUUM,
) -> Index:
    """Open the index at `path`.

    cache: most bytes of pages to keep in memory, such as "256MiB". "auto" is a quarter of the
        memory that this process may still use, shared by all indexes that it opens so.
    direct: whether to read past the page cache of the system. None: yes, except in two cases. If
        the file is larger than the cache, and the memory that is free beside the cache has room for
        it, the page cache keeps the rest of the file, and gives that memory back when others need
        it. If the system refuses io_uring, only the system can read ahead, into its page cache.
    write: open it for adding and deleting rows, too. One writer at a time may have a file open;
        many readers may have it open beside the writer.
    durability: when a change survives a loss of power. "commit": as soon as the call returns.
        "checkpoint": from the next checkpoint on, which makes small changes much faster; a loss of
        power may undo the last changes, each completely. A change survives the end of the process
        in both cases.
    log: most bytes of commits beside the index before a checkpoint writes them into it. A larger
        log writes less in all, and takes longer to recover after a crash.
    auto_vacuum: dead rows, as a share of the rows. When there are that many plus 256, a call that
        deletes, replaces or updates rows also frees the space of dead ones: about as many as it
        wrote, at most some thousands, which take seconds. None leaves all of it to `Index.vacuum`.
    """
    _check_durability(durability)
    if direct is not None and not isinstance(direct, bool):
        raise ArgumentError(f"direct is {direct!r}, it must be True, False or None")
    text = as_text(path)
    cache_bytes = as_cache(cache)
    index = _pagehop.open(
        text,
        cache_bytes,
        direct=direct,
        write=bool(write),
        durability=durability,
        log_bytes=as_bytes("log", log),
        auto_vacuum=_as_share(auto_vacuum),
    )
    return Index(index, text, cache_bytes, direct)


def compact(
    path: PathLike,
    *,
    into: PathLike | None = None,
    overwrite: bool = False,
    memory: int | str = "2GiB",
    threads: int = 0,
    progress: Progress | None = None,
) -> CompactReport:
    """Write an index again with its live rows only, so that the space of deleted rows is free.

    It takes as long as a build of the rows, and needs the space of a second file until it is done.
    An index that keeps no vectors is built from its codes: vectors are then off by the error of two
    codes instead of one. If it fails, is stopped or killed, the index is as it was.

    path: the index. It must not be open, in this process or another, unless `into` is given.
    into: write a new file at this path, as of the newest commit, and leave the index as it is.
    overwrite: replace the file at `into`.
    memory, threads, progress: as for `build`.
    """
    check_progress(progress)
    rows, pages, pages_before = _pagehop.compact(
        as_text(path),
        into=None if into is None else as_text(into),
        overwrite=bool(overwrite),
        memory_bytes=as_bytes("memory", memory),
        threads=as_count("threads", threads, 0, _pagehop.THREADS_MAX),
        progress=progress,
    )
    return CompactReport(rows, pages, pages_before)


def _check_metric(metric: object) -> None:
    if not isinstance(metric, str):
        raise ArgumentError(f"metric is {metric!r}, it must be one of 'l2', 'ip', 'cosine'")


def _check_vectors(vectors: object) -> None:
    if vectors not in _VECTORS:
        what = f"vectors is {vectors!r}, it must be one of 'codes', 'float16', 'float32'"
        raise ArgumentError(what)


def _check_durability(durability: object) -> None:
    if durability not in ("commit", "checkpoint"):
        raise ArgumentError(f"durability is {durability!r}, it must be 'commit' or 'checkpoint'")


def _as_share(auto_vacuum: Any) -> float | None:
    if auto_vacuum is None:
        return None
    is_number = isinstance(auto_vacuum, (int, float, np.number)) and not isinstance(auto_vacuum, bool)
    if not is_number or not math.isfinite(auto_vacuum) or auto_vacuum < 0:
        raise ArgumentError(f"auto_vacuum is {auto_vacuum!r}, it must be a number from 0 on, or None")
    return float(auto_vacuum)
