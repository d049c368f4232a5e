"""`inserts`: the steps of the Insert Benchmark, absolute and relative, and what each second did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import StepRecord
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.plan.tables import Table
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.compared import CPU, CREATE_INDEX, DATA, LOADED, RATE, WRITTEN, Compared
from pagehop_lab.suites.inserts import run, sales, tables
from pagehop_lab.suites.inserts.cases import STEPS
from pagehop_lab.suites.inserts.plan import InsertsLoad, commit_rows
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.sql_servers import sql
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown

CLEANING = {"autovacuum": "on", "autovacuum_naptime": "5s"}
"""Dead rows are cleaned up during the measurement, as on a server in production."""


class Inserts(ServersSuite[StepRecord]):
    name: ClassVar = "inserts"
    how: ClassVar = (
        "Every server has new data, three secondary indexes, and clients in processes of their own: one inserts, "
        "one deletes as much, one asks. A figure is invalid, and compared with nothing, if anything failed, a "
        "client was busy for more than half of a core's time, less than 95% of the rows were written, an index "
        "was not used, or an answer was empty."
    )
    products: ClassVar = ("postgres", "mariadb", "mysql")
    limits: ClassVar = True
    usual: ClassVar[ServersLoad] = InsertsLoad()
    ratios: ClassVar = True
    compared_loads: ClassVar = (LOADED, CREATE_INDEX, DATA)

    def load(self, table: Table) -> ServersLoad:
        found = InsertsLoad(**self.common_load(table), commit_rows=commit_rows(table))
        table.refuse_unknown()
        return found

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        return STEPS

    def compared(self, case: str) -> Sequence[Compared[StepRecord]]:
        return (RATE, CPU, WRITTEN) if case.startswith("l.") else (RATE, CPU)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        return sql(sales.TABLE, **CLEANING)

    def bench(self, plan: ServersPlan) -> Bench:
        return run.Inserts(plan)

    def of_the_run(self, results: ServerResults[StepRecord]) -> list[Shown]:
        return tables.of_the_run(results)

    def sections(self, results: ServerResults[StepRecord]) -> list[Section]:
        return tables.sections(results)
