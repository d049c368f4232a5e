"""`point-reads`: point reads of data larger than memory, by page size, access and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.load_verdicts import TIMES_MIN
from pagehop_lab.plan.choices import combinations
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import Options, ServersPlan
from pagehop_lab.plan.tables import PlanError, Table, choose
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.point_reads import run, tables
from pagehop_lab.suites.point_reads.cases import HANDLER, SELECT, ReadCase, read_cases
from pagehop_lab.suites.point_reads.plan import (
    EMBEDDED,
    HAVE_HANDLER,
    OPTIONS,
    TEXT_BYTES,
    PointLoad,
    needed_bytes_each,
)
from pagehop_lab.suites.point_reads.records import ReadRecord
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.table import Section


class PointReads(ServersSuite[ReadRecord]):
    name: ClassVar = "point-reads"
    how: ClassVar = (
        "Rows are read by their keys, uniformly at random, by sysbench from servers and by a program of ours from "
        "stores. Each measurement begins with a server that was just started, within a limit of memory that the "
        "kernel's cache of its files is part of, and with nothing in any cache; it is asked until its rates have "
        "settled, and then measured. Data are on a file system of their own, so the disk's counters count no "
        "other process. A figure is invalid if it did not settle, hardly anything came from storage, or a client was "
        "busy for more than half of a core's time."
    )
    products: ClassVar = tuple(OPTIONS)
    takes_url: ClassVar = False
    usual: ClassVar[ServersLoad] = PointLoad()

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        assert isinstance(load, PointLoad)
        return read_cases(load.sessions, load.read_ahead_kib, load.more_memory_mib, load.statements)

    def read(self, text: str, name: str) -> ServersPlan:
        """The plan of a text. Only servers that have HANDLER are asked by it."""
        plan = super().read(text, name)
        others = tuple(case.name for case in plan.cases if isinstance(case, ReadCase) and case.statement == SELECT)
        if len(others) == len(plan.cases):
            return plan
        servers = [one if one.product in HAVE_HANDLER else replace(one, cases=others) for one in plan.servers]
        if not any(one.product in HAVE_HANDLER for one in servers):
            raise PlanError(f"load.statements: no server of this plan has HANDLER, only {' and '.join(HAVE_HANDLER)}")
        return replace(plan, servers=tuple(servers))

    def load(self, table: Table) -> ServersLoad:
        known = PointLoad()
        common: dict[str, Any] = {
            "sessions": table.take_list("sessions", int, known.sessions, least=1),
            "seconds": table.take("seconds", float, known.seconds, least=0.2),
            "repeats": table.take("repeats", int, known.repeats, least=1),
            "load_timeout_s": table.take("load_timeout_s", float, known.load_timeout_s, least=1),
        }
        memories = table.take_list("memory_mib", int, (known.memory_mib,), least=32)
        statements = table.take_list("statements", str, known.statements)
        for statement in statements:
            choose(table.at("statements"), statement, (SELECT, HANDLER))
        load = PointLoad(
            **common,
            rows=table.take("rows", int, known.rows, least=1000),
            row_bytes=table.take("row_bytes", int, known.row_bytes, least=TEXT_BYTES),
            read_ahead_kib=table.take_list("read_ahead_kib", int, known.read_ahead_kib, least=0),
            memory_mib=memories[0],
            more_memory_mib=memories[1:],
            statements=statements,
            settle_max_s=table.take("settle_max_s", float, known.settle_max_s, least=1),
        )
        table.refuse_unknown()
        if load.row_bytes % TEXT_BYTES:
            raise PlanError(f"{table.at('row_bytes')} = {load.row_bytes}: a multiple of {TEXT_BYTES} is needed")
        data, memory = load.rows * load.row_bytes, max(memories) << 20
        if data < TIMES_MIN * memory:
            rows = int(TIMES_MIN * memory / load.row_bytes) + 1
            raise PlanError(
                f"{table.at('rows')} = {load.rows}: that is {data / memory:.1f} times memory_mib, and {TIMES_MIN:g} is "
                f"the least: {rows} rows, or less memory"
            )
        return load

    def usual_versions(self, product: str) -> tuple[str, ...]:
        return ("",) if product in EMBEDDED else ()

    def options(self, table: Table, product: str) -> list[Options]:
        return combinations(table.take_table("options"), OPTIONS[product])

    def needed_bytes(self, plan: ServersPlan) -> int:
        return needed_bytes_each(plan.load) * len(plan.servers)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        return {name: run.StoredProduct(plan, name) for name in self.products}

    def bench(self, plan: ServersPlan) -> Bench:
        return run.PointReads(plan)

    def sections(self, results: ServerResults[ReadRecord]) -> list[Section]:
        return tables.sections(results)
