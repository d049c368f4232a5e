"""Rows for point reads: the same texts in every table and store, and the read counters."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from devserver import innodb
from pagehop_lab.measure.oltp import MeasureError, ending
from pagehop_lab.measure.processes import cpu_seconds

# Servers' counters of reads from storage, by their own names.
_POSTGRES = (
    "SELECT sum(reads) FILTER (WHERE object = 'relation'), sum(read_bytes) FILTER (WHERE object = 'relation') "
    "FROM pg_stat_io"
)
_POSTGRES_OLD = "SELECT blks_read FROM pg_stat_database WHERE datname = current_database()"
_INNODB = ("Innodb_data_reads", "Innodb_data_read", "Innodb_pages_read", "Innodb_buffer_pool_reads")
_READ_IO_FROM = 18
_CEILING_S = 0.5


def load(server: Any, rows: int, row_bytes: int, timeout_s: float) -> float:
    """Makes the table of a server, rows 1 to `rows`; returns the seconds that it took."""
    begun = time.monotonic()
    if server.sysbench_options()[0].endswith("pgsql"):
        text = _text("||", "md5({row} || '.{part}')", "id", row_bytes)
        server.execute(
            "CREATE TABLE sbtest1 (id integer PRIMARY KEY, c text NOT NULL)",
            "ALTER TABLE sbtest1 ALTER c SET STORAGE PLAIN",
            f"SET statement_timeout = {int(timeout_s * 1000)}",
            f"INSERT INTO sbtest1 SELECT id, {text} FROM generate_series(1, {rows}) id",
        )
        return time.monotonic() - begun
    _load_innodb(server, rows, row_bytes, begun + timeout_s)
    return time.monotonic() - begun


def _load_innodb(server: Any, rows: int, row_bytes: int, late: float) -> None:
    """Doubles the number of rows with each statement."""
    digest = _digest(server.program)
    server.execute(f"CREATE TABLE sbtest1 (id INTEGER NOT NULL PRIMARY KEY, c VARCHAR({row_bytes}) NOT NULL)")
    server.execute(f"INSERT INTO sbtest1 VALUES (1, {_text(',', digest, '1', row_bytes)})")
    have = 1
    while have < rows:
        if time.monotonic() > late:
            raise MeasureError(f"of {rows} rows only {have} were loaded in time")
        more = min(have, rows - have, _AT_ONCE)
        text = _text(",", digest, f"(id + {have})", row_bytes)
        server.execute(
            # Locks of the rows that are read would not fit in a small cache.
            "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            f"INSERT INTO sbtest1 SELECT id + {have}, {text} FROM sbtest1 WHERE id <= {more}",
        )
        have += more


_AT_ONCE = 1 << 16


def _digest(program: innodb.Program) -> str:
    """SQL for 32 digits.

    MySQL has no MD5 from 9.6 on, so 9 has other texts, just as long and random.
    """
    is_without = program.product == "mysql" and int(program.version.partition(".")[0]) >= 9
    return "LEFT(SHA2(CONCAT({row}, '.{part}'), 256), 32)" if is_without else "MD5(CONCAT({row}, '.{part}'))"


def _text(between: str, digest: str, row: str, row_bytes: int) -> str:
    """SQL of a row's text, as `embedded.text_of` makes it."""
    parts = between.join(digest.format(row=row, part=part) for part in range(row_bytes // 64))
    return f"repeat({parts if between == '||' else f'CONCAT({parts})'}, 2)"


def load_embedded(command: Sequence[str], timeout_s: float) -> float:
    """Fills a store; returns the seconds that it took."""
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise MeasureError(f"the rows were not loaded in {timeout_s:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"{ending(done.returncode)} and said nothing"]
        raise MeasureError(f"the rows could not be loaded: {said[-1][:600]}")
    return time.monotonic() - begun


def client_us(command: Sequence[str]) -> float:
    """CPU microseconds of one turn of the client's loop without a store."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        counts, cpu = [], []
        for line in process.stdout:
            words = line.split()
            counts.append(int(words[3]))
            cpu.append(cpu_seconds(process.pid))
            if len(counts) * 0.1 >= _CEILING_S:
                return (cpu[-1] - cpu[0]) / max(counts[-1] - counts[0], 1) * 1e6
    finally:
        process.kill()
        process.communicate()
    raise MeasureError("the client ended before it was measured")


def counters(server: Any) -> dict[str, float]:
    """A server's counters of its reads, by its own names."""
    if not server.sysbench_options()[0].endswith("pgsql"):
        listed = ", ".join(f"'{name}'" for name in _INNODB)
        return {
            name: float(value)
            for name, value in server.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
        }
    major = int(re.split(r"\D", server.server.version)[0])
    if major >= _READ_IO_FROM:
        ((reads, read_bytes),) = server.execute(_POSTGRES)
        return {"pg_stat_io reads": float(reads or 0), "pg_stat_io read_bytes": float(read_bytes or 0)}
    return {"blks_read": float(server.execute(_POSTGRES_OLD)[0][0])}
