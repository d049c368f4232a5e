"""Passages in an index file, with their texts beside it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import reduce
from operator import and_
from pathlib import Path

from debian_search.model import Float32
from debian_search.passages import Passage
from debian_search.store import Filters, Found
from pagehop import column
from pagehop_documents import Documents

COLUMNS = {"package": "text", "kind": "text", "modified": "timestamp"}


class FileStore:
    """Passages in an index file, with their texts in a file beside it."""

    def __init__(self, path: str | Path, *, write: bool) -> None:
        self._documents = Documents(path, columns=COLUMNS, write=write)

    def known(self) -> dict[str, datetime.datetime]:
        """The path of each file, with its time of modification when it was read."""
        found = {}
        for path in self._documents.sources():
            metadata = self._documents.of_source(path)[0].metadata
            found[path] = datetime.datetime.fromisoformat(metadata["modified"])
        return found

    def replace(self, paths: Sequence[str], passages: Sequence[Passage], vectors: Float32) -> None:
        """Removes the passages of the files `paths`, and adds `passages`, which are from the same
        files.
        """
        for path in paths:
            self._documents.delete_source(path)
        self._documents.add(
            [f"{passage.path}#{passage.place}" for passage in passages],
            vectors,
            [passage.text for passage in passages],
            [
                {"package": p.package, "kind": p.kind, "modified": p.modified, "title": p.title, "path": p.path}
                for p in passages
            ],
            [passage.path for passage in passages],
        )

    def finish(self) -> None:
        """Calibrates the index if it has passages and has changed since its last calibration."""
        index = self._documents.index
        if index is not None and len(index):
            measured = index.info().calibrated
            if measured is None or measured.changes:
                index.calibrate()

    def search(self, vector: Float32, k: int, filters: Filters) -> list[Found]:
        """The `k` passages nearest to a vector among those that meet the filters, nearest first."""
        conditions = []
        if filters.package is not None:
            conditions.append(column("package") == filters.package)
        if filters.kind is not None:
            conditions.append(column("kind") == filters.kind)
        if filters.since is not None:
            conditions.append(column("modified") >= filters.since)
        where = reduce(and_, conditions) if conditions else None
        return [
            Found(
                hit.metadata["path"],
                hit.metadata["title"],
                hit.text,
                datetime.datetime.fromisoformat(hit.metadata["modified"]),
                1 - hit.distance,
            )
            for hit in self._documents.search(vector, k, where=where)
        ]

    def packages(self) -> list[str]:
        """The packages of all passages, each once, in ascending order."""
        return sorted({path.partition("/")[0] for path in self._documents.sources() if "/" in path})

    def close(self) -> None:
        """Closes the store."""
        self._documents.close()
