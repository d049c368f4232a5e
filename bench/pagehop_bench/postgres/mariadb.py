"""Searches in MariaDB's vector index beside ours and pgvector's, in servers that run at the same time.

Whole servers are compared at equal recall, as their users meet them: a prepared statement, a vector in binary, ten ids.
Everything is in memory, MariaDB's index in a cache of its own. All sides are timed in turns on one core, by the same
client; "above base" takes off what each server needs to return ten rows of the same table in the order of its key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from devserver import Server
from devserver.processes import server_owner
from labservers import mariadb
from labservers.mariadb import Instance
from pagehop_bench.datasets import Dataset
from pagehop_bench.measure import K
from pagehop_bench.postgres import qps, sets, tables
from pagehop_bench.postgres.figures import TARGETS
from pagehop_bench.postgres.loadgen import Asked
from pagehop_bench.postgres.scale import Scale
from pagehop_bench.postgres.servers import memory_for, on_one_core, running
from pagehop_bench.postgres.tables import SIDES, Family
from pagehop_bench.report import Report

EF_SEARCH = Family("mhnsw_ef_search", (10, 15, 20, 30, 40, 60, 80, 120, 200, 400))
# All that an answer needs is in memory. A new thread for each connection runs where the first thread does.
SETTINGS = {
    "innodb_buffer_pool_size": "3G",
    "innodb_log_file_size": "2G",
    "mhnsw_max_cache_size": "4G",
    "thread_cache_size": "0",
}
_SHOWN = [*SETTINGS, "innodb_page_size", "innodb_flush_log_at_trx_commit", "thread_handling", "version"]
_ROWS_AT_ONCE = 5_000


@dataclass(frozen=True)
class MariaSide:
    """A vector index of MariaDB with one `M`, on a table of its own."""

    m: int

    @property
    def name(self) -> str:
        return f"mariadb M={self.m}"

    @property
    def table(self) -> str:
        return f"items_m{self.m}"

    @property
    def index(self) -> str:
        return f"{self.table}_embedding"

    @property
    def search(self) -> str:
        """The statement that is measured."""
        return f"SELECT id FROM {self.table} ORDER BY VEC_DISTANCE_EUCLIDEAN(embedding, ?) LIMIT 10"

    @property
    def base(self) -> str:
        """As many rows of the same table without a search."""
        return f"SELECT id FROM {self.table} ORDER BY id LIMIT 10"


AnySide = tables.Side | MariaSide
MARIADB = (MariaSide(8), MariaSide(16))


def run(report: Report, scale: Scale, server: Server, name: str) -> None:
    """Measures one set."""
    begun = time.perf_counter()
    dataset = sets.load(name, scale)
    files = sets.export(dataset, scale, K)
    installed = mariadb.install()
    report.say(
        f"mariadb {name}: {len(dataset.base):,} x {dataset.dim}, {len(dataset.queries):,} queries; "
        f"MariaDB {installed.version} beside Postgres {server.version}"
    )
    with running(server, **memory_for(dataset.base)) as served, Instance(installed, SETTINGS) as instance:
        told: dict[str, Any] = {"server": served.about(), "mariadb": _about(instance)}
        told["build"] = {side.name: _make(report, instance, side, dataset) for side in MARIADB}
        qps.make(report, served, dataset)
        sides: list[AnySide] = [*SIDES, *MARIADB]
        settings = _in_turns(sides)
        with on_one_core(served.cluster), on_one_core(instance):

            def asking(side: AnySide, family: Family, value: float, count: int) -> Asked:
                server = instance if isinstance(side, MariaSide) else served.cluster
                return qps.search(server, files, side, family, value, count)

            def base_of(side: AnySide) -> Asked:
                return qps.base(instance if isinstance(side, MariaSide) else served.cluster, scale, side)

            base, swept = qps.timed(report, scale, settings, asking, base_of)
    told["searches"] = qps.as_json(base, swept)
    qps.say_sweep(report, name, base, swept)
    qps.say_targets(report, name, TARGETS, base, swept)
    theirs = {side.name for side in MARIADB}
    raced = [one for one in swept if one.side in theirs or one.side == tables.PAGEHOP.name]
    for target in TARGETS:
        report.add(qps.compared(f"QPS over MariaDB, {name}", target, base, raced, "mariadb"))
    report.extra[f"mariadb {name}"] = told
    report.say(f"mariadb {name}: {time.perf_counter() - begun:.0f} s")


def _in_turns(sides: Sequence[AnySide]) -> list[tuple[AnySide, Family, float]]:
    """Every setting of every side, the sides in turns: what disturbs the machine for minutes disturbs them all."""
    each = [[(side, family, value) for value in family.values] for side in sides for family in _families(side)]
    return [setting for turn in zip_longest(*each) for setting in turn if setting is not None]


def _families(side: AnySide) -> tuple[Family, ...]:
    return (EF_SEARCH,) if isinstance(side, MariaSide) else side.families


def _make(report: Report, instance: Instance, side: MariaSide, dataset: Dataset) -> dict[str, float]:
    """Fills a table, ids from 0, and indexes it; what that took."""
    instance.sql(
        f"DROP TABLE IF EXISTS {side.table}; "
        f"CREATE TABLE {side.table} (id bigint PRIMARY KEY, embedding vector({dataset.dim}) NOT NULL)"
    )
    begun = time.perf_counter()
    _load(instance, side, dataset)
    loaded = time.perf_counter()
    instance.sql(f"ALTER TABLE {side.table} ADD VECTOR INDEX {side.index} (embedding) M={side.m} DISTANCE=euclidean")
    built = time.perf_counter()
    instance.sql(f"ANALYZE TABLE {side.table}")
    space = f"SELECT file_size FROM information_schema.innodb_sys_tablespaces WHERE name = 'lab/{side.table}#i#01'"
    size = int(instance.sql(space))
    report.say(f"  {side.name}: built in {built - loaded:.0f} s, index of {size / 1e6:,.0f} MB")
    return {"load_s": loaded - begun, "build_s": built - loaded, "index_bytes": size}


def _load(instance: Instance, side: MariaSide, dataset: Dataset) -> None:
    """Brings the rows in through files of hexadecimal digits: LOAD DATA knows no bytes without an escape."""
    path = instance.folder / "rows"
    for first in range(0, len(dataset.base), _ROWS_AT_ONCE):
        part = np.ascontiguousarray(dataset.base[first : first + _ROWS_AT_ONCE], dtype="<f4")
        path.write_text("".join(f"{first + number}\t{row.tobytes().hex()}\n" for number, row in enumerate(part)))
        server_owner().own(path)
        instance.sql(f"LOAD DATA INFILE '{path}' INTO TABLE {side.table} (id, @digits) SET embedding = UNHEX(@digits)")
    path.unlink()


def _about(instance: Instance) -> dict[str, str]:
    """The settings that decide, as the server says them."""
    said = instance.sql("SELECT " + ", ".join(f"@@{name}" for name in _SHOWN))
    return dict(zip(_SHOWN, said.split("\t"), strict=True))
