"""The files of a set: plain .npy arrays that any program can map, and about.json.

`about.json` says what they are. A set is a folder:

| file | shape | type |
|---|---|---|
| `rows.npy` | rows x dim | float32 or float16 |
| `queries.npy` | queries x dim | as the rows |
| `truth-METRIC-ids.npy` | queries x depth, nearest first, ties in order of row | int32 |
| `truth-METRIC-distances.npy` | the same; `l2` is squared, `ip` is the negated product | float64 |
| `columns/NAME.npy` | rows | an integer or a float |
| `about.json` | metrics, the checksum, sources, and the names behind the numbers of a column | |

The folder gets its name when all of it is written. A set is made once, and read by name afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.real.sources import Say
from pagehop_lab.data.truth import neighbors

Array = npt.NDArray[Any]

_AT_ONCE = 16384
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True)
class Column:
    """A value for each row, to filter by."""

    values: Array
    names: list[str] | None = None
    """The names that the values stand for, if they are numbers of names."""


@dataclass(frozen=True)
class Content:
    """The content of a set; rows come in blocks, so that a set may be larger than memory."""

    count: int
    blocks: Iterable[Array]
    queries: Array
    metrics: tuple[str, ...]
    """The metrics with a truth, the main one first: `l2`, `ip`."""
    sources: dict[str, Any]
    columns: dict[str, Column] = field(default_factory=dict)


def make(folder: Path, name: str, content: Callable[[], Content], say: Say) -> dict[str, Any]:
    """The set in `folder`, made if it is missing, and the content of its about.json."""
    if not (folder / "about.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{_UNFINISHED}{folder.name}-"))
        try:
            _fill(scratch, name, content(), say)
            scratch.chmod(0o755)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    found: dict[str, Any] = json.loads((folder / "about.json").read_text())
    return found


def _fill(folder: Path, name: str, content: Content, say: Say) -> None:
    dim, kind = content.queries.shape[1], content.queries.dtype
    rows = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=kind, shape=(content.count, dim))
    start = 0
    for block in content.blocks:
        block = block[: content.count - start]
        rows[start : start + len(block)] = block
        start += len(block)
    assert start == content.count, f"{name} should have {content.count} rows and has {start}"
    rows.flush()
    np.save(folder / "queries.npy", content.queries)
    (folder / "columns").mkdir()
    for column, of in content.columns.items():
        assert len(of.values) == content.count, f"column {column} should have {content.count} values"
        np.save(folder / "columns" / f"{column}.npy", of.values)
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    for metric in content.metrics:
        say(f"{name}: exact neighbors under {metric}")
        ids, distances = neighbors(rows, content.queries, metric)
        np.save(folder / f"truth-{metric}-ids.npy", ids.astype(np.int32))
        np.save(folder / f"truth-{metric}-distances.npy", distances)
    about = {
        "name": name,
        "rows": content.count,
        "queries": len(content.queries),
        "dim": dim,
        "type": str(kind),
        "metrics": content.metrics,
        "checksum": checksum(rows, content.queries),
        "sources": content.sources,
        "columns": {
            column: {"type": str(of.values.dtype), "names": of.names} for column, of in content.columns.items()
        },
    }
    (folder / "about.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")


def checksum(*arrays: Array) -> str:
    """A checksum of the values; it differs between processors if the last bit of a vector does."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        for start in range(0, len(array), _AT_ONCE):
            digest.update(np.ascontiguousarray(array[start : start + _AT_ONCE]).data)
    return digest.hexdigest()[:16]


def write_fbin(folder: Path) -> None:
    """Writes a finished set as `train.fbin`, `test.fbin` and `truth.ibin` beside the arrays."""
    metric = json.loads((folder / "about.json").read_text())["metrics"][0]
    sources = ("rows", "queries", f"truth-{metric}-ids")
    write_as_fbin(folder, *(np.load(folder / f"{source}.npy", mmap_mode="r") for source in sources))


def write_as_fbin(folder: Path, rows: Array, queries: Array, truth_ids: Array) -> None:
    """Writes `train.fbin` and `test.fbin` (float32) and `truth.ibin` (int32).

    Each file starts with two int32: rows and dim.
    """
    for name, values in [("train.fbin", rows), ("test.fbin", queries), ("truth.ibin", truth_ids)]:
        unfinished = folder / f".{name}-{os.getpid()}"
        with unfinished.open("wb") as file:
            np.array(values.shape, dtype=np.int32).tofile(file)
            for start in range(0, len(values), _AT_ONCE):
                values[start : start + _AT_ONCE].astype(np.float32 if name.endswith(".fbin") else np.int32).tofile(file)
        unfinished.replace(folder / name)
