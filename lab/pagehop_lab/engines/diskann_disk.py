"""diskannpy's disk index: codes in memory, full vectors in sectors of 4 KiB, no node cache.

It reads by direct I/O, so a search always reads from storage, never from the kernel's cache. A code
has one byte for four dimensions, as in its documentation for SIFT. A single query holds the
interpreter's lock, so only the threads of a call with many queries search at the same time.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import LADDER, Description, Float32, Ids, Library, Options, Search

# Memory of a build, in GiB, where memory is not limited, and its share of a limit: the rest is for
# the interpreter and for files in the kernel's cache.
_BUILD_GIB, _SHARE = 8.0, 0.75
_AT_ONCE = 16384


class DiskannDisk(Library):
    """`diskannpy.StaticDiskIndex`."""

    description: ClassVar = Description(
        "diskann-disk", "DiskANN on disk", "diskann",
        build={"graph_degree": 64, "complexity": 100, "dims_per_code_byte": 4},
        search={"complexity": LADDER, "beam_width": (4,)},
        source="defaults of diskannpy",
        reads_storage=True,
        halves=True,
        call_threads=True,
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import diskannpy  # noqa: F401

        return importlib.metadata.version("diskannpy")

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import diskannpy

        self._angular = metric == "angular"
        code_bytes = max(1, base.shape[1] // options["dims_per_code_byte"])
        # An array would be written to such a file, too, and be in memory as a whole.
        rows = self.folder / "rows.bin"
        self._write(rows, base)
        diskannpy.build_disk_index(
            data=str(rows), vector_dtype=np.float32,
            distance_metric="l2", index_directory=str(self.folder), complexity=options["complexity"],
            graph_degree=options["graph_degree"], search_memory_maximum=len(base) * (code_bytes + 0.5) / 2**30,
            build_memory_maximum=self.build_memory_mib * _SHARE / 1024 or _BUILD_GIB, num_threads=threads,
        )  # fmt: skip
        rows.unlink()
        self._open_for = 0
        self._open(threads)

    def _open(self, threads: int) -> Any:
        """The index, opened for at least as many threads: more would wait for each other."""
        import diskannpy

        # If it is opened for one thread, it waits forever. A search still sets the number of its
        # threads.
        threads = max(2, threads)
        if threads > self._open_for:
            # Not two at once: each has the codes in memory.
            self._index: Any = None
            self._index = diskannpy.StaticDiskIndex(
                str(self.folder), num_threads=threads, num_nodes_to_cache=0, cache_mechanism=0
            )
            self._open_for = threads
        return self._index

    def _write(self, path: Path, base: Float32) -> None:
        """Writes rows as a file of the library: the two numbers of the shape, and float32."""
        with path.open("wb") as file:
            np.array(base.shape, dtype=np.int32).tofile(file)
            for start in range(0, len(base), _AT_ONCE):
                part = np.asarray(base[start : start + _AT_ONCE], dtype=np.float32)
                (unit(part) if self._angular else part).tofile(file)

    def searcher(self, options: Options, k: int) -> Search:
        index, angular, threads = self._open(self.threads), self._angular, self.threads
        complexity, beam_width = max(options["complexity"], k), options["beam_width"]

        def search(queries: Float32) -> Ids:
            asked = unit(queries) if angular else queries
            if len(asked) == 1:
                return np.asarray(index.search(asked[0], k, complexity, beam_width).identifiers[None], dtype=np.int64)
            found = index.batch_search(asked, k, complexity, threads, beam_width=beam_width)
            return np.asarray(found.identifiers, dtype=np.int64)

        return search

    def cool(self) -> None:
        """Nothing to do: no search finds a node in memory."""

    def index_bytes(self) -> int:
        return (self.folder / "ann_disk.index").stat().st_size + self.cache_bytes()

    def cache_bytes(self) -> int:
        """Bytes of the codes and their tables, which it holds in memory."""
        return sum((self.folder / f"ann_pq_{part}.bin").stat().st_size for part in ("compressed", "pivots"))
