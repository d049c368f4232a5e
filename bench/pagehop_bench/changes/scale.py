"""How much is measured: the size of every measurement of changes, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagehop_bench.datasets import DATA

_MIB = 2**20


@dataclass(frozen=True)
class Scale:
    """Rows, repeats and limits. The defaults take about an hour on two cores; `smoke` takes seconds."""

    folder: Path = field(default_factory=lambda: DATA / "bench" / "changes")
    """Where indexes and the server lie: one disk for all."""
    dim: int = 768
    """Components of the generated vectors."""
    rows: int = 100_000
    """Rows built before anything changes."""
    added: int = 100_000
    """Rows added afterwards."""
    batch: int = 100
    """Rows of one add, which is durable when it returns."""
    repeats: int = 3
    seconds: float = 120.0
    """Most seconds that pgvector adds rows in one repeat."""
    peer: bool = True
    """Whether pgvector is measured."""
    tried: int = 2_000
    """Rows added by each of pgvector's ways, to choose the faster."""
    searches: int = 20_000
    """Single searches of one latency figure."""
    checked: int = 500
    """Queries with exact neighbors, to tell what was added can be found."""
    rounds: int = 10
    """Rounds of deleting and adding back."""
    share: float = 0.1
    """Part of the rows that a round deletes."""
    sets: tuple[str, ...] = ("fashion-mnist", "generated")
    """Sets of the rounds and of replacing; `generated` has `rows` rows of `dim` components."""
    vacuumed: float = 0.01
    """Part of the rows that is deleted before the measured vacuum."""
    log_bytes: int = 256 * _MIB
    """Bytes of log that a killed writer leaves behind, nearly."""

    def as_json(self) -> dict[str, Any]:
        """Everything that decides a figure, for the results file; where it lay does not."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    def new(self, name: str) -> Path:
        """The path of a file in the folder, which exists afterwards; the file does not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        for old in files_of(path):
            old.unlink()
        return path


def smoke(folder: Path) -> Scale:
    """Everything in miniature: shows that the measurements run, says nothing about speed."""
    return Scale(
        folder=folder,
        dim=32,
        rows=2_000,
        added=1_000,
        batch=50,
        repeats=2,
        seconds=2.0,
        tried=100,
        searches=300,
        checked=100,
        rounds=2,
        sets=("generated",),
        log_bytes=_MIB // 8,
    )


def files_of(path: Path) -> list[Path]:
    """An index file and whatever lies beside it under its name."""
    return sorted(path.parent.glob(f"{path.name}*"))


def bytes_of(path: Path) -> int:
    """Bytes of an index file and of what lies beside it."""
    return sum(file.stat().st_size for file in files_of(path))
