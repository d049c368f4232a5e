"""`oltp`: microbenchmarks across versions: relative throughput, its causes, its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.server_records import OltpRecord
from pagehop_lab.measure import oltp
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.oltp import tables
from pagehop_lab.suites.oltp.cases import CASES, STATEMENTS
from pagehop_lab.suites.oltp.run import Sysbench
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.sql_servers import sql
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown


class Oltp(ServersSuite[OltpRecord]):
    name: ClassVar = "oltp"
    how: ClassVar = (
        "Every repeat has new servers with new data; all servers are held at once, and each test is asked of one "
        "after the other, every other time the other way round. Rates are between the first and the last time "
        "that a client said how far it was, so that no query is cut. CPU is by the clocks of the processes "
        "themselves. A figure is invalid, and compared with nothing, if a query failed, a client was busy for "
        "more than half of a core's time, or storage was read."
    )
    products: ClassVar = ("postgres", "mariadb", "mysql")
    handicaps: ClassVar = True
    limits: ClassVar = True
    statements: ClassVar = STATEMENTS
    usual: ClassVar = ServersLoad()
    ratios: ClassVar = True

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        return CASES

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        return sql(oltp.TABLE)

    def bench(self, plan: ServersPlan) -> Bench:
        return Sysbench(plan)

    def of_the_run(self, results: ServerResults[OltpRecord]) -> list[Shown]:
        return tables.of_the_run(results)

    def sections(self, results: ServerResults[OltpRecord]) -> list[Section]:
        return tables.sections(results)
