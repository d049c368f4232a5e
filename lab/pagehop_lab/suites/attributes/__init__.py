"""`attributes`: the cost of the Nth attribute, in three layouts, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from devserver import mongo
from pagehop_lab.analysis.case import Case
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.servers import Options, ServersPlan
from pagehop_lab.plan.tables import Table, choose
from pagehop_lab.run.servers import Bench, Product
from pagehop_lab.suites.attributes import measure, run, tables
from pagehop_lab.suites.attributes.cases import CASES, MODELS
from pagehop_lab.suites.attributes.records import DocumentRecord
from pagehop_lab.suites.inserts import tables as inserts
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.sql_servers import OrRunning, sql
from pagehop_lab.suites.table import Section
from pagehop_lab.suites.table import Table as Shown

_ATTRIBUTE_BYTES = 32


@dataclass(frozen=True)
class AttributesLoad(ServersLoad):
    """Documents, which are generated for each number of attributes."""

    rows: int = 2_000
    repeats: int = 2


class Attributes(ServersSuite[DocumentRecord]):
    name: ClassVar = "attributes"
    how: ClassVar = (
        "For each number of attributes and each layout a table is made, filled, settled, asked by one client at "
        "full speed on one core with its connection, and dropped; every other time the servers go the other way "
        "round. A figure is invalid, and compared with nothing, if anything failed, the client was busy for more "
        "than half of a core's time, storage was read, the key's index was not used, or an answer had not one "
        "row."
    )
    products: ClassVar = tuple(MODELS)
    usual: ClassVar[ServersLoad] = AttributesLoad()

    def cases(self, load: ServersLoad) -> Sequence[Case]:
        return CASES

    def options(self, table: Table, product: str) -> list[Options]:
        known = MODELS[product]
        return [(("model", choose(table.at("model"), table.take("model", str, known[0]), known)),)]

    def needed_bytes(self, plan: ServersPlan) -> int:
        # One table at a time, and its log.
        return self.room(plan, 2 * _ATTRIBUTE_BYTES * max(case.range for case in plan.cases), 0)

    def servers(self, plan: ServersPlan) -> Mapping[str, Product]:
        found = sql(measure.TABLE)
        products: Mapping[str, Product] = {"ferretdb": run.FerretDb(), "mongod": run.NoRelease()}
        for name, product in products.items():
            found[name] = OrRunning(product, measure.TABLE, mongo.Running)
        return {name: run.WithModel(product) for name, product in found.items()}

    def bench(self, plan: ServersPlan) -> Bench:
        return run.Attributes(plan)

    def of_the_run(self, results: ServerResults[DocumentRecord]) -> list[Shown]:
        return inserts.of_the_run(results)

    def sections(self, results: ServerResults[DocumentRecord]) -> list[Section]:
        return tables.sections(results)
