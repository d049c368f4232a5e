"""Pagehop embedded, as its users have it: an index file and a cache that holds all of it.

Options of the build are the defaults. `slack` says how far a search goes beyond the k-th distance,
with the default list of 100; at 0, `search_list` decides. `recall` requests a share of the
neighbors instead, as most users do; the other two are -1 then. `calibrated = "queries"` calibrates
by the set's samples and not by rows. `dims_per_cache_byte` makes the cache as small as codes of one
byte for that many dimensions, and `cache_share` makes it that share of the index. `memory_mib` is
the memory of the build, which is otherwise three quarters of what the process is limited to: the
rest is for the interpreter and the source in the kernel's cache. `rounds` is how often a tenth of
the rows is deleted, added again and vacuumed after the build; the calibration is that of the build.
`columns = 1` gives the index a column for filters; without it a filter is a mask of ids.
`row_codes = 1` is an option of the search: a code of each row is read into memory before it, and
the cache is smaller by as much. Where each query begins with empty caches, the disk's reads count
those of the codes, too.
"""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.engines.engine import (
    FILTER_PARTS,
    Description,
    EngineError,
    Float32,
    Ids,
    Kept,
    Library,
    Options,
    Search,
    Work,
)
from pagehop_lab.engines.history import PAGEHOP, at_commit
from pagehop_lab.machine.counters import cores
from pagehop_lab.machine.place import drop_page_cache

# Larger than any index that is measured here, so all pages stay in memory.
_CACHE_BYTES = 8 << 30
# As without the option.
_MEMORY = "2GiB"
_METRICS = {"euclidean": "l2", "angular": "cosine", "ip": "ip"}
_COUNTERS = {"hops": "hops", "pages": "pages_read", "pages_missed": "pages_missed"}


class PagehopFile(Library):
    """`pagehop.build` and `pagehop.open`."""

    description: ClassVar = Description(
        "pagehop", "Pagehop", "main",
        build={},
        search={"slack": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5), "search_list": (100,)},
        source="defaults of python/pagehop",
        metrics=tuple(_METRICS),
        more_build={
            "cache_share": 0.05, "calibrated": "rows", "columns": 1, "dims_per_cache_byte": 4, "memory_mib": 2048,
            "rounds": 10,
        },
        more_search={"recall": 0.95, "row_codes": 1},
        halves=True,
        call_threads=True,
        takes_commit=True,
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import pagehop  # noqa: F401

        return at_commit(importlib.metadata.version("pagehop"), *PAGEHOP)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import pagehop

        self._path = self.folder / "index.pagehop"
        by_queries = options.get("calibrated", "rows") == "queries"
        if by_queries and self.samples is None:
            raise EngineError('calibrated = "queries" takes a set with samples: samples = 2000 in its table')
        self._columns = {"part": np.arange(len(base)) % FILTER_PARTS} if options.get("columns") else None
        self._index = pagehop.build(
            self._path,
            base,
            metric=_METRICS[metric],
            columns=self._columns,
            memory=self._memory(options),
            threads=threads,
            seed=seed,
            calibrate=not by_queries,
        )
        self._index.close()
        if by_queries:
            with pagehop.open(self._path, write=True) as index:
                index.calibrate(self.samples, threads=threads)
        if options.get("rounds"):
            self._change(base, options["rounds"], seed)
        dims, share = options.get("dims_per_cache_byte"), options.get("cache_share")
        small = base.size // dims if dims else int(share * self.index_bytes()) if share else None
        self._cache = self._allowed = small or _CACHE_BYTES
        self._is_direct, self._has_row_codes, self._codes_bytes = False, False, 0
        self._open(self._cache)

    def _memory(self, options: Options) -> str:
        """The memory of a build."""
        mib = options.get("memory_mib") or self.build_memory_mib * 3 // 4
        return f"{mib}MiB" if mib else _MEMORY

    def _change(self, base: Float32, rounds: int, seed: int) -> None:
        import pagehop

        random = np.random.default_rng(seed)
        with pagehop.open(self._path, write=True) as index:
            for _ in range(rounds):
                ids = random.permutation(len(base))[: len(base) // 10]
                index.delete(ids)
                columns = {name: values[ids] for name, values in (self._columns or {}).items()}
                index.add(ids, np.asarray(base[ids]), columns=columns or None)
                index.vacuum()

    def searcher(self, options: Options, k: int) -> Search:
        self._use_row_codes(bool(options.get("row_codes")))
        index, threads, knobs = self._index, self.threads, _knobs(options, k)
        return lambda queries: np.asarray(index.search(queries, k=k, threads=threads, **knobs).ids)

    def _use_row_codes(self, wanted: bool) -> None:
        """Opens the index again if it has row codes and should not, or the other way round."""
        if wanted == self._has_row_codes:
            return
        if wanted and not self._codes_bytes:
            # Their size is known once they are there.
            self._codes_bytes = self._index.load_row_codes(threads=cores())
            self._open(self._allowed)
        self._open(self._room_beside(self._codes_bytes) if wanted else self._allowed)
        if wanted:
            self._index.load_row_codes(threads=cores())
        self._has_row_codes = wanted

    def _room_beside(self, codes_bytes: int) -> int:
        """The cache that row codes leave."""
        if codes_bytes >= self._allowed:
            raise EngineError(
                f"row codes take {codes_bytes:,} bytes, and the cache has {self._allowed:,} for them and "
                "for pages: give the index a larger cache"
            )
        return self._allowed - codes_bytes

    def _open(self, cache: int) -> None:
        import pagehop

        self._index.close()
        self._index = pagehop.open(self._path, cache=cache, direct=self._is_direct)
        self.pages_cache_bytes = cache
        """The part of the cache that is left for pages."""

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        import pagehop

        # They do not serve filters.
        self._use_row_codes(False)
        index, threads, knobs = self._index, self.threads, _knobs(options, k)
        where = pagehop.column("part") < int(kept[:FILTER_PARTS].sum()) if self._columns else kept
        return lambda queries: np.asarray(index.search(queries, k=k, where=where, threads=threads, **knobs).ids)

    def counted(self, queries: Float32, options: Options, k: int) -> tuple[Ids, Work]:
        hits = self._index.search(queries, k=k, threads=self.threads, **_knobs(options, k))
        return np.asarray(hits.ids), {name: getattr(hits.stats, counter) for name, counter in _COUNTERS.items()}

    def index_bytes(self) -> int:
        return self._path.stat().st_size

    def cache_bytes(self) -> int | None:
        return None if self._cache == _CACHE_BYTES else self._cache

    def cool(self) -> None:
        """Opens the file again and bypasses the kernel's cache from then on.

        Before that, the kernel drops the file from its cache.
        """
        self._index.close()
        drop_page_cache(self._path)
        # The rest of the limit is for searches and the interpreter.
        self._allowed = (self.memory_mib << 20) // 2 if self.memory_mib else self._cache
        self._is_direct, self._has_row_codes = True, False
        begun = time.perf_counter()
        self._open(self._allowed)
        self.opened_s = time.perf_counter() - begun

    def close(self) -> None:
        self._index.close()


def _knobs(options: Options, k: int) -> dict[str, Any]:
    """The arguments of a search; values that are not above 0 are left to the index."""
    knobs = {name: options[name] for name in ("recall", "slack") if options.get(name, 0) > 0}
    if options["search_list"] > 0:
        knobs["search_list"] = max(options["search_list"], k)
    return knobs
