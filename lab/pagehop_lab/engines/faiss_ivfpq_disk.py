"""faiss inverted lists of 8-bit product codes in a file, which the kernel maps into memory.

The lists are made in parts and merged into the file, as in faiss's example for such indexes. Rows
are not kept, so the codes limit the recall. About 4 sqrt(rows) lists, as faiss's wiki says.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import Description, EngineError, Float32, Ids, Library, Options, Search
from pagehop_lab.machine.place import drop_page_cache

# Rows of a part, whose lists are in memory.
_PART_ROWS = 1_000_000
# Rows that are in memory as vectors at once.
_AT_ONCE = 65_536
# Rows for each list from which the lists are trained; faiss warns below 39.
_TRAINED_PER_LIST = 40


class FaissIvfPqDisk(Library):
    """`IndexIVFPQ` with `OnDiskInvertedLists`."""

    description: ClassVar = Description(
        "faiss-ivfpq-disk", "faiss IVF-PQ on disk", "faiss",
        build={"nlist": 0, "dims_per_code": 2},
        search={"nprobe": (1, 2, 4, 8, 16, 32, 64, 128)},
        source="github.com/facebookresearch/faiss/tree/main/demos/demo_ondisk_ivf.py",
        halves=True,
        call_threads=True,
    )  # fmt: skip

    @classmethod
    def version(cls) -> str:
        import faiss

        return str(faiss.__version__)

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        import faiss
        from faiss.contrib.ondisk import merge_ondisk

        faiss.omp_set_num_threads(threads)
        self._angular = metric == "angular"
        rows, dim = base.shape
        lists = options["nlist"] or max(16, min(int(4 * rows**0.5), rows // _TRAINED_PER_LIST))
        codes, left = divmod(dim, options["dims_per_code"])
        if left:
            raise EngineError(f"dims_per_code = {options['dims_per_code']} does not divide {dim} dimensions")
        index = faiss.index_factory(dim, f"IVF{lists},PQ{codes}")
        index.cp.seed = index.pq.cp.seed = seed
        trained = np.linspace(0, rows - 1, min(rows, _TRAINED_PER_LIST * max(lists, 256)), dtype=np.int64)
        index.train(self._vectors(base[trained]))
        self._lists, self._head = self.folder / "lists", self.folder / "head"
        parts = []
        for first in range(0, rows, _PART_ROWS):
            end = min(first + _PART_ROWS, rows)
            for start in range(first, end, _AT_ONCE):
                vectors = self._vectors(base[start : min(start + _AT_ONCE, end)])
                index.add_with_ids(vectors, np.arange(start, start + len(vectors)))
            parts.append(self.folder / f"part-{first}")
            faiss.write_index(index, str(parts[-1]))
            index.reset()
        merge_ondisk(index, [str(part) for part in parts], str(self._lists))
        for part in parts:
            part.unlink()
        faiss.write_index(index, str(self._head))
        self._index: Any = index
        faiss.omp_set_num_threads(1)

    def _vectors(self, rows: Float32) -> Float32:
        """Rows as the index compares them: at unit length the order by L2 is the order by angle."""
        vectors = np.ascontiguousarray(rows, dtype=np.float32)
        return unit(vectors) if self._angular else vectors

    def searcher(self, options: Options, k: int) -> Search:
        import faiss

        parameters, threads = faiss.SearchParametersIVF(nprobe=options["nprobe"]), self.threads

        def search(queries: Float32) -> Ids:
            # The setting belongs to the calling thread.
            faiss.omp_set_num_threads(threads)
            # Not an index of its own, which would keep the file in memory after `cool`.
            return np.asarray(self._index.search(self._vectors(queries), k, params=parameters)[1])

        return search

    def cool(self) -> None:
        import faiss

        # The kernel keeps what is mapped.
        self._index = None
        drop_page_cache(self._lists)
        drop_page_cache(self._head)
        begun = time.perf_counter()
        self._index = faiss.read_index(str(self._head), faiss.IO_FLAG_READ_ONLY)
        self.opened_s = time.perf_counter() - begun

    def index_bytes(self) -> int:
        return self._lists.stat().st_size + self._head.stat().st_size
