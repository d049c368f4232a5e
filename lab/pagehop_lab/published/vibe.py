"""VIBE's summary of results: one Parquet file, a row for each configuration.

`export_results.py` of that benchmark writes it, with the columns `dataset`, `algorithm`, `params`,
`k`, `recall`, `qps`, `build_time` and `index_size`. `params` are the name of the index, a bar, and
the options of the search. Recall is by distance threshold, as in ann-benchmarks. Its files with a
row for each query (`DATASET__detail.parquet`) have no throughput, and are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagehop_lab.analysis.points import Options
from pagehop_lab.published.foreign import Foreign, FormatError, number, rate_above_0, share

NAME = "VIBE"
RECALL_OF = "the same requests, by distance threshold"
_COLUMNS = ("dataset", "algorithm", "params", "k", "recall", "qps", "build_time", "index_size")


def read(path: Path) -> list[Foreign]:
    """The points of a file, in its order. FormatError for other files, or without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise FormatError(
            f"{path.name}: .parquet is read by a package that is missing: pip install pyarrow ({error})"
        ) from None
    try:
        file = parquet.ParquetFile(path)
        names = set(file.schema_arrow.names)
        missing = [name for name in _COLUMNS if name not in names]
        if missing:
            raise FormatError(f"{path.name}: no summary of {NAME}, it lacks the columns {', '.join(missing)}")
        rows = file.read(columns=list(_COLUMNS)).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise FormatError(f"{path.name}: no Parquet file: {error}") from None
    if not rows:
        raise FormatError(f"{path.name}: it has no rows")
    return [_point(path, row) for row in rows]


def _point(path: Path, row: dict[str, Any]) -> Foreign:
    k = int(number(row["k"], "k", path, 1))
    recall, qps = share(number(row["recall"], "recall", path), path), rate_above_0(row["qps"], path)
    more = {"build_s": row["build_time"], "index_kb": row["index_size"]}
    dataset, engine, params = (_text(row, name, path) for name in ("dataset", "algorithm", "params"))
    return Foreign(NAME, path.name, dataset, engine, *_options(params), k, recall, RECALL_OF, qps, more=more)


def _text(row: dict[str, Any], name: str, path: Path) -> str:
    if not isinstance(row[name], str):
        raise FormatError(f"{path.name}: {name} is {row[name]!r}, it should be a text")
    return str(row[name])


def _options(params: str) -> tuple[Options, Options]:
    """Options of the build and of the search, each one text as the file has it."""
    build, _, search = params.partition("|")
    return (("setting", build),) if build else (), (("search", search),) if search else ()
