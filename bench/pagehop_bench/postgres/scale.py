"""How much is measured: the size of every measurement in PostgreSQL, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagehop_bench.datasets import DATA


@dataclass(frozen=True)
class Scale:
    """Rows, queries, seconds and repeats; `smoke` takes a minute."""

    folder: Path = field(default_factory=lambda: DATA / "bench" / "postgres")
    """Where vectors, queries and truth lie. The servers' data are in the temporary folder."""
    sets: tuple[str, ...] = ("fashion-mnist",)
    """fashion-mnist, generated-768, generated-1536: any number of dimensions."""
    rows: int | None = None
    """Rows of each set; without it 60,000 pictures, and 100,000 that are generated."""
    queries: int = 2_000
    """Different queries. A timed run asks all of them, once or several times."""
    seconds: float = 3.0
    """Least seconds of a timed run, about."""
    repeats: int = 3
    """Times that each setting of a search is timed, and that each cold start is made."""
    build_repeats: int = 1
    """Times that each index is built."""
    inserted: int = 4_000
    """Rows that are inserted in each way."""
    clients: int = 8
    """Connections of the insertion with many."""
    updated: int = 10_000
    """Rows that are updated in one statement."""
    cold_queries: int = 50
    """First queries after a start."""
    cold_recall: float = 0.98
    """Recall@10 that a cold search must have."""
    cold_buffers: str = "32MB"
    """shared_buffers of a cold server: far less than an index."""

    def as_json(self) -> dict[str, Any]:
        """Everything that decides a figure, for the results file; where it lay does not."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}


def smoke(folder: Path) -> Scale:
    """Everything in miniature: shows that the measurements run, says nothing about speed."""
    return Scale(
        folder=folder,
        rows=2_000,
        queries=100,
        seconds=0.1,
        repeats=2,
        inserted=100,
        updated=200,
        cold_queries=20,
        cold_recall=0.9,
        cold_buffers="1MB",
    )
