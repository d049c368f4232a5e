"""Where passages are kept, and what a store can do, whichever it is."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from debian_search.model import Float32
from debian_search.passages import Passage


@dataclass(frozen=True)
class Filters:
    """What passages have to meet; None lets all through."""

    package: str | None = None
    kind: str | None = None
    since: datetime.date | None = None
    """Files changed on this day or later."""


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
    """Passages and their vectors."""

    def known(self) -> dict[str, datetime.datetime]:
        """The paths of all files, with the time at which each was changed when it was read."""

    def replace(self, paths: Sequence[str], passages: Sequence[Passage], vectors: Float32) -> None:
        """Removes the passages of these files, and adds these, which are of the same files."""

    def finish(self) -> None:
        """Is called after the last change of an ingestion."""

    def search(self, vector: Float32, k: int, filters: Filters) -> list[Found]:
        """The `k` passages nearest to a vector among those that pass the filters, nearest first."""

    def packages(self) -> list[str]:
        """The packages that passages are of, in order."""

    def close(self) -> None:
        """Closes the store."""
