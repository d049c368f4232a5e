"""Parquet files on the command line, compared with the same tables in Python."""

from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import clustered

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 300
PAGE_BYTES = 8192
COMPRESSIONS = ("none", "snappy", "gzip", "lz4", "zstd")
"""All compressions of pyarrow except Brotli, which the command does not read."""


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    some = rng.uniform(size=ROWS) < 0.2
    return {
        "small": pa.array(rng.integers(-128, 128, ROWS), pa.int8()),
        "large": pa.array(rng.integers(0, 2**63, ROWS, dtype=np.uint64), pa.uint64(), mask=some),
        "unsigned": pa.array(rng.integers(0, 2**32, ROWS), pa.uint32()),
        "half": pa.array(rng.standard_normal(ROWS).astype(np.float16), pa.float16()),
        "single": pa.array(rng.standard_normal(ROWS), pa.float32(), mask=some),
        "double": pa.array(np.where(some, np.nan, rng.standard_normal(ROWS))),
        "flag": pa.array(rng.uniform(size=ROWS) < 0.5, mask=some),
    }


def times() -> dict[str, Any]:
    rng = np.random.default_rng(6)
    some = rng.uniform(size=ROWS) < 0.2
    seconds = rng.integers(-(2**31), 2**31, ROWS)
    parts = rng.integers(0, 10**9, ROWS)
    return {
        "day": pa.array(rng.integers(-10000, 30000, ROWS).astype(np.int32), pa.date32(), mask=some),
        "s": pa.array(seconds, pa.timestamp("s")),
        "ms": pa.array(seconds * 1000 + parts % 1000, pa.timestamp("ms", tz="Europe/Berlin"), mask=some),
        "us": pa.array(seconds * 10**6 + parts % 10**6, pa.timestamp("us"), mask=some),
        "ns": pa.array(seconds * 10**9 + parts, pa.timestamp("ns", tz="UTC")),
        "day64": pa.array(rng.integers(-10000, 30000, ROWS) * 86_400_000, pa.date64()),
    }


def texts() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    of = [None, "", "red", "é" * 40, "x" * 100_000]
    names = [of[i] for i in rng.integers(0, len(of), ROWS)]
    words = ["new", "used", "red", "a, b", "é"]
    labels = [None if i == 0 else words[: i - 1] for i in rng.integers(0, 7, ROWS)]
    some = [None if i == 0 else uuid.UUID(int=int(i)).bytes for i in rng.integers(0, 5, ROWS)]
    return {
        "name": pa.array(names, pa.string()),
        "large": pa.array(names, pa.large_string()),
        "dictionary": pa.array(names).dictionary_encode(),
        "labels": pa.array(labels, pa.list_(pa.string())),
        "large_labels": pa.array(labels, pa.large_list(pa.string())),
        "fixed": pa.array(some, pa.binary(16)),
        "bytes": pa.array(some, pa.binary()),
    }


def command(path: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["pagehop", *map(str, words)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def items(tmp_path: Path) -> Path:
    np.save(tmp_path / "items.npy", clustered(seed=7, rows=ROWS))
    return tmp_path / "items.npy"


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("columns", [numbers, times, texts])
def test_a_file_gives_the_index_that_its_table_gives(
    columns: Any, compression: str, items: Path, tmp_path: Path, command_path: str
) -> None:
    file, with_command = tmp_path / "columns.parquet", tmp_path / "of-command"
    version = "2.0" if compression in ("zstd", "gzip") else "1.0"
    pq.write_table(pa.table(columns()), file, compression=compression, row_group_size=130, data_page_version=version)
    table = pq.read_table(file)
    with pagehop.build(tmp_path / "of-python", np.load(items), columns=table) as index:
        kinds = index.columns
    done = command(command_path, "build", items, "-o", with_command, "--columns", file, "--quiet")
    assert done.returncode == 0, done.stderr
    with pagehop.open(with_command) as index:
        assert index.columns == kinds
    # Page 0 has a random identity.
    assert with_command.read_bytes()[PAGE_BYTES:] == (tmp_path / "of-python").read_bytes()[PAGE_BYTES:]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([decimal.Decimal("1.5")] * ROWS), "has decimals"),
        (pa.array([{"a": 1}] * ROWS), "has structs"),
        (pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())), "has maps"),
        (pa.array([[["a"]]] * ROWS), "has lists of lists"),
        (pa.array([[1, 2]] * ROWS), "tags are texts"),
        (pa.array([["a", None]] * ROWS), "row 0, column"),
        (pa.array([datetime.time(1, 2)] * ROWS), "has times of day"),
        (pa.array([b"abc"] * ROWS), "a UUID has 16"),
        (pa.array([2**63] * ROWS, pa.uint64()), "9223372036854775808 is above 2**63 - 1"),
    ],
)
def test_what_python_refuses_the_command_refuses_too(
    column: Any, said: str, items: Path, tmp_path: Path, command_path: str
) -> None:
    file = tmp_path / "columns.parquet"
    pq.write_table(pa.table({"x": column}), file)
    with pytest.raises(pagehop.ArgumentError):
        pagehop.build(tmp_path / "of-python", np.load(items), columns=pq.read_table(file))
    done = command(command_path, "build", items, "-o", tmp_path / "x", "--columns", file, "--quiet")
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"error: {file}: ")
    assert 'column "x"' in done.stderr
    assert said in done.stderr


def test_brotli_is_refused_with_a_remedy(items: Path, tmp_path: Path, command_path: str) -> None:
    file = tmp_path / "columns.parquet"
    pq.write_table(pa.table({"x": range(ROWS)}), file, compression="brotli")
    done = command(command_path, "build", items, "-o", tmp_path / "x", "--columns", file, "--quiet")
    assert done.returncode == 1
    assert 'column "x" is compressed with Brotli, which is not read: write it with compression=' in done.stderr
