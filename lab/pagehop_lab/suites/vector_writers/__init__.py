"""`vector-writers`: the cost of many writers for a table with a vector index, and for its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pagehop_lab import data
from pagehop_lab.analysis.aims import Figure
from pagehop_lab.analysis.case import Case
from pagehop_lab.measure import crew
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import Options, ServersPlan
from pagehop_lab.plan.tables import PlanError, Table, choose
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.compared import Compared
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.suite import Run
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown
from pagehop_lab.suites.vector_inserts.servers import PostgresVectorProduct
from pagehop_lab.suites.vector_writers import plan as plans
from pagehop_lab.suites.vector_writers import run as runs
from pagehop_lab.suites.vector_writers import tables
from pagehop_lab.suites.vector_writers.plan import FIGURES, WritersLoad
from pagehop_lab.suites.vector_writers.records import WritersRecord
from pagehop_lab.suites.vector_writers.servers import PRODUCTS, WritersProduct

_VERSION = "18"
# Dimensions if a set's name has none: those of the texts here.
_DIM = 384
# Bytes of a row in the table and its indexes: per dimension, and for links and the rest.
_BYTES_PER_DIM, _BYTES_PER_ROW = 12, 1500


class VectorWriters(ServersSuite[WritersRecord]):
    name: ClassVar = "vector-writers"
    how: ClassVar = (
        "Every step begins with a copy of the same table and index, and a checkpoint. Writers are processes that "
        "insert the next rows of the set, in a random order and none twice, each row committed. Searches follow a "
        "schedule, and their latency counts from the scheduled time. CPU is that of all of the server's processes; "
        "the clients' is beside it. A figure is invalid, and compared with nothing, if anything failed, a client was "
        "busy for more than half of a core's time, less than 95% of the rows of a schedule were written, or the index "
        "was not used."
    )
    products: ClassVar = PRODUCTS
    takes_url: ClassVar = False
    usual: ClassVar[ServersLoad] = WritersLoad()
    ratios: ClassVar = True
    figures: ClassVar[Mapping[str, Figure]] = FIGURES
    compared_loads: ClassVar = plans.COMPARED_LOADS

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        assert isinstance(load, WritersLoad)
        return plans.cases(load)

    def load(self, table: Table) -> ServersLoad:
        known = WritersLoad()
        dataset = table.take("dataset", str, known.dataset)
        if not data.known(dataset):
            choose(table.at("dataset"), dataset, data.NAMED)
        given: dict[str, Any] = {"dataset": dataset}
        counts = {"dataset_rows": 0, "rows": 1000, "copy_rows": 1, "log_rows": 1, "recall_rows": 1}
        counts |= {"clients": 1, "queries": 1, "k": 1, "repeats": 1}
        for name, least in counts.items():
            given[name] = table.take(name, int, getattr(known, name), least=least)
        seconds = ("seconds", "log_seconds", "vacuum_seconds", "search_seconds", "search_rate", "load_timeout_s")
        for name in seconds:
            given[name] = table.take(name, float, getattr(known, name), least=0.2)
        for name in ("dead_share", "write_share"):
            given[name] = table.take(name, float, getattr(known, name), least=0.01)
            if given[name] > 1:
                raise PlanError(f"{table.at(name)} = {given[name]:g}: the most is 1")
        given["recall_lists"] = table.take_list("recall_lists", int, known.recall_lists, least=given["k"])
        table.refuse_unknown()
        return WritersLoad(**given)

    def versions(self, product: str) -> Sequence[str]:
        return [_VERSION]

    def usual_versions(self, product: str) -> tuple[str, ...]:
        return (_VERSION,)

    def options(self, table: Table, product: str) -> list[Options]:
        return [tuple(table.take_table("options").rest().items())]

    def needed_bytes(self, plan: ServersPlan) -> int:
        assert isinstance(plan.load, WritersLoad)
        rows = plans.rows_max(plan.load, [case.name for case in plan.cases])
        if plan.load.dataset_rows:
            rows = min(rows, plan.load.dataset_rows)
        # A name has the dimensions first, then perhaps rows: tokens-384-1500000.
        dim = next((int(part) for part in plan.load.dataset.split("-") if part.isdigit()), _DIM)
        # Steps come one after the other, and the log of each goes with it.
        return self.room(plan, 0, 0) + 3 * rows * (_BYTES_PER_DIM * dim + _BYTES_PER_ROW)

    def amount(self, plan: ServersPlan) -> str:
        """How much a plan is."""
        assert isinstance(plan.load, WritersLoad)
        load = plan.load
        each = {
            "write": load.seconds, "log_interval": load.log_seconds, "vacuum": 2 * load.seconds,
            "search": 2 * load.search_seconds + load.seconds,
        }  # fmt: skip
        planned = [
            case for repeat in range(load.repeats) for server in plan.servers for case in plan.cases_of(server, repeat)
        ]
        least = sum(each.get(case.script, 0) for case in planned) / 60
        return f"{len(planned):,} points, at least {least:,.0f} minutes; {self.needed_bytes(plan) / 1e9:.1f} GB at once"

    def run(self, run: Run[ServersPlan]) -> None:
        """Measures everything that is not in the folder yet."""
        crew.prepare()
        super().run(run)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        return {name: WritersProduct(PostgresVectorProduct(name)) for name in PRODUCTS}

    def bench(self, plan: ServersPlan) -> Bench:
        return runs.VectorWriters(plan)

    def compared(self, case: str) -> Sequence[Compared[WritersRecord]]:
        return plans.compared(case)

    def of_the_run(self, results: ServerResults[WritersRecord]) -> list[Shown]:
        return tables.of_the_run(results)

    def sections(self, results: ServerResults[WritersRecord]) -> list[Section]:
        return tables.sections(results)
