"""The interface of a store of passages, and the types that it uses."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from debian_search.model import Float32
from debian_search.passages import Passage


@dataclass(frozen=True)
class Filters:
    """Conditions on passages; None allows all values."""

    package: str | None = None
    kind: str | None = None
    since: datetime.date | None = None
    """Only files that were changed on this day or later."""


@dataclass(frozen=True)
class Found:
    """A passage that a search found."""

    path: str
    title: str
    text: str
    modified: datetime.datetime
    similarity: float
    """The cosine of the query and the passage."""


class StoreError(Exception):
    """A store cannot be opened."""


class Store(Protocol):
    """Passages and their vectors, in a file or in PostgreSQL."""

    def known(self) -> dict[str, datetime.datetime]:
        """The path of each file, with its time of modification when it was read."""

    def replace(self, paths: Sequence[str], passages: Sequence[Passage], vectors: Float32) -> None:
        """Removes the passages of the files `paths`, and adds `passages`, which are from the same
        files.
        """

    def finish(self) -> None:
        """Completes the store. It is called once, at the end of an ingestion."""

    def search(self, vector: Float32, k: int, filters: Filters) -> list[Found]:
        """The `k` passages nearest to a vector among those that meet the filters, nearest first."""

    def packages(self) -> list[str]:
        """The packages of all passages, each once, in ascending order."""

    def close(self) -> None:
        """Closes the store."""
