"""`log-writes`: write amplification of logs, by formulas and by a ledger of all writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pagehop_lab.analysis.case import Case
from pagehop_lab.plan.choices import combinations
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import Options, ServersPlan
from pagehop_lab.plan.tables import Table
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.log_writes import plan as plans
from pagehop_lab.suites.log_writes import run, tables
from pagehop_lab.suites.log_writes.plan import OPTIONS, LogLoad
from pagehop_lab.suites.log_writes.records import CommitsRecord
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.table import Section


class LogWrites(ServersSuite[CommitsRecord]):
    name: ClassVar = "log-writes"
    how: ClassVar = (
        "Clients insert one row in each commit, by sysbench. Each log is on a file system of its own, a file that "
        "is a disk, so its disk is given nothing else. Bytes are counted from before the clients connect until "
        "after they are gone, by the server, by the kernel for the server's processes, and by the log's disk; the "
        "kernel's trace of requests tells the log's files from what the file system writes for them."
    )
    products: ClassVar = tuple(OPTIONS)
    takes_url: ClassVar = False
    usual: ClassVar[ServersLoad] = LogLoad()

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        return plans.cases(load)

    def load(self, table: Table) -> ServersLoad:
        known = LogLoad()
        common: dict[str, Any] = {
            "sessions": table.take_list("sessions", int, known.sessions, least=1),
            "seconds": table.take("seconds", float, known.seconds, least=0.2),
            "repeats": table.take("repeats", int, known.repeats, least=1),
            "load_timeout_s": table.take("load_timeout_s", float, known.load_timeout_s, least=1),
        }
        load = LogLoad(
            **common, commit_bytes=table.take_list("commit_bytes", int, known.commit_bytes, least=1),
            write_back=table.take("write_back", bool, known.write_back),
        )  # fmt: skip
        table.refuse_unknown()
        return load

    def options(self, table: Table, product: str) -> list[Options]:
        return combinations(table.take_table("options"), OPTIONS[product])

    def needed_bytes(self, plan: ServersPlan) -> int:
        return plans.needed_bytes_each(plan.load) * len(plan.servers)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        return {name: run.LoggedProduct(plan, name) for name in self.products}

    def bench(self, plan: ServersPlan) -> Bench:
        return run.LogWrites(plan)

    def sections(self, results: ServerResults[CommitsRecord]) -> list[Section]:
        return tables.sections(results)
