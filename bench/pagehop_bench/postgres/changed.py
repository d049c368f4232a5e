"""What a change costs a server: the clock, CPU, and bytes of write-ahead log with and without images of pages."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devserver.processes import environment
from pagehop_bench.postgres import tables
from pagehop_bench.postgres.servers import Running

# `Total`, records, bytes of records and bytes of images of pages, each with a share in brackets.
_TOTAL = re.compile(r"^Total\s+(\d+)\s+(\d+) \[[^]]*\]\s+(\d+) \[[^]]*\]\s+(\d+) \[", re.MULTILINE)


@contextmanager
def metered(served: Running, rows: int) -> Iterator[dict[str, Any]]:
    """Fills in what was spent inside, in all and for each of `rows`. A checkpoint was made just before."""
    served.connection.execute("CHECKPOINT")
    spent: dict[str, Any] = {"rows": rows}
    wal, cpu, begun = served.wal_position(), served.usage().cpu_s, time.perf_counter()
    yield spent
    spent["wall_s"] = time.perf_counter() - begun
    spent["cpu_s"] = served.usage().cpu_s - cpu
    spent["wal_bytes"] = int(tables.one(served.connection, f"SELECT pg_current_wal_insert_lsn() - '{wal}'"))
    spent |= _log_from(served, wal)
    spent["rows_per_s"] = rows / spent["wall_s"]
    for name in [name for name in spent if name.endswith("_bytes")]:
        spent[f"{name}_per_row"] = spent[name] / rows
    spent["cpu_us_per_row"] = 1e6 * spent["cpu_s"] / rows


def _log_from(served: Running, start: str) -> dict[str, int]:
    """Records, their bytes, and the bytes of whole pages among them, of the log from `start` on."""
    # What is not written yet cannot be read.
    served.connection.execute("SELECT pg_switch_wal()")
    end = str(tables.one(served.connection, "SELECT pg_current_wal_flush_lsn()"))
    done = subprocess.run(
        [
            served.cluster.server.bin / "pg_waldump", "--stats", "--start", start, "--end", end,
            "--path", served.cluster.data / "pg_wal",
        ],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"pg_waldump from {start} to {end} failed: {done.stderr.strip()}")
    return read_totals(done.stdout)


def read_totals(said: str) -> dict[str, int]:
    """The last line of `pg_waldump --stats`."""
    found = _TOTAL.search(said)
    if found is None:
        raise RuntimeError(f"pg_waldump did not say how much there is: {said[-300:]}")
    records, record_bytes, image_bytes, _ = map(int, found.groups())
    return {"wal_records": records, "wal_record_bytes": record_bytes, "wal_image_bytes": image_bytes}
